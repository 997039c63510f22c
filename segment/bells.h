// SPDX-License-Identifier: MIT
//
// Bells: how a process tells its peers that one of its JFCs waits for an event. Peers map them
// read-only, look at them after they publish something, and wake the process only if a bell is
// set.
#ifndef SEGMENT_BELLS_H_
#define SEGMENT_BELLS_H_

#include <atomic>
#include <cstdint>

#include "urma/base/cache_line.h"

namespace urma {

// The bits of a bell. 0 in programs that only poll, so that those who publish make one comparison.
inline constexpr uint32_t kForAny = 1;        // an event is waited for
inline constexpr uint32_t kForSolicited = 2;  // of a solicited completion, or of one that failed
// A thread looks by itself before it sleeps: nobody has to wake it.
inline constexpr uint32_t kLooks = 4;
// It is set often: each publisher fences, so that those who wait need not have all others do so.
inline constexpr uint32_t kFences = 8;
inline constexpr uint32_t kArmed = kForAny | kForSolicited;

// Of one JFC. Has a cache line of its own, so that arming other JFCs does not disturb those who
// look at it.
struct alignas(kCacheLine) Bell {
  std::atomic<uint32_t> bits;

  // What is set, to a publisher that has just executed a light barrier.
  [[gnu::always_inline]] uint32_t seen() const {
    const uint32_t first = bits.load(std::memory_order_relaxed);
    return first == 0 ? 0 : seen_after(first);
  }

 private:
  [[gnu::noinline]] uint32_t seen_after(uint32_t first) const {
    if ((first & kFences) == 0) return first;
    // SYNC(bell): as the light barrier before; pairs with the fence of heavy_barrier().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return bits.load(std::memory_order_relaxed);
  }
};
static_assert(sizeof(Bell) == kCacheLine && std::atomic<uint32_t>::is_always_lock_free);

// Bells that never change: one that nobody waits at, and one at which somebody always may.
inline constexpr Bell kSilentBell = {};
inline constexpr Bell kSetBell = {.bits = kForAny};

// Whether somebody may wait at a bell, for the short path: a comparison, without the fence that a
// sure answer needs where there is no process barrier. There `fence` makes it watch a set bell.
class BellWatch {
 public:
  BellWatch() = default;
  BellWatch(const Bell& bell, bool fence) : bell_(fence ? &kSetBell : &bell) {}
  // After something was published.
  [[gnu::always_inline]] bool may_be_set() const {
    // SYNC(bell): as the light barrier before Bell::seen().
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return bell_->bits.load(std::memory_order_relaxed) != 0;
  }

 private:
  const Bell* bell_ = &kSilentBell;
};

// The number of bells of a process; the low bits of a JFC's id say which is its own.
inline constexpr uint32_t kBells = 65536;
inline constexpr uint32_t kNoBell = UINT32_MAX;

// Whether the event of a completion, solicited (or failed) or not, is waited for.
inline bool wanted(uint32_t bits, bool solicited) {
  return (bits & (solicited ? kArmed : kForAny)) != 0;
}
// The same for a peer, and nobody looks for it.
inline bool wakes(uint32_t bits, bool solicited) {
  return (bits & kLooks) == 0 && wanted(bits, solicited);
}

}  // namespace urma

#endif  // SEGMENT_BELLS_H_
