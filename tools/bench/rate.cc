// SPDX-License-Identifier: MIT
//
// How much goes through: small messages, small writes, large writes.

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr uint32_t kBytes = 8;
constexpr size_t kLine = 64;
constexpr uint32_t kPeriod = 16;  // of the requests that leave a completion
constexpr uint32_t kBulk = 32;    // arrivals taken, and receives posted, in one call
constexpr uint32_t kLargeBytes = 1 << 20;

constexpr size_t kIn = 0;
constexpr size_t kOut = 32 << 10;

constexpr Batches kMessages = {100, 5000};
constexpr Batches kLarge = {60, 4};
constexpr double kBudgetNs = 1e9;

// Posts the receives `from` to `from + n - 1` in one call.
void post_receives(const Session& session, uint64_t from, uint32_t n) {
  std::array<urma_sge_t, kBulk> sge;
  std::array<urma_jfr_wr_t, kBulk> wr = {};
  for (uint32_t i = 0; i < n; i++) {
    sge[i] = session.here(kIn + (from + i) % Session::kReceiveDepth * kLine, kBytes);
    wr[i].src = {&sge[i], 1};
    wr[i].next = i + 1 < n ? &wr[i + 1] : nullptr;
  }
  session.post_receives(wr.data());
}

Outcome send_messages(Channel& peer) {
  const Session session(peer, {});
  urma_sge_t from = session.here(kOut, kBytes);
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND;
  wr.tjetty = session.target();
  wr.send.src = {&from, 1};
  Poster poster(session, kPeriod);
  peer.sync();
  for (uint64_t i = 0; i < kMessages.total(); i++) {
    char* const slot = session.at(kOut + i % Poster::kSlots * kLine);
    std::memcpy(slot, &i, sizeof(i));
    from.addr = reinterpret_cast<uintptr_t>(slot);
    poster.post(wr);
  }
  poster.drain();
  const auto time = peer.receive<double>();
  peer.sync();
  return {{1e9 / time}, {}};
}

// Takes messages in bulk, and posts as many receives once all of a bulk have been read.
class Receiver {
 public:
  explicit Receiver(const Session& session) : session_(session) {
    while (posted_ < Session::kReceiveDepth) post(kBulk);
  }
  void take(uint64_t i) {
    while (left_ == 0) left_ = bulk_ = poll(session_.arrived(), kBulk, cr_.data());
    uint64_t message;
    std::memcpy(&message, session_.at(kIn + i % Session::kReceiveDepth * kLine), sizeof(message));
    if (message != i) throw Failure("a wrong message arrived");
    if (--left_ == 0) post(static_cast<uint32_t>(bulk_));
  }

 private:
  void post(uint32_t n) {
    post_receives(session_, posted_, n);
    posted_ += n;
  }

  const Session& session_;
  uint64_t posted_ = 0;
  std::array<urma_cr_t, kBulk> cr_;
  int bulk_ = 0;
  int left_ = 0;  // of the bulk
};

void take_messages(Channel& peer) {
  const Session session(peer, {});
  Receiver receiver(session);
  peer.sync();
  peer.send(time_steps(kMessages, [&receiver](uint64_t i) { receiver.take(i); }));
  peer.sync();
}

// Writes `bytes` bytes again and again, each time to the next `slots`th place. Returns the time of
// one, and leaves `period` of them to complete together.
Outcome write(Channel& peer, const SessionOptions& options, Batches batches, uint32_t bytes,
              uint32_t slots, uint32_t period) {
  const Session session(peer, options);
  urma_sge_t from = session.here(0, bytes);
  urma_sge_t to = session.there(0, bytes);
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_WRITE;
  wr.tjetty = session.target();
  wr.rw.src = {&from, 1};
  wr.rw.dst = {&to, 1};
  const uint64_t from_base = from.addr + options.bytes / 2;
  const uint64_t to_base = to.addr;
  Poster poster(session, period);
  const auto step = [&](uint64_t i) {
    const uint64_t offset = i % slots * std::max<size_t>(bytes, kLine);
    from.addr = from_base + offset;
    to.addr = to_base + offset;
    poster.post(wr);
    if (period == 1) poster.drain();
  };
  const double time = time_steps(batches, step, kBudgetNs);
  poster.drain();
  std::string note = session.why_not_mapped();
  peer.sync();
  return {{time}, std::move(note)};
}

void be_written(Channel& peer, const SessionOptions& options) {
  const Session session(peer, options);
  peer.sync();
}

// A measurement of `write`, whose figure is `unit` of each request per second.
Measure write_measure(const std::string& name, SessionOptions options, Batches batches,
                      uint32_t bytes, uint32_t slots, uint32_t period, double unit,
                      const std::string& beside) {
  return {name,
          {name},
          [=](Channel& peer) -> Outcome {
            Outcome outcome = write(peer, options, batches, bytes, slots, period);
            outcome.values[0] = unit * 1e9 / outcome.values[0];
            return outcome;
          },
          [=](Channel& peer) { be_written(peer, options); },
          {beside}};
}

}  // namespace

std::vector<Measure> rate_measures() {
  return {
      {"send rate", {"send rate"}, send_messages, take_messages, {"ring"}},
      write_measure("write rate", {}, kMessages, kBytes, Poster::kSlots, kPeriod, 1, "ring"),
      write_measure("write bandwidth", {.bytes = 2 * kLargeBytes}, kLarge, kLargeBytes, 1, 1,
                    kLargeBytes, "memcpy"),
  };
}

}  // namespace bench
