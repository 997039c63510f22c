// SPDX-License-Identifier: MIT
//
// A bare ring: slots of a cache line, one producer, one consumer.
#ifndef TOOLS_BENCH_RING_H_
#define TOOLS_BENCH_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bench {

#ifdef __aarch64__
inline constexpr size_t kLine = 128;
#else
inline constexpr size_t kLine = 64;
#endif

struct alignas(kLine) Slot {
  std::atomic<uint64_t> turn;  // number of the message in it, counting from 1
  uint64_t payload[kLine / sizeof(uint64_t) - 1];
};

struct RingMemory {
  static constexpr uint64_t kSlots = 256;
  alignas(kLine) std::atomic<uint64_t> consumed;
  Slot slots[kSlots];
};

class Producer {
 public:
  explicit Producer(RingMemory& ring) : ring_(ring) {}
  void push(uint64_t value) {
    while (produced_ - consumed_ == RingMemory::kSlots) {
      // SYNC(bench-ring-room): acquire pairs with the release in Consumer::pop.
      consumed_ = ring_.consumed.load(std::memory_order_acquire);
    }
    Slot& slot = ring_.slots[produced_ % RingMemory::kSlots];
    slot.payload[0] = value;
    // SYNC(bench-ring): release pairs with the acquire in Consumer::pop.
    slot.turn.store(++produced_, std::memory_order_release);
  }

 private:
  RingMemory& ring_;
  uint64_t produced_ = 0;
  uint64_t consumed_ = 0;  // as last seen
};

class Consumer {
 public:
  explicit Consumer(RingMemory& ring) : ring_(ring) {}
  uint64_t pop() {
    const Slot& slot = ring_.slots[consumed_ % RingMemory::kSlots];
    // SYNC(bench-ring): acquire pairs with the release in Producer::push.
    while (slot.turn.load(std::memory_order_acquire) != consumed_ + 1) {
    }
    const uint64_t value = slot.payload[0];
    if (++consumed_ % (RingMemory::kSlots / 4) == 0) {
      // SYNC(bench-ring-room): release pairs with the acquire in Producer::push.
      ring_.consumed.store(consumed_, std::memory_order_release);
    }
    return value;
  }

 private:
  RingMemory& ring_;
  uint64_t consumed_ = 0;
};

}  // namespace bench

#endif  // TOOLS_BENCH_RING_H_
