// SPDX-License-Identifier: MIT
#include "urma/base/short_mutex.h"

namespace urma {
void pause_for(uint32_t pauses) {
  for (uint32_t i = 0; i < pauses; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

// False if it was never free.
bool ShortMutex::spin(uint32_t taken) {
  for (uint32_t pauses = kFirstPauses; pauses <= kLastPauses; pauses *= kLonger) {
    pause_for(pauses);
    // Reads first: this leaves the cache line with the core that holds the mutex.
    if (word_.load(std::memory_order_relaxed) == kFree && move(kFree, taken)) return true;
  }
  return false;
}

bool ShortMutex::sleep() {
  if (move(kFree, kAwaited) || move(kHanded, kAwaited)) return true;
  uint32_t held = kHeld;
  // Relaxed: this does not take the mutex.
  word_.compare_exchange_strong(held, kAwaited, std::memory_order_relaxed);
  word_.wait(kAwaited, std::memory_order_relaxed);
  return false;
}

void ShortMutex::lock_behind() URMA_NO_THREAD_SAFETY_ANALYSIS {
  if (spin(kHeld)) return;
  // Relaxed, here and below: see unlock_at_once(). This thread holds the mutex as it is uncounted.
  waiting_.fetch_add(1, std::memory_order_relaxed);
  // Only one thread was woken, so a thread that slept keeps the mutex awaited for the others.
  while (!sleep() && !spin(kAwaited)) {
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void ShortMutex::wake_one() { word_.notify_one(); }

}  // namespace urma
