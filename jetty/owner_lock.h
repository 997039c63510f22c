// SPDX-License-Identifier: MIT
//
// The lock of a queue. For a queue that its program declared lock_free it costs the owner two plain
// stores; the library's own thread, when it must reach into such a queue, pays for both.
#ifndef JETTY_OWNER_LOCK_H_
#define JETTY_OWNER_LOCK_H_

#include <atomic>
#include <mutex>

namespace urma {

class OwnerLock {
 public:
  // Once per process, before the first lock_free queue. False where the kernel refuses membarrier:
  // lock_free queues then take the mutex as all others do.
  static bool enable_owner_mode();

  explicit OwnerLock(bool lock_free);
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  bool lock_free() const { return owned_; }

  // For calls that the program makes on this queue; of a lock_free queue it makes one at a time.
  void enter() {
    if (!owned_) {
      mutex_.lock();
      return;
    }
    busy_.store(true, std::memory_order_relaxed);
    // Orders the store before the load for enter_foreign(), whose membarrier does the rest.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire pairs with the release in leave_foreign().
    if (foreign_.load(std::memory_order_acquire)) [[unlikely]] enter_behind_foreign();
  }
  void leave() {
    if (!owned_ || owner_has_mutex_) [[unlikely]] {
      leave_mutex();
      return;
    }
    // Release pairs with the acquire in enter_foreign().
    busy_.store(false, std::memory_order_release);
  }

  // For everyone else: the service thread, and threads of other queues.
  void enter_foreign();
  void leave_foreign();
  // Never waits; always false for a lock_free queue.
  bool try_enter_foreign() { return !owned_ && mutex_.try_lock(); }

 private:
  void enter_behind_foreign();
  void leave_mutex();

  const bool owned_;
  bool owner_has_mutex_ = false;  // only the owner touches it
  std::atomic<bool> busy_{false};
  std::atomic<bool> foreign_{false};
  std::mutex mutex_;
};

class OwnerScope {
 public:
  explicit OwnerScope(OwnerLock& lock) : lock_(lock) { lock_.enter(); }
  ~OwnerScope() { lock_.leave(); }
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  OwnerLock& lock_;
};

class ForeignScope {
 public:
  explicit ForeignScope(OwnerLock& lock) : lock_(lock) { lock_.enter_foreign(); }
  ~ForeignScope() { lock_.leave_foreign(); }
  ForeignScope(const ForeignScope&) = delete;
  ForeignScope& operator=(const ForeignScope&) = delete;

 private:
  OwnerLock& lock_;
};

}  // namespace urma

#endif  // JETTY_OWNER_LOCK_H_
