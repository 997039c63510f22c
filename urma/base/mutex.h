// SPDX-License-Identifier: MIT
//
// The standard mutexes, annotated for clang's thread safety analysis: which mutex guards which
// member, and which function needs it held. tools/dev/lint.sh runs the analysis; gcc ignores it,
// and everything here compiles to the same code as the standard types.
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
// Of functions and lambdas: what must be held, and what they take and release.
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
  // Tells the analysis that it is held: by a caller under another name, or around a lambda.
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

// Holds any of them until it is destroyed.
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

// Wait in a loop that tests the condition: for the analysis, a predicate is a separate function.
class Condition {
 public:
  void wait(Mutex& mutex) URMA_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    condition_.wait(borrowed.lock);
  }
  // False on timeout.
  template <typename Clock, typename Duration>
  bool wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& time)
      URMA_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    return condition_.wait_until(borrowed.lock, time) == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  // Locked again afterwards, even if the thread is cancelled meanwhile.
  struct Borrowed {
    explicit Borrowed(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Borrowed() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace urma

#endif  // URMA_BASE_MUTEX_H_
