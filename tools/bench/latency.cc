// SPDX-License-Identifier: MIT
//
// Latency of 8 bytes: written, sent, fetched, counted, and with both sides asleep.

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
constexpr uint32_t kPeriod = 16;    // SENDs per signalled one
constexpr uint32_t kReceives = 32;  // posted at a time

// Offsets in the memory of both sides, on separate pages.
constexpr size_t kIn = 0;
constexpr size_t kOut = 16 << 10;

constexpr Batches kRoundTrips = {200, 200};
constexpr Batches kRequests = {200, 200};
constexpr Batches kWakeUps = {60, 50};
constexpr double kBudgetNs = 1e9;

// ------------------------------------------------------------------------------------------------
// WRITE: both sides spin on the last byte of their own memory.
// ------------------------------------------------------------------------------------------------

class WriteEnd {
 public:
  explicit WriteEnd(const Session& session)
      : session_(session),
        poster_(session, 1),
        from_(session.here(kOut, kBytes)),
        to_(session.there(kIn, kBytes)),
        last_(reinterpret_cast<const volatile uint8_t*>(session.at(kIn)) + kBytes - 1) {
    wr_.opcode = URMA_OPC_WRITE;
    wr_.tjetty = session.target();
    wr_.rw.src = {&from_, 1};
    wr_.rw.dst = {&to_, 1};
  }
  void send(uint64_t i) {
    char* const slot = session_.at(kOut + i % Poster::kSlots * kLine);
    std::memset(slot, mark(i), kBytes);
    from_.addr = reinterpret_cast<uintptr_t>(slot);
    poster_.post(wr_);
  }
  void await(uint64_t i) {
    poster_.poll();  // while the byte is in flight
    while (*last_ != mark(i)) {
    }
  }
  void finish() { poster_.drain(); }
  std::string note() const { return session_.why_not_mapped(); }

 private:
  static uint8_t mark(uint64_t i) { return static_cast<uint8_t>(i % 255 + 1); }

  const Session& session_;
  Poster poster_;
  urma_sge_t from_, to_;
  urma_jfs_wr_t wr_ = {};
  const volatile uint8_t* const last_;
};

// ------------------------------------------------------------------------------------------------
// SEND: both sides poll for arrivals, or sleep until one comes.
// ------------------------------------------------------------------------------------------------

class SendEnd {
 public:
  explicit SendEnd(const Session& session)
      : session_(session), poster_(session, kPeriod), from_(session.here(kOut, kBytes)) {
    wr_.opcode = URMA_OPC_SEND;
    wr_.tjetty = session.target();
    wr_.send.src = {&from_, 1};
    for (uint64_t i = 0; i < kReceives; i++) post_receive(i);
  }
  void send(uint64_t i) {
    char* const slot = session_.at(kOut + i % Poster::kSlots * kLine);
    std::memcpy(slot, &i, sizeof(i));
    from_.addr = reinterpret_cast<uintptr_t>(slot);
    poster_.post(wr_);
  }
  void await(uint64_t i) {
    if (i > 0) post_receive(i - 1 + kReceives);  // while the message is in flight
    poster_.poll();
    urma_cr_t cr;
    do {
      if (session_.channel() != nullptr) sleep();
    } while (poll(session_.arrived(), 1, &cr) == 0);
    uint64_t message;
    std::memcpy(&message, buffer(i), sizeof(message));
    if (message != i || cr.completion_len != kBytes) throw Failure("a wrong message arrived");
  }
  void finish() { poster_.drain(); }
  static std::string note() { return {}; }

 private:
  char* buffer(uint64_t i) const { return session_.at(kIn + i % kReceives * kLine); }
  void post_receive(uint64_t i) const {
    urma_sge_t sge = session_.here(kIn + i % kReceives * kLine, kBytes);
    urma_jfr_wr_t wr = {};
    wr.src = {&sge, 1};
    session_.post_receives(&wr);
  }
  void sleep() const {
    ok(urma_rearm_jfc(session_.arrived(), false), "urma_rearm_jfc");
    urma_jfc_t* jfc = nullptr;
    const int n = urma_wait_jfc(session_.channel(), 1, 10000, &jfc);
    if (n != 1 || jfc != session_.arrived()) {
      throw Failure("urma_wait_jfc returned " + std::to_string(n));
    }
    uint32_t events = 1;
    urma_ack_jfc(&jfc, &events, 1);
  }

  const Session& session_;
  Poster poster_;
  urma_sge_t from_;
  urma_jfs_wr_t wr_ = {};
};

// Runs a ping-pong of `End` in both processes; reports `share` of the round trip as one figure.
template <typename End>
Measure ping_pong(const std::string& name, SessionOptions options, Batches batches, int share,
                  const std::vector<std::string>& beside = {"line"}) {
  return {name,
          {name},
          [=](Channel& peer) -> Outcome {
            const Session session(peer, options);
            End end(session);
            peer.sync();
            const double round_trip = lead(end, batches);
            end.finish();
            peer.sync();
            return {{round_trip / share}, end.note()};
          },
          [=](Channel& peer) {
            const Session session(peer, options);
            End end(session);
            peer.sync();
            follow(end, batches);
            end.finish();
            peer.sync();
          },
          beside};
}

// ------------------------------------------------------------------------------------------------
// READ, WRITE and atomics: one side posts and polls until it is done, the other one polls or
// sleeps.
// ------------------------------------------------------------------------------------------------

struct OneSided {
  explicit OneSided(const Session& session)
      : there(session.there(kIn, kBytes)),
        here(session.here(kOut, kBytes)),
        old(reinterpret_cast<uint64_t*>(session.at(kOut))) {
    wr.tjetty = session.target();
  }
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;

