// SPDX-License-Identifier: MIT
#ifndef SEGMENT_TURN_MUTEX_H_
#define SEGMENT_TURN_MUTEX_H_

#include <mutex>

namespace urma {

// A mutex that a thread cannot take again at once while another waits for it: whoever works in a
// loop, a turn at a time, lets others in between.
class TurnMutex {
 public:
  void lock() {
    const std::lock_guard queue(queue_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

  // Around fork(): no thread that the child lacks may hold either.
  void lock_for_fork() {
    queue_.lock();
    mutex_.lock();
  }
  void unlock_after_fork() {
    mutex_.unlock();
    queue_.unlock();
  }

 private:
  std::mutex queue_;  // held by the one that waits for mutex_
  std::mutex mutex_;
};

}  // namespace urma

#endif  // SEGMENT_TURN_MUTEX_H_
