// SPDX-License-Identifier: MIT
//
// The standard mutexes, with what clang's analysis of locks wants to know of them: which member is
// guarded by which mutex, and which function needs it held. tools/dev/lint.sh runs the analysis;
// gcc sees none of it, and everything here compiles to what the standard types compile to.
#ifndef URMA_BASE_MUTEX_H_
#define URMA_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#ifdef __clang__
#define URMA_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define URMA_THREAD_ATTRIBUTE(x)
#endif

// Of classes.
#define URMA_CAPABILITY(name) URMA_THREAD_ATTRIBUTE(capability(name))
#define URMA_SCOPED_CAPABILITY URMA_THREAD_ATTRIBUTE(scoped_lockable)
// Of members and variables.
#define URMA_GUARDED_BY(mutex) URMA_THREAD_ATTRIBUTE(guarded_by(mutex))
// Of functions and lambdas: what is to be held, and what they take and let go of.
#define URMA_REQUIRES(...) URMA_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define URMA_ACQUIRE(...) URMA_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define URMA_ACQUIRE_SHARED(...) URMA_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define URMA_RELEASE(...) URMA_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define URMA_RELEASE_SHARED(...) URMA_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define URMA_TRY_ACQUIRE(...) URMA_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define URMA_ASSERT_CAPABILITY(mutex) URMA_THREAD_ATTRIBUTE(assert_capability(mutex))
#define URMA_RETURN_CAPABILITY(mutex) URMA_THREAD_ATTRIBUTE(lock_returned(mutex))
// Each use says why the analysis cannot follow.
#define URMA_NO_THREAD_SAFETY_ANALYSIS URMA_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace urma {

class URMA_CAPABILITY("mutex") Mutex {
 public:
  void lock() URMA_ACQUIRE() { mutex_.lock(); }
  void unlock() URMA_RELEASE() { mutex_.unlock(); }
  bool try_lock() URMA_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  // For the analysis: it is held, by a caller that has another name for it, or around a lambda.
  void assume_held() const URMA_ASSERT_CAPABILITY(this) {}

 private:
  friend class Condition;

  std::mutex mutex_;
};

class URMA_CAPABILITY("mutex") RecursiveMutex {
 public:
  void lock() URMA_ACQUIRE() { mutex_.lock(); }
  void unlock() URMA_RELEASE() { mutex_.unlock(); }

 private:
  std::recursive_mutex mutex_;
};

class URMA_CAPABILITY("mutex") SharedMutex {
 public:
  void lock() URMA_ACQUIRE() { mutex_.lock(); }
  void unlock() URMA_RELEASE() { mutex_.unlock(); }
  void lock_shared() URMA_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() URMA_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds any of them for as long as it lives.
template <typename Lockable>
class URMA_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Lockable& mutex) URMA_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Takes over what the caller has locked.
  MutexLock(Lockable& mutex, std::adopt_lock_t) URMA_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() URMA_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Lockable& mutex_;
};

// Holds it together with others that do the same.
class URMA_SCOPED_CAPABILITY SharedMutexLock {
 public:
  explicit SharedMutexLock(SharedMutex& mutex) URMA_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~SharedMutexLock() URMA_RELEASE() { mutex_.unlock_shared(); }
  SharedMutexLock(const SharedMutexLock&) = delete;
  SharedMutexLock& operator=(const SharedMutexLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Waits in a loop that tests what it waits for: a predicate would be a function of its own to the
// analysis.
class Condition {
 public:
  void wait(Mutex& mutex) URMA_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    condition_.wait(borrowed.lock);
  }
  // False where the time has come.
  template <typename Clock, typename Duration>
  bool wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& time)
      URMA_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    return condition_.wait_until(borrowed.lock, time) == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  // Stays locked behind it, also where the thread is cancelled meanwhile.
  struct Borrowed {
    explicit Borrowed(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Borrowed() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace urma

#endif  // URMA_BASE_MUTEX_H_
