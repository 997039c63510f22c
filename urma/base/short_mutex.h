// SPDX-License-Identifier: MIT
//
// A mutex for what takes less than a microsecond. Uncontended it is two atomics and no call. A
// thread that has to wait spins first, with pauses that grow: so the one that holds it gets through
// many times before the memory that it guards moves to another core. Then it sleeps, and is handed
// the mutex from time to time, so that nobody waits for ever.
#ifndef URMA_BASE_SHORT_MUTEX_H_
#define URMA_BASE_SHORT_MUTEX_H_

#include <atomic>
#include <cstdint>

#include "urma/base/mutex.h"

namespace urma {

// Executes so many pause instructions, which let the other thread of the core run.
void pause_for(uint32_t pauses);

// Who waits for another thread to be through pauses for longer each time, from half a microsecond
// to some tens.
inline constexpr uint32_t kFirstPauses = 16;
inline constexpr uint32_t kLastPauses = 1024;
inline constexpr uint32_t kLonger = 4;  // times the pauses before

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
  // A hint: whether somebody holds it now.
  bool is_held() const { return word_.load(std::memory_order_relaxed) != kFree; }
  [[gnu::always_inline]] void unlock() URMA_RELEASE() {
    if (unlock_at_once()) [[unlikely]]
      wake_one();
  }
  // The two halves of it, the first of which makes no call. True where somebody may be asleep, who
  // has to be woken; wake_one() needs nothing but the address.
  [[nodiscard, gnu::always_inline]] bool unlock_at_once() URMA_RELEASE() {
    uint32_t held = kHeld;
    // Release pairs with the acquire in move().
    if (word_.compare_exchange_strong(held, kFree, std::memory_order_release,
                                      std::memory_order_relaxed)) [[likely]] {
      return false;
    }
    // Where nobody sleeps after all, who comes next takes what is handed over. Sequentially
    // consistent: wake_one() looks whether somebody waits, behind it.
    word_.store(++wakes_ % kWakesPerHandOver == 0 ? kHanded : kFree);
    return true;
  }
  [[gnu::noinline]] void wake_one();

 private:
  enum : uint32_t {
    kFree,
    kHeld,
    kAwaited,  // held, and somebody may be asleep
    kHanded,   // given to one that sleeps, whichever comes first
  };

  // Of so many wake-ups, one hands it over. A thread that runs takes a free one before one that has
  // to wake first, which is what makes it quick, but could go on for ever.
  static constexpr uint32_t kWakesPerHandOver = 32;

  [[gnu::always_inline]] bool move(uint32_t from, uint32_t to) {
    // Acquire pairs with the stores in unlock_at_once().
    return word_.compare_exchange_strong(from, to, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  [[gnu::noinline]] void lock_behind() URMA_ACQUIRE();
  bool spin(uint32_t taken);
  bool sleep();

  std::atomic<uint32_t> word_{kFree};
  uint32_t wakes_ = 0;  // written by who holds it
};

}  // namespace urma

#endif  // URMA_BASE_SHORT_MUTEX_H_
