// SPDX-License-Identifier: MIT
#ifndef SEGMENT_INPLACE_TURN_MUTEX_H_
#define SEGMENT_INPLACE_TURN_MUTEX_H_

#include "urma/base/mutex.h"

namespace urma {

// A mutex that a thread cannot take again at once while another waits for it: a thread that works
// in a loop, a turn at a time, lets others in between.
class URMA_CAPABILITY("mutex") TurnMutex {
 public:
  void lock() URMA_ACQUIRE() {
    const MutexLock queue(queue_);
    mutex_.lock();
  }
  void unlock() URMA_RELEASE() { mutex_.unlock(); }

  // Around fork(): no thread that the child lacks may hold either mutex.
  void lock_for_fork() URMA_ACQUIRE() {
    queue_.lock();
    mutex_.lock();
  }
  void unlock_after_fork() URMA_RELEASE() {
    mutex_.unlock();
    queue_.unlock();
  }

  // See Mutex.
  void assume_held() const URMA_ASSERT_CAPABILITY(this) {}

 private:
  Mutex queue_;  // held by the thread that waits for mutex_
  Mutex mutex_;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_TURN_MUTEX_H_
