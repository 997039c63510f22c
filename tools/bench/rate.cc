// SPDX-License-Identifier: MIT
//
// Throughput: small messages, small writes, and large transfers of each kind.

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
constexpr uint32_t kPeriod = 16;        // requests per signalled one
constexpr uint32_t kBulk = 32;          // arrivals taken, and receives posted, per call
constexpr uint32_t kLargeReceives = 2;  // buffers for large messages
constexpr uint64_t kMark = 0x5eed5eed5eed5eed;

constexpr size_t kIn = 0;
constexpr size_t kOut = 32 << 10;

constexpr Batches kMessages = {100, 5000};
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

Outcome send_messages(Channel& peer, const SessionOptions& options) {
  const Session session(peer, options);
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

// The same, 16 in one call.
Outcome send_chains(Channel& peer, const SessionOptions& options) {
  const Session session(peer, options);
  std::array<urma_sge_t, kPeriod> from;
  std::array<urma_jfs_wr_t, kPeriod> wr = {};
  for (uint32_t i = 0; i < kPeriod; i++) {
    wr[i].opcode = URMA_OPC_SEND;
    wr[i].tjetty = session.target();
    wr[i].send.src = {&from[i], 1};
    wr[i].next = i + 1 < kPeriod ? &wr[i + 1] : nullptr;
  }
  Poster poster(session, kPeriod);
  peer.sync();
  for (uint64_t message = 0; message < kMessages.total();) {
    for (urma_sge_t& sge : from) {
      const size_t at = kOut + message % Poster::kSlots * kLine;
      std::memcpy(session.at(at), &message, sizeof(message));
      sge = session.here(at, kBytes);
      message++;
    }
    poster.post_chain(&wr.front(), &wr.back());
  }
  poster.drain();
  const auto time = peer.receive<double>();
  peer.sync();
  return {{1e9 / time}, {}};
}

// Takes messages in bulk, and posts as many receives once a whole bulk has been read.
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
  int left_ = 0;  // unread, of the bulk
};

void take_messages(Channel& peer, const SessionOptions& options) {
  const Session session(peer, options);
  Receiver receiver(session);
  peer.sync();
  peer.send(time_steps(kMessages, [&receiver](uint64_t i) { receiver.take(i); }));
  peer.sync();
}

Measure send_rate(const std::string& name, Outcome (*send)(Channel&, const SessionOptions&),
                  const SessionOptions& options) {
  return {name,
          {name},
          [=](Channel& peer) { return send(peer, options); },
          [=](Channel& peer) { take_messages(peer, options); },
          {"ring"}};
}

// Single messages, and chains beside them.
Measure network_rates() {
  constexpr SessionOptions kNet = {.device = kNetwork};
  return {"net send rate",
          {"net send rate", "net send rate, chains"},
          [=](Channel& peer) -> Outcome {
            const double single = send_messages(peer, kNet).values[0];
            return {{single, send_chains(peer, kNet).values[0]}, {}};
          },
          [=](Channel& peer) {
            take_messages(peer, kNet);
            take_messages(peer, kNet);
          }};
}

// ------------------------------------------------------------------------------------------------
// Large messages: each goes from the sender's one buffer to the receiver's next one.
// ------------------------------------------------------------------------------------------------

uint64_t& word_at(const Session& session, size_t offset) {
  return *reinterpret_cast<uint64_t*>(session.at(offset));
}

// With memory for messages of `bytes` bytes.
SessionOptions with_room(SessionOptions options, uint32_t bytes) {
  options.bytes = (kLargeReceives + 1) * size_t{bytes};
  return options;
}

Outcome send_large(Channel& peer, uint32_t bytes, const SessionOptions& options) {
  const Session session(peer, with_room(options, bytes));
  const size_t at = kLargeReceives * size_t{bytes};
  word_at(session, at) = word_at(session, at + bytes - sizeof(uint64_t)) = kMark;
  urma_sge_t from = session.here(at, bytes);
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND;
  wr.tjetty = session.target();
  wr.send.src = {&from, 1};
  Poster poster(session, 1);
  peer.sync();
  for (uint64_t i = 0; i < large_batches(bytes).total(); i++) poster.post(wr);
  poster.drain();
  const auto time = peer.receive<double>();
  peer.sync();
  return {{bytes * 1e9 / time}, {}};
}

void post_large(const Session& session, uint64_t i, uint32_t bytes) {
  const size_t at = i % kLargeReceives * bytes;
  word_at(session, at) = word_at(session, at + bytes - sizeof(uint64_t)) = 0;
  urma_sge_t sge = session.here(at, bytes);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  session.post_receives(&wr);
}

void take_large(Channel& peer, uint32_t bytes, const SessionOptions& options) {
  const Session session(peer, with_room(options, bytes));
  for (uint64_t i = 0; i < kLargeReceives; i++) post_large(session, i, bytes);
  peer.sync();
  const auto step = [&](uint64_t i) {
    urma_cr_t cr;
    while (poll(session.arrived(), 1, &cr) == 0) {
    }
    const size_t at = i % kLargeReceives * bytes;
    if (cr.completion_len != bytes || word_at(session, at) != kMark ||
        word_at(session, at + bytes - sizeof(uint64_t)) != kMark) {
      throw Failure("a wrong large message arrived");
    }
    post_large(session, i, bytes);
  };
  peer.send(time_steps(large_batches(bytes), step));
  peer.sync();
}

Measure large_send(const std::string& name, uint32_t bytes, const std::string& beside,
                   const SessionOptions& options) {
  return {name,
          {name},
          [=](Channel& peer) { return send_large(peer, bytes, options); },
          [=](Channel& peer) { take_large(peer, bytes, options); },
          {beside}};
}

