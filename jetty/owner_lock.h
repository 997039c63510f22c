// SPDX-License-Identifier: MIT
//
// The lock of a queue. A queue that its program declared lock_free is biased to the first thread
// that uses it: that thread pays two plain stores, and whoever else must reach into the queue (the
// library's own thread, above all) pays for both. A second thread of the program, which may post
// while another one polls, ends the bias; from then on it is a mutex as for all other queues.
#ifndef JETTY_OWNER_LOCK_H_
#define JETTY_OWNER_LOCK_H_

#include <pthread.h>

#include <atomic>

#include "urma/base/mutex.h"

namespace urma {

class URMA_CAPABILITY("queue lock") OwnerLock {
 public:
  explicit OwnerLock(bool lock_free);
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  // For calls of the program.
  [[gnu::always_inline]] void enter() URMA_ACQUIRE() {
    if (!enter_at_once()) [[unlikely]]
      enter_behind();
  }
  // The two halves of it: false where it takes the other one, or else a call would stand in the
  // middle of the short path, and have all registers saved.
  [[gnu::always_inline]] bool enter_at_once() URMA_TRY_ACQUIRE(true) {
    if (owner_.load(std::memory_order_relaxed) != this_thread()) [[unlikely]]
      return false;
    busy_.store(true, std::memory_order_relaxed);
    // Orders the store before the load for enter_foreign(), whose membarrier does the rest.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire pairs with the release in leave_foreign().
    if (!foreign_.load(std::memory_order_acquire)) [[likely]]
      return true;
    // Release pairs with the acquire in enter_foreign(): who is there, or will be, may go on.
    busy_.store(false, std::memory_order_release);
    return false;
  }
  void enter_behind() URMA_ACQUIRE();
  // Behind an enter_at_once() that was true: nobody else is here by the mutex.
  [[gnu::always_inline]] void leave_at_once() URMA_RELEASE() {
    // Release pairs with the acquire in enter_foreign().
    busy_.store(false, std::memory_order_release);
  }
  [[gnu::always_inline]] void leave() URMA_RELEASE() {
    if (mutex_held_) [[unlikely]] {
      leave_mutex();
      return;
    }
    // Release pairs with the acquire in enter_foreign().
    busy_.store(false, std::memory_order_release);
  }

  // For the library's own thread, and threads of other queues.
  void enter_foreign() URMA_ACQUIRE();
  void leave_foreign() URMA_RELEASE();
  // Never waits; always false for a queue with a bias.
  bool try_enter_foreign() URMA_TRY_ACQUIRE(true);
  // See Mutex.
  void assume_held() const URMA_ASSERT_CAPABILITY(this) {}

 private:
  // Names the calling thread, without a call where the compiler knows how.
  static pthread_t this_thread() {
#if defined(__x86_64__) && defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
    return reinterpret_cast<pthread_t>(__builtin_thread_pointer());
#endif
#endif
    return ::pthread_self();
  }
  bool biased() const { return owner_.load(std::memory_order_relaxed) != kNobody; }
  void leave_mutex() URMA_RELEASE(mutex_);

  static constexpr pthread_t kNobody = 0;     // no bias: everybody takes the mutex
  static constexpr pthread_t kUnclaimed = 1;  // no address of a thread

  std::atomic<pthread_t> owner_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> foreign_{false};                 // stays set once the bias has ended
  bool mutex_held_ URMA_GUARDED_BY(mutex_) = false;  // by a call of the program; see leave()
  Mutex mutex_;
};

class URMA_SCOPED_CAPABILITY OwnerScope {
 public:
  explicit OwnerScope(OwnerLock& lock) URMA_ACQUIRE(lock) : lock_(lock) { lock_.enter(); }
  ~OwnerScope() URMA_RELEASE() { lock_.leave(); }
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  OwnerLock& lock_;
};

class URMA_SCOPED_CAPABILITY ForeignScope {
 public:
  explicit ForeignScope(OwnerLock& lock) URMA_ACQUIRE(lock) : lock_(lock) { lock_.enter_foreign(); }
  // Takes over what try_enter_foreign() got.
  ForeignScope(OwnerLock& lock, std::adopt_lock_t) URMA_REQUIRES(lock) : lock_(lock) {}
  ~ForeignScope() URMA_RELEASE() { lock_.leave_foreign(); }
  ForeignScope(const ForeignScope&) = delete;
  ForeignScope& operator=(const ForeignScope&) = delete;

 private:
  OwnerLock& lock_;
};

}  // namespace urma

#endif  // JETTY_OWNER_LOCK_H_