  urma_sge_t there, here;
  urma_jfs_wr_t wr = {};
  const uint64_t* const old;  // what came back
};

void prepare_read(OneSided& request) {
  request.wr.opcode = URMA_OPC_READ;
  request.wr.rw.src = {&request.there, 1};
  request.wr.rw.dst = {&request.here, 1};
}

void prepare_write(OneSided& request) {
  request.wr.opcode = URMA_OPC_WRITE;
  request.wr.rw.src = {&request.here, 1};
  request.wr.rw.dst = {&request.there, 1};
}

void prepare_add(OneSided& request) {
  request.wr.opcode = URMA_OPC_FADD;
  request.wr.faa = {&request.there, &request.here, {1}};
}

void prepare_swap(OneSided& request) {
  request.wr.opcode = URMA_OPC_CAS;
  request.wr.cas = {&request.there, &request.here, {0}, {1}};
}

void check_nothing(OneSided&, uint64_t) {}

void check_read(OneSided& request, uint64_t) {
  if (*request.old != 0) throw Failure("a read brought wrong bytes");
}

void check_add(OneSided& request, uint64_t i) {
  if (*request.old != i) throw Failure("a fetch-add brought a wrong value");
}

// The next request compares with the value that this one has stored.
void check_swap(OneSided& request, uint64_t i) {
  if (*request.old != i) throw Failure("a compare-and-swap brought a wrong value");
  request.wr.cas.cmp_data = i + 1;
  request.wr.cas.swap_data = i + 2;
}

enum class Target { kAsleep, kPolling };

Measure one_sided(const std::string& name, void (*prepare)(OneSided&),
                  void (*check)(OneSided&, uint64_t), const SessionOptions& options = {},
                  Target target = Target::kAsleep, const std::string& beside = "line") {
  return {name,
          {name},
          [=](Channel& peer) -> Outcome {
            const Session session(peer, options);
            Poster poster(session, 1);
            OneSided request(session);
            prepare(request);
            const auto step = [&](uint64_t i) {
              poster.post(request.wr);
              poster.drain();
              check(request, i);
            };
            const double time = time_steps(kRequests, step, kBudgetNs);
            std::string note = options.device == nullptr ? session.why_not_mapped() : "";
            peer.sync();
            return {{time}, std::move(note)};
          },
          [=](Channel& peer) {
            const Session session(peer, options);
            if (target == Target::kPolling) poll_meanwhile(session, peer);
            peer.sync();
          },
          {beside}};
}

// Over the network, and over the bonded device.
std::vector<Measure> network_measures() {
  constexpr SessionOptions kNet = {.device = kNetwork};
  constexpr SessionOptions kNear = {.device = kBonded};
  constexpr SessionOptions kFar = {.device = kBonded, .apart = true};
  constexpr Target kPolling = Target::kPolling;
  const std::string tcp = "TCP round trip";
  const std::string asleep = "TCP round trip, asleep";
  return {
      ping_pong<SendEnd>("net send latency", kNet, kRoundTrips, 2, {tcp}),
      one_sided("net write latency", prepare_write, check_nothing, kNet, kPolling, tcp),
      one_sided("net read latency", prepare_read, check_read, kNet, kPolling, tcp),
      one_sided("net fetch-add latency", prepare_add, check_add, kNet, kPolling, tcp),
      one_sided("net write latency, asleep", prepare_write, check_nothing, kNet, Target::kAsleep,
                asleep),
      one_sided("net read latency, asleep", prepare_read, check_read, kNet, Target::kAsleep,
                asleep),
      one_sided("net fetch-add latency, asleep", prepare_add, check_add, kNet, Target::kAsleep,
                asleep),
      ping_pong<WriteEnd>("bond write latency", kNear, kRoundTrips, 2, {"write latency, RM"}),
      ping_pong<SendEnd>("bond send latency", kNear, kRoundTrips, 2, {"send latency, RM"}),
      one_sided("bond fetch-add latency", prepare_add, check_add, kNear, Target::kAsleep,
                "fetch-add latency"),
      ping_pong<SendEnd>("bond send latency, far", kFar, kRoundTrips, 2, {"net send latency"}),
      one_sided("bond write latency, far", prepare_write, check_nothing, kFar, kPolling,
                "net write latency"),
      one_sided("bond fetch-add latency, far", prepare_add, check_add, kFar, kPolling,
                "net fetch-add latency"),
  };
}

}  // namespace

std::vector<Measure> latency_measures(bool lock_free) {
  const SessionOptions rm = {.lock_free = lock_free};
  const SessionOptions rc = {.mode = URMA_TM_RC, .lock_free = lock_free};
  const SessionOptions events = {.events = true, .lock_free = lock_free};
  std::vector<Measure> measures = {
      ping_pong<WriteEnd>("write latency, RM", rm, kRoundTrips, 2),
      ping_pong<WriteEnd>("write latency, RC", rc, kRoundTrips, 2),
      ping_pong<SendEnd>("send latency, RM", rm, kRoundTrips, 2, {"line", "write latency, RM"}),
      ping_pong<SendEnd>("send latency, RC", rc, kRoundTrips, 2),
      one_sided("fetch-add latency", prepare_add, check_add, rm),
      one_sided("compare-and-swap latency", prepare_swap, check_swap, rm),
      one_sided("read latency", prepare_read, check_read, rm),
      ping_pong<SendEnd>("event round trip", events, kWakeUps, 1, {"eventfd"}),
  };
  if (!lock_free) {
    for (Measure& measure : network_measures()) measures.push_back(std::move(measure));
  }
  return measures;
}

}  // namespace bench
