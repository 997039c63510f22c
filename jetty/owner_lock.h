// SPDX-License-Identifier: MIT
//
// The lock of a queue. It is biased to the first thread that uses the queue: that thread pays two
// plain stores, and any other thread that must reach into the queue (above all the library's own)
// pays for both. A second thread of the program ends the bias permanently; from then on each use
// costs two atomics.
#ifndef JETTY_OWNER_LOCK_H_
#define JETTY_OWNER_LOCK_H_

#include <pthread.h>

#include <atomic>

#include "urma/base/mutex.h"
#include "urma/base/short_mutex.h"

namespace urma {

// After a pass(), an owner of a bias has either shown that it is inside, or sees what was stored
// before. One serves any number of locks.
class OwnerBarrier {
 public:
  void pass();

 private:
  bool passed_ = false;
};

class URMA_CAPABILITY("queue lock") OwnerLock {
 public:
  OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  // For calls of the program.
  [[gnu::always_inline]] void enter() URMA_ACQUIRE() {
    if (!enter_at_once()) [[unlikely]]
      enter_behind();
  }
  // The two halves of it: false if the other half is needed. One function would put a call into
  // the short path, which then saves all registers. The first half never waits.
  [[gnu::always_inline]] bool enter_at_once() URMA_TRY_ACQUIRE(true) {
    return enter_biased() || enter_shared();
  }
  // The same for the owner alone.
  [[gnu::always_inline]] bool enter_biased() URMA_TRY_ACQUIRE(true) {
    if (owner_.load(std::memory_order_relaxed) != this_thread()) [[unlikely]]
      return false;
    busy_.store(true, std::memory_order_relaxed);
    // SYNC(bias-inside): orders the store before the load for shut_out_owner(), whose membarrier
    // does the rest.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // SYNC(bias-foreign): acquire pairs with the release in leave_foreign().
    if (!foreign_.load(std::memory_order_acquire)) [[likely]]
      return true;
    // SYNC(bias-left): release pairs with the acquire in await_owner(): the thread that waits
    // there, or will, may go on.
    busy_.store(false, std::memory_order_release);
    return false;
  }
  // And for threads that share it.
  [[gnu::always_inline]] bool enter_shared() URMA_TRY_ACQUIRE(true) {
    return owner_.load(std::memory_order_relaxed) == kNobody && mutex_.try_lock();
  }
  void enter_behind() URMA_ACQUIRE();
  [[gnu::always_inline]] void leave() URMA_RELEASE() {
    if (leave_at_once()) [[unlikely]]
      wake_one();
  }
  // The two halves of it: see ShortMutex::unlock_at_once().
  [[nodiscard, gnu::always_inline]] bool leave_at_once() URMA_RELEASE() {
    // Relaxed: the bias does not end while its owner is here.
    if (owner_.load(std::memory_order_relaxed) == kNobody) [[unlikely]]
      return mutex_.unlock_at_once();
    // SYNC(bias-left): release pairs with the acquire in await_owner().
    busy_.store(false, std::memory_order_release);
    return false;
  }
  void wake_one() { mutex_.wake_one(); }

  // For the library's own thread, and for what a program does seldom: the bias stays.
  void enter_foreign() URMA_ACQUIRE();
  void leave_foreign() URMA_RELEASE();
  // Returns when the thread inside has left, without keeping others out. Threads that enter
  // meanwhile see what was stored before.
  void await_others(OwnerBarrier* barrier);
  // A hint: whether one of several threads that use it is inside.
  bool is_contended() const {
    return owner_.load(std::memory_order_relaxed) == kNobody && mutex_.is_held();
  }
  // See Mutex.
  void assume_held() const URMA_ASSERT_CAPABILITY(this) {}

 private:
  // Names the calling thread, without a call if the compiler knows how. A thread that gets the
  // name of an ended thread inherits its bias.
  static pthread_t this_thread() {
#if defined(__x86_64__) && defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
    return reinterpret_cast<pthread_t>(__builtin_thread_pointer());
#endif
#endif
    return ::pthread_self();
  }
  void shut_out_owner() URMA_REQUIRES(mutex_);
  void await_owner() const;

  static constexpr pthread_t kNobody = 0;     // no bias: all threads take the mutex
  static constexpr pthread_t kUnclaimed = 1;  // not the address of any thread

  std::atomic<pthread_t> owner_;  // written under mutex_
  std::atomic<bool> busy_{false};
  std::atomic<bool> foreign_{false};  // stays set once the bias has ended
  ShortMutex mutex_;
};

class URMA_SCOPED_CAPABILITY OwnerScope {
 public:
  explicit OwnerScope(OwnerLock& lock) URMA_ACQUIRE(lock) : lock_(lock) { lock_.enter(); }
  // Takes over the lock that enter_at_once() got.
  OwnerScope(OwnerLock& lock, std::adopt_lock_t) URMA_REQUIRES(lock) : lock_(lock) {}
  ~OwnerScope() URMA_RELEASE() { lock_.leave(); }
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  OwnerLock& lock_;
};

class URMA_SCOPED_CAPABILITY ForeignScope {
 public:
  explicit ForeignScope(OwnerLock& lock) URMA_ACQUIRE(lock) : lock_(lock) { lock_.enter_foreign(); }
  ~ForeignScope() URMA_RELEASE() { lock_.leave_foreign(); }
  ForeignScope(const ForeignScope&) = delete;
  ForeignScope& operator=(const ForeignScope&) = delete;

 private:
  OwnerLock& lock_;
};

}  // namespace urma

#endif  // JETTY_OWNER_LOCK_H_
