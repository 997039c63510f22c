// SPDX-License-Identifier: MIT
//
// A mutex for sections below a microsecond. Uncontended it costs two atomics and no call. A waiting
// thread spins first, with growing pauses: so the holder can take it many times before the guarded
// memory moves to another core. Then the thread sleeps; from time to time a sleeper is handed the
// mutex, so that none starves.
#ifndef URMA_BASE_SHORT_MUTEX_H_
#define URMA_BASE_SHORT_MUTEX_H_

#include <atomic>
#include <cstdint>

#include "urma/base/mutex.h"

namespace urma {

// Executes this many pause instructions, which let the core's other thread run.
void pause_for(uint32_t pauses);

// A waiting thread pauses for longer each time, from half a microsecond to some tens.
inline constexpr uint32_t kFirstPauses = 16;
inline constexpr uint32_t kLastPauses = 1024;
inline constexpr uint32_t kLonger = 4;  // factor of growth

class URMA_CAPABILITY("mutex") ShortMutex {
 public:
  ShortMutex() = default;
  ShortMutex(const ShortMutex&) = delete;
  ShortMutex& operator=(const ShortMutex&) = delete;

  [[gnu::always_inline]] void lock() URMA_ACQUIRE() {
    if (!try_lock()) [[unlikely]]
      lock_behind();
  }
  [[gnu::always_inline]] bool try_lock() URMA_TRY_ACQUIRE(true) { return move(kFree, kHeld); }
  // A hint: whether a thread holds it now.
  bool is_held() const { return word_.load(std::memory_order_relaxed) != kFree; }
  [[gnu::always_inline]] void unlock() URMA_RELEASE() {
    if (unlock_at_once()) [[unlikely]]
      wake_one();
  }
  // The two halves of unlock(); the first makes no call. True if a thread may be asleep and must be
  // woken; wake_one() needs only the address.
  [[nodiscard, gnu::always_inline]] bool unlock_at_once() URMA_RELEASE() {
    uint32_t held = kHeld;
    // SYNC(short-mutex): release pairs with the acquire in move().
    if (word_.compare_exchange_strong(held, kFree, std::memory_order_release,
                                      std::memory_order_relaxed)) [[likely]] {
      return false;
    }
    // Handed over only to a thread that is sure to come: try_lock() fails until then. Relaxed: a
    // thread that is counted here has not had the mutex since, and one that is missed waits on.
    const bool hand = ++wakes_ % kWakesPerHandOver == 0 && waiting_.load(std::memory_order_relaxed);
    // SYNC(short-mutex): sequentially consistent, since wake_one() checks for waiters after it.
    word_.store(hand ? kHanded : kFree);
    return true;
  }
  [[gnu::noinline]] void wake_one();

 private:
  enum : uint32_t {
    kFree,
    kHeld,
    kAwaited,  // held, and a thread may be asleep
    kHanded,   // handed to whichever thread that waits comes first
  };

  // One wake-up in this many hands the mutex over. A running thread takes a free mutex before one
  // that must wake up: fast, but it could starve the sleeper.
  static constexpr uint32_t kWakesPerHandOver = 32;

  [[gnu::always_inline]] bool move(uint32_t from, uint32_t to) {
    // SYNC(short-mutex): acquire pairs with the stores in unlock_at_once().
    return word_.compare_exchange_strong(from, to, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  [[gnu::noinline]] void lock_behind() URMA_ACQUIRE();
  bool spin(uint32_t taken);
  bool sleep();

  std::atomic<uint32_t> word_{kFree};
  uint32_t wakes_ = 0;                // written by the holder
  std::atomic<uint32_t> waiting_{0};  // threads that sleep, or have, until they get it
};

}  // namespace urma

#endif  // URMA_BASE_SHORT_MUTEX_H_
