// SPDX-License-Identifier: MIT
#include "jetty/owner_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace urma {
namespace {

constexpr int kQuickLooks = 100;
constexpr std::chrono::microseconds kBetweenLooks(50);

// Once per process. If the kernel refuses it, no queue has a bias.
bool have_membarrier() {
  static const bool registered =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered;
}

// For a kernel that refuses it later, by a filter installed since. No processor delays a store for
// so long.
void await_stores() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

void OwnerBarrier::pass() {
  if (passed_) return;
  passed_ = true;
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) await_stores();
}

OwnerLock::OwnerLock() : owner_(have_membarrier() ? kUnclaimed : kNobody) {}

void OwnerLock::enter_behind() URMA_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.lock();
  const pthread_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == kNobody) return;
  if (owner == kUnclaimed || owner == this_thread()) {
    // The next holders of the mutex see it, and wait.
    owner_.store(this_thread(), std::memory_order_relaxed);
    busy_.store(true, std::memory_order_relaxed);
    mutex_.unlock();
    return;
  }
  shut_out_owner();
  // foreign_ stays set, for an owner that has read owner_ before and enters after this.
  owner_.store(kNobody, std::memory_order_relaxed);
}

// Until foreign_ is cleared.
void OwnerLock::shut_out_owner() {
  foreign_.store(true, std::memory_order_relaxed);
  // SYNC(bias-inside): afterwards an owner that did not see foreign_ has made its busy_ visible.
  OwnerBarrier().pass();
  await_owner();
}

void OwnerLock::await_owner() const {
  // At first without giving the processor away: until this thread gets it back, the owner is kept
  // out, which may be for a whole time slice of another program.
  for (uint32_t pauses = kFirstPauses; pauses <= kLastPauses; pauses *= kLonger) {
    // SYNC(bias-left): acquire pairs with the releases in leave_at_once() and enter_biased(): what
    // the owner did is visible.
    if (!busy_.load(std::memory_order_acquire)) return;
    pause_for(pauses);
  }
  // SYNC(bias-left): as above.
  for (int looks = 0; busy_.load(std::memory_order_acquire); ++looks) {
    // Yielding does not help an owner of lower priority.
    looks < kQuickLooks ? (void)::sched_yield() : std::this_thread::sleep_for(kBetweenLooks);
  }
}

void OwnerLock::await_others(OwnerBarrier* barrier) {
  const MutexLock lock(mutex_);
  const pthread_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == kNobody || owner == kUnclaimed || owner == this_thread()) return;
  barrier->pass();
  await_owner();
}

void OwnerLock::enter_foreign() URMA_NO_THREAD_SAFETY_ANALYSIS {
  if (owner_.load(std::memory_order_relaxed) == this_thread()) return enter();
  mutex_.lock();
  const pthread_t owner = owner_.load(std::memory_order_relaxed);
  if (owner != kNobody && owner != kUnclaimed) shut_out_owner();
}

void OwnerLock::leave_foreign() URMA_NO_THREAD_SAFETY_ANALYSIS {
  const pthread_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == this_thread()) return leave();
  // SYNC(bias-foreign): release pairs with the acquire in enter_biased().
  if (owner != kNobody) foreign_.store(false, std::memory_order_release);
  mutex_.unlock();
}

}  // namespace urma
