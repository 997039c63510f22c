// SPDX-License-Identifier: MIT
//
// What the machine can do between two cores, with nothing in the way.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/ring.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr Batches kRoundTrips = {400, 500};
constexpr Batches kWakeUps = {60, 50};
constexpr Batches kMessages = {200, 10000};

// ------------------------------------------------------------------------------------------------
// Line: two threads of one process hand a cache line to and fro.
// ------------------------------------------------------------------------------------------------

struct alignas(kLine) Line {
  std::atomic<uint64_t> turn{0};
};

// One side: it writes the numbers from `first` on, in steps of two; the other side writes the
// others.
class LineEnd {
 public:
  LineEnd(Line& line, bool leads) : line_(line), mine_(leads ? 1 : 2), theirs_(leads ? 2 : 1) {}
  // SYNC(bench-line): release pairs with the acquire in LineEnd::await.
  void send(uint64_t i) { line_.turn.store(2 * i + mine_, std::memory_order_release); }
  void await(uint64_t i) {
    // SYNC(bench-line): acquire pairs with the release in LineEnd::send.
    while (line_.turn.load(std::memory_order_acquire) != 2 * i + theirs_) {
    }
  }

 private:
  Line& line_;
  uint64_t mine_, theirs_;
};

Outcome measure_line(Channel&) {
  Line line;
  std::thread other([&line, core = other_core()] {
    pin(core);
    LineEnd end(line, false);
    follow(end, kRoundTrips);
  });
  LineEnd end(line, true);
  const double round_trip = lead(end, kRoundTrips);
  other.join();
  return {{round_trip / 2}, {}};
}

// ------------------------------------------------------------------------------------------------
// Ring: slots of a line in shared memory, one producer, one consumer.
// ------------------------------------------------------------------------------------------------

struct RingPair {
  RingMemory there, back;
};

// The memory of both rings. The file is made once, before the processes are.
class RingFile {
 public:
  RingFile() : fd_(::memfd_create("urma-bench-ring", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::ftruncate(fd_, sizeof(RingPair)) != 0) fail_errno("memfd_create");
  }
  RingPair& map() const {
    void* at = ::mmap(nullptr, sizeof(RingPair), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) fail_errno("mmap of a memfd");
    return *static_cast<RingPair*>(at);
  }

 private:
  const int fd_;  // kept open until the program ends
};

struct RingEnd {
  Producer out;
  Consumer in;
  void send(uint64_t i) { out.push(i); }
  // No require(): it would make its text each time.
  void await(uint64_t i) {
    if (in.pop() != i) throw Failure("the bare ring lost a message");
  }
};

Outcome lead_ring(Channel& peer, const RingFile& file) {
  RingPair& rings = file.map();
  std::memset(static_cast<void*>(&rings), 0, sizeof(rings));
  peer.sync();
  RingEnd end{Producer(rings.there), Consumer(rings.back)};
  const double round_trip = lead(end, kRoundTrips);
  for (uint64_t i = 0; i < kMessages.total(); i++) end.send(i);
  return {{round_trip / 2, 1e9 / peer.receive<double>()}, {}};
}

void follow_ring(Channel& peer, const RingFile& file) {
  RingPair& rings = file.map();
  peer.sync();
  RingEnd end{Producer(rings.back), Consumer(rings.there)};
  follow(end, kRoundTrips);
  peer.send(time_steps(kMessages, [&end](uint64_t i) { end.await(i); }));
}

Measure ring_measure() {
  auto file = std::make_shared<RingFile>();
  return {"ring",
          {"ring latency", "ring rate"},
          [file](Channel& peer) { return lead_ring(peer, *file); },
          [file](Channel& peer) { follow_ring(peer, *file); }};
}

// ------------------------------------------------------------------------------------------------
// Eventfd: two processes wake each other.
// ------------------------------------------------------------------------------------------------

struct EventfdEnd {
  int out;
  int in;
  void send(uint64_t) const {
    const uint64_t one = 1;
    if (::write(out, &one, sizeof(one)) != sizeof(one)) fail_errno("write to an eventfd");
  }
  void await(uint64_t) const {
    uint64_t count;
    if (::read(in, &count, sizeof(count)) != sizeof(count)) fail_errno("read from an eventfd");
  }
};

Measure eventfd_measure() {
  const int there = ::eventfd(0, EFD_CLOEXEC);
  const int back = ::eventfd(0, EFD_CLOEXEC);
  if (there < 0 || back < 0) fail_errno("eventfd");
  return {"eventfd",
          {"eventfd round trip"},
          [there, back](Channel&) -> Outcome {
            EventfdEnd end{there, back};
            return {{lead(end, kWakeUps)}, {}};
          },
          [there, back](Channel&) {
            EventfdEnd end{back, there};
            follow(end, kWakeUps);
          }};
}

// Copies `bytes` bytes between two buffers of one process. On page boundaries, as the memory is
// that the library is measured with.
Outcome copy(size_t bytes) {
  const Memory from = make_memory(bytes), to = make_memory(bytes);
  const Batches batches = large_batches(bytes);
  const double time = time_steps(batches, [&](uint64_t i) {
    const size_t at = i % bytes;
    from.get()[at] = static_cast<char>(i + 1);
    std::memcpy(to.get(), from.get(), bytes);
    require(to.get()[at] == static_cast<char>(i + 1), "memcpy copied nothing");
  });
  return {{static_cast<double>(bytes) * 1e9 / time}, {}};
}

Measure memcpy_measure(const std::string& name, size_t bytes) {
  return {name, {name}, [bytes](Channel&) { return copy(bytes); }, {}};
}

}  // namespace

std::vector<Measure> limit_measures() {
  return {
      {"line", {"line latency"}, measure_line, {}},
      ring_measure(),
      eventfd_measure(),
      memcpy_measure("memcpy of 64 KiB", 64 << 10),
      memcpy_measure("memcpy of 1 MiB", 1 << 20),
  };
}

}  // namespace bench
