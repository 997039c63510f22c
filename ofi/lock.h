/* SPDX-License-Identifier: MIT */

// A mutex that a caller of libfabric can do without.

#ifndef OFI_LOCK_H
#define OFI_LOCK_H

#include <mutex>

namespace urma_fi {

// With FI_THREAD_DOMAIN the caller uses the objects of a domain from one thread at a time.
class Lock {
 public:
  // Before the first use.
  void set_needed(bool needed) { needed_ = needed; }
  void lock() {
    if (needed_) mutex_.lock();
  }
  void unlock() {
    if (needed_) mutex_.unlock();
  }

 private:
  bool needed_ = true;
  std::mutex mutex_;
};

}  // namespace urma_fi

#endif  // OFI_LOCK_H