// ------------------------------------------------------------------------------------------------
// WRITE and READ.
// ------------------------------------------------------------------------------------------------

// Moves `bytes` bytes repeatedly, each time between the next of `slots` places; `period` requests
// complete together.
struct Access {
  std::string name;
  urma_opcode_t opcode;
  Batches batches;
  uint32_t bytes;
  uint32_t slots;
  uint32_t period;
  std::string beside;
  bool lock_free;
  // The half that the other side uses lies before the own one.
  size_t memory() const { return 2 * slots * std::max<size_t>(bytes, kLine); }
  SessionOptions options() const { return {.lock_free = lock_free, .bytes = memory()}; }
};

// Returns the time of one request.
Outcome run_access(Channel& peer, const Access& access) {
  const Session session(peer, access.options());
  urma_sge_t here = session.here(access.memory() / 2, access.bytes);
  urma_sge_t there = session.there(0, access.bytes);
  urma_jfs_wr_t wr = {};
  wr.opcode = access.opcode;
  wr.tjetty = session.target();
  const bool reads = access.opcode == URMA_OPC_READ;
  wr.rw.src = {reads ? &there : &here, 1};
  wr.rw.dst = {reads ? &here : &there, 1};
  const uint64_t here_base = here.addr;
  const uint64_t there_base = there.addr;
  Poster poster(session, access.period);
  const auto step = [&](uint64_t i) {
    const uint64_t offset = i % access.slots * std::max<size_t>(access.bytes, kLine);
    here.addr = here_base + offset;
    there.addr = there_base + offset;
    poster.post(wr);
    if (access.period == 1) poster.drain();
  };
  const double time = time_steps(access.batches, step, kBudgetNs);
  poster.drain();
  std::string note = session.why_not_mapped();
  peer.sync();
  return {{time}, std::move(note)};
}

// The figure is requests per second times `unit`.
Measure access_measure(const Access& access, double unit) {
  return {access.name,
          {access.name},
          [=](Channel& peer) -> Outcome {
            Outcome outcome = run_access(peer, access);
            outcome.values[0] = unit * 1e9 / outcome.values[0];
            return outcome;
          },
          [=](Channel& peer) {
            const Session session(peer, access.options());
            peer.sync();
          },
          {access.beside}};
}

// Over the network: 4 MiB in flight, completed together, to a target that polls.
Measure network_writes(const std::string& name, uint32_t bytes, const std::string& beside) {
  constexpr Batches kRounds = {60, 1};
  const SessionOptions options = {.bytes = bytes, .device = kNetwork};
  const uint64_t window = large_batches(bytes).steps;
  return {name,
          {name},
          [=](Channel& peer) -> Outcome {
            const Session session(peer, options);
            urma_sge_t here = session.here(0, bytes), there = session.there(0, bytes);
            urma_jfs_wr_t wr = {};
            wr.opcode = URMA_OPC_WRITE;
            wr.tjetty = session.target();
            wr.rw.src = {&here, 1};
            wr.rw.dst = {&there, 1};
            Poster poster(session, 1);
            const double time = time_steps(kRounds, [&](uint64_t) {
              for (uint64_t i = 0; i < window; i++) poster.post(wr);
              poster.drain();
            });
            peer.sync();
            return {{static_cast<double>(window * bytes) * 1e9 / time}, {}};
          },
          [=](Channel& peer) {
            const Session session(peer, options);
            poll_meanwhile(session, peer);
            peer.sync();
          },
          {beside}};
}

// One at a time, between the same two buffers, as memcpy is measured.
Measure large_access(const std::string& name, urma_opcode_t opcode, uint32_t bytes,
                     const std::string& beside, bool lock_free) {
  return access_measure({name, opcode, large_batches(bytes), bytes, 1, 1, beside, lock_free},
                        bytes);
}

std::vector<Measure> network_measures() {
  constexpr SessionOptions kNet = {.device = kNetwork};
  return {
      network_rates(),
      network_writes("net write bandwidth, 64 KiB", 64 << 10, "TCP, 64 KiB"),
      network_writes("net write bandwidth, 1 MiB", 1 << 20, "TCP, 1 MiB"),
      large_send("net send bandwidth, 64 KiB", 64 << 10, "TCP, 64 KiB", kNet),
      large_send("net send bandwidth, 1 MiB", 1 << 20, "TCP, 1 MiB", kNet),
  };
}

}  // namespace

std::vector<Measure> rate_measures(bool lock_free) {
  const SessionOptions options = {.lock_free = lock_free};
  std::vector<Measure> measures = {
      send_rate("send rate", send_messages, options),
      send_rate("send rate, chains", send_chains, options),
      access_measure({"write rate", URMA_OPC_WRITE, kMessages, kBytes, Poster::kSlots, kPeriod,
                      "ring", lock_free},
                     1),
  };
  for (const auto& [bytes, text] : {std::pair{64 << 10, "64 KiB"}, std::pair{1 << 20, "1 MiB"}}) {
    const std::string size = text;
    const std::string beside = "memcpy of " + size;
    measures.push_back(
        large_access("write bandwidth, " + size, URMA_OPC_WRITE, bytes, beside, lock_free));
    measures.push_back(
        large_access("read bandwidth, " + size, URMA_OPC_READ, bytes, beside, lock_free));
    measures.push_back(large_send("send bandwidth, " + size, bytes, beside, options));
  }
  if (!lock_free) {
    for (Measure& measure : network_measures()) measures.push_back(std::move(measure));
  }
  return measures;
}

}  // namespace bench
