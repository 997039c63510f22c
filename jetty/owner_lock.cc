// SPDX-License-Identifier: MIT
#include "jetty/owner_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace urma {
namespace {

// Once per process. Where the kernel refuses it, lock_free queues take the mutex as all others do.
bool have_membarrier() {
  static const bool registered =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered;
}

}  // namespace

OwnerLock::OwnerLock(bool lock_free)
    : owner_(lock_free && have_membarrier() ? kUnclaimed : kNobody) {}

void OwnerLock::enter_behind() {
  pthread_t seen = owner_.load(std::memory_order_relaxed);
  if (seen == kUnclaimed &&
      owner_.compare_exchange_strong(seen, this_thread(), std::memory_order_relaxed)) {
    enter();
    return;
  }
  if (seen == kNobody || seen == this_thread()) {
    mutex_.lock();
    mutex_held_ = true;
    return;
  }
  enter_foreign();
  // foreign_ stays set, for an owner that has read owner_ before and comes in after this.
  owner_.store(kNobody, std::memory_order_relaxed);
  mutex_held_ = true;
}

void OwnerLock::leave_mutex() {
  mutex_held_ = false;
  mutex_.unlock();
}

void OwnerLock::enter_foreign() {
  mutex_.lock();
  if (!biased()) return;
  foreign_.store(true, std::memory_order_relaxed);
  // After it, an owner that did not see foreign_ has made its busy_ visible.
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  // Acquire pairs with the release in leave(): what the owner did is visible.
  while (busy_.load(std::memory_order_acquire)) ::sched_yield();
}

void OwnerLock::leave_foreign() {
  // Release pairs with the acquire in enter().
  if (biased()) foreign_.store(false, std::memory_order_release);
  mutex_.unlock();
}

bool OwnerLock::try_enter_foreign() { return !biased() && mutex_.try_lock(); }

}  // namespace urma
