// SPDX-License-Identifier: MIT
#include "urma/core/process/service_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cstring>
#include <exception>
#include <future>
#include <span>
#include <system_error>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/core/process/files.h"

namespace urma::core {
namespace {

// The mark of our own descriptor; those of watches follow it.
constexpr uint64_t kWakeMark = 0;

// Signals are the program's: its handlers must not run on our thread.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// A post of a small task, which those who cannot fail make too, allocates nothing up to here.
constexpr size_t kSpareTasks = 32;
// Room for more than this is given back once they have run.
constexpr size_t kMostSpareTasks = 1024;

// Logs an exception that no caller waits for; the thread goes on.
template <typename Body>
void run_guarded(const Body& body) {
  guarded(URMA_LOG_SITE, [&] { body(); });
}

// Threads of one real-time priority take no turns: a program that polls with its own on all of its
// processors would never let this one run, and would wait for it indefinitely. By the thread that
// makes it, since it may not even begin otherwise.
void raise_above_maker(pthread_t thread) {
  const int policy = ::sched_getscheduler(0);
  sched_param param;
  if ((policy != SCHED_FIFO && policy != SCHED_RR) || ::sched_getparam(0, &param) != 0) return;
  const int inherited = param.sched_priority++;
  const int error = ::pthread_setschedparam(thread, policy, &param);
  if (error == 0) return;
  URMA_LOG(WARNING,
           "the service thread cannot rise above the real-time priority {} of the program: {}; "
           "give the program a lower one, raise RLIMIT_RTPRIO, or leave the thread a processor",
           inherited, std::strerror(error));
}

}  // namespace

ServiceThread::ServiceThread() = default;

ServiceThread::~ServiceThread() { stop(); }

void ServiceThread::start() {
  try {
    wake_ =
        checked_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "making the service thread's event");
    reactor_ = std::make_unique<Reactor>();
    reactor_->add(wake_.get(), EPOLLIN | EPOLLET, kWakeMark);
    {
      const MutexLock lock(mutex_);
      posted_.reserve(kSpareTasks);
    }
    running_.reserve(kSpareTasks);
    launch();
  } catch (...) {
    close_descriptors();
    throw;
  }
  const MutexLock lock(mutex_);
  open_ = true;
}

void ServiceThread::close_descriptors() {
  reactor_.reset();
  wake_.reset();
}

void ServiceThread::launch() {
  last_watch_ = kWakeMark;
  {
    const MutexLock lock(mutex_);
    stopping_ = asleep_ = false;
  }
  const BlockSignals block;
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& error) {
    fail(URMA_FAIL, "starting the service thread: {}", error.what());
  }
  run_guarded([this] { raise_above_maker(thread_.native_handle()); });
  thread_id_.store(thread_.get_id(), std::memory_order_relaxed);
}

void ServiceThread::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    open_ = false;
    stopping_ = true;
  }
  wake();
  thread_.join();
  watches_.clear();
  watch_of_fd_.clear();
  timers_.clear();
  deadline_of_timer_.clear();
  close_descriptors();
}

bool ServiceThread::enqueue(Task task) {
  const MutexLock lock(mutex_);
  if (!open_) return false;
  posted_.push_back(std::move(task));
  // Under the lock, so that stop() cannot close the descriptor in between.
  if (std::exchange(asleep_, false)) wake();
  return true;
}

