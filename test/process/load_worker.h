// SPDX-License-Identifier: MIT
//
// A process under load: it sends to several others, writes into their memory, reads it back and
// counts in it, and checks everything that it gets.
#ifndef TEST_PROCESS_LOAD_WORKER_H_
#define TEST_PROCESS_LOAD_WORKER_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "test/process/endpoint.h"

namespace urma_test {

inline constexpr size_t kMostProcesses = 200;
inline constexpr size_t kPartners = 4;  // that each sends to: the next ones

struct LoadOffer {
  QueueId queue;
  SegmentId segment;
};

// What a process reports about its traffic, in memory that outlives it. Lives count from 1.
struct Slot {
  std::atomic<uint64_t> life;   // 0: not running
  LoadOffer offer;              // of that life
  std::atomic<uint64_t> moved;  // bytes, of all lives
  std::atomic<uint64_t> messages;
  std::atomic<uint64_t> strays;   // for the previous life, whose end the sender did not know of
  std::atomic<uint64_t> drained;  // the life with nothing outstanding any more
  struct Sent {
    std::atomic<uint64_t> to_life;
    std::atomic<uint64_t> completed;
  };
  struct Received {
    std::atomic<uint64_t> from_life;
    std::atomic<uint64_t> count;
  };
  std::array<Sent, kPartners> sent;          // to the partner at each distance
  std::array<Received, kPartners> received;  // from the process at each distance before it
};

struct Board {
  std::atomic<bool> stop;
  std::array<Slot, kMostProcesses> slots;
};

// Process `index`, until Board::stop is set and none has anything outstanding.
void work(Board* board, size_t processes, size_t index, uint64_t life, uint64_t seed);

}  // namespace urma_test

#endif  // TEST_PROCESS_LOAD_WORKER_H_
