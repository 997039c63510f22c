// SPDX-License-Identifier: MIT
#include "jetty/owner_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace urma {
namespace {

bool register_membarrier() {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace

bool OwnerLock::enable_owner_mode() {
  static const bool enabled = register_membarrier();
  return enabled;
}

OwnerLock::OwnerLock(bool lock_free) : owned_(lock_free && enable_owner_mode()) {}

void OwnerLock::enter_behind_foreign() {
  // Release pairs with the acquire in enter_foreign(): it may go on.
  busy_.store(false, std::memory_order_release);
  mutex_.lock();
  owner_has_mutex_ = true;
}

void OwnerLock::leave_mutex() {
  owner_has_mutex_ = false;
  mutex_.unlock();
}

void OwnerLock::enter_foreign() {
  mutex_.lock();
  if (!owned_) return;
  foreign_.store(true, std::memory_order_relaxed);
  // After it, an owner that did not see foreign_ has made its busy_ visible.
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  // Acquire pairs with the release in leave(): what the owner did is visible.
  while (busy_.load(std::memory_order_acquire)) ::sched_yield();
}

void OwnerLock::leave_foreign() {
  // Release pairs with the acquire in enter().
  if (owned_) foreign_.store(false, std::memory_order_release);
  mutex_.unlock();
}

}  // namespace urma