void ServiceThread::wake() {
  const uint64_t one = 1;
  // The eventfd is never read, only watched for changes. It would be full after 2^64 wake-ups.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void ServiceThread::post(Task task) { enqueue(std::move(task)); }

void ServiceThread::run(const Task& task) {
  if (on_thread()) return task();
  // Releases the exception before the caller is notified: the caller is its last owner.
  std::exception_ptr error;
  auto done = std::make_shared<std::promise<void>>();
  auto finished = done->get_future();
  const bool taken = enqueue([&task, &error, done] {
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    done->set_value();
  });
  if (!taken) fail(URMA_FAIL, "the service thread is not running");
  finished.wait();
  if (error != nullptr) std::rethrow_exception(std::move(error));
}

// Relaxed: only the thread itself can read its own id here, and it wrote it.
bool ServiceThread::on_thread() const {
  return thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void ServiceThread::watch(int fd, uint32_t events, Ready ready) {
  if (watch_of_fd_.count(fd) != 0) fail(URMA_EINVAL, "descriptor {} is watched already", fd);
  const uint64_t mark = last_watch_ + 1;
  watches_[mark] = std::make_shared<Watch>(Watch{fd, std::move(ready)});
  try {
    watch_of_fd_[fd] = mark;
    reactor_->add(fd, events, mark);
  } catch (...) {
    watch_of_fd_.erase(fd);
    watches_.erase(mark);
    throw;
  }
  last_watch_ = mark;
}

void ServiceThread::rewatch(int fd, uint32_t events) {
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) fail(URMA_EINVAL, "descriptor {} is not watched", fd);
  reactor_->modify(fd, events, found->second);
}

void ServiceThread::unwatch(int fd) {
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) return;
  watches_.erase(found->second);
  watch_of_fd_.erase(found);
  reactor_->remove(fd);
}

Service::TimerId ServiceThread::after(uint64_t delay_ns, Task task) {
  const TimerId id = ++last_timer_;
  const uint64_t deadline = monotonic_ns() + delay_ns;
  // First: no timer is due that could not be cancelled.
  deadline_of_timer_[id] = deadline;
  try {
    timers_.emplace(Deadline{deadline, id}, std::move(task));
  } catch (...) {
    deadline_of_timer_.erase(id);
    throw;
  }
  return id;
}

void ServiceThread::cancel(TimerId timer) {
  const auto found = deadline_of_timer_.find(timer);
  if (found == deadline_of_timer_.end()) return;
  timers_.erase({found->second, timer});
  deadline_of_timer_.erase(found);
}

void ServiceThread::loop() {
  ::pthread_setname_np(::pthread_self(), "urma-service");
  while (run_posted()) {
    run_due_timers();
    wait_and_dispatch();
  }
  // A later thread of the program may get the same id.
  thread_id_.store({}, std::memory_order_relaxed);
}

// False once the thread should end and nothing posted is left.
bool ServiceThread::run_posted() {
  {
    const MutexLock lock(mutex_);
    if (posted_.empty()) return !stopping_;
    running_.swap(posted_);
  }
  for (const auto& task : running_) run_guarded(task);
  running_.clear();
  if (running_.capacity() > kMostSpareTasks) {
    run_guarded([this] {
      std::vector<Task> less;
      less.reserve(kSpareTasks);
      running_.swap(less);
    });
  }
  return true;
}

void ServiceThread::run_due_timers() {
  // Timers that a task sets wait for the next round; else one without delay would starve all
  // others.
  const Deadline last{monotonic_ns(), last_timer_};
  while (!timers_.empty() && timers_.begin()->first <= last) {
    const auto timer = timers_.extract(timers_.begin());
    deadline_of_timer_.erase(timer.key().second);
    run_guarded(timer.mapped());
  }
}

void ServiceThread::wait_and_dispatch() {
  uint64_t deadline = timers_.empty() ? Reactor::kNoDeadline : timers_.begin()->first.first;
  {
    const MutexLock lock(mutex_);
    if (posted_.empty() && !stopping_) {
      asleep_ = true;
    } else {
      deadline = 0;
    }
  }
  const std::span<const Reactor::Event> events = reactor_->wait(deadline);
  {
    const MutexLock lock(mutex_);
    asleep_ = false;
  }
  for (const auto& event : events) {
    const auto found = watches_.find(event.mark);
    // An earlier event of this batch may have ended the watch. The wake-up's mark has no watch.
    if (found == watches_.end()) continue;
    const auto watch = found->second;
    run_guarded([&] { watch->ready(event.events); });
  }
}

}  // namespace urma::core
