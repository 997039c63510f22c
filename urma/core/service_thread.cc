// SPDX-License-Identifier: MIT
#include "urma/core/service_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <exception>
#include <future>
#include <system_error>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/core/files.h"

namespace urma::core {
namespace {

// Marks of our own two descriptors; watches count from kFirstWatch.
constexpr uint64_t kWakeMark = 0;
constexpr uint64_t kClockMark = 1;
constexpr uint64_t kFirstWatch = 2;
constexpr int kEventsAtOnce = 64;

void add_to_epoll(int epoll, int fd, uint32_t events, uint64_t mark) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = mark;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    fail_errno(URMA_FAIL, fmt::format("watching descriptor {}", fd));
  }
}

// All signals are the program's own; its handlers must not run on a thread of ours.
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

// An exception that nobody waits for is logged, and the thread goes on.
template <typename Body>
void run_guarded(const Body& body) {
  guarded(URMA_LOG_SITE, [&] { body(); });
}

}  // namespace

ServiceThread::ServiceThread() = default;

ServiceThread::~ServiceThread() { stop(); }

void ServiceThread::start() {
  try {
    open_descriptors();
    launch();
  } catch (...) {
    close_descriptors();
    throw;
  }
}

void ServiceThread::open_descriptors() {
  epoll_ = checked_fd(::epoll_create1(EPOLL_CLOEXEC), "making the service thread's epoll");
  wake_ = checked_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "making the service thread's event");
  clock_ = checked_fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                      "making the service thread's timer");
  add_to_epoll(epoll_.get(), wake_.get(), EPOLLIN, kWakeMark);
  add_to_epoll(epoll_.get(), clock_.get(), EPOLLIN, kClockMark);
}

void ServiceThread::close_descriptors() {
  clock_.reset();
  wake_.reset();
  epoll_.reset();
}

void ServiceThread::launch() {
  clock_deadline_ = 0;
  last_watch_ = kFirstWatch;
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
    stopping_ = asleep_ = false;
  }
  const BlockSignals block;
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& error) {
    const std::lock_guard lock(mutex_);
    open_ = false;
    fail(URMA_FAIL, "starting the service thread: {}", error.what());
  }
}

void ServiceThread::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  if (!open_) return false;
  posted_.push_back(std::move(task));
  // Under the lock, so that stop() cannot close the descriptor in between.
  if (std::exchange(asleep_, false)) wake();
  return true;
}

void ServiceThread::wake() {
  const uint64_t one = 1;
  // Fails only where the counter is full, and then the thread has a wake-up to come.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void ServiceThread::post(Task task) { enqueue(std::move(task)); }

void ServiceThread::run(const Task& task) {
  if (on_thread()) return task();
  // The exception is let go of here, before the caller is told: its last owner is the caller.
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
  const uint64_t mark = last_watch_ + 1;
  add_to_epoll(epoll_.get(), fd, events, mark);
  last_watch_ = mark;
  watches_[mark] = std::make_shared<Watch>(Watch{fd, std::move(ready)});
  watch_of_fd_[fd] = mark;
}

void ServiceThread::rewatch(int fd, uint32_t events) {
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) fail(URMA_EINVAL, "descriptor {} is not watched", fd);
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
    fail_errno(URMA_FAIL, fmt::format("watching descriptor {}", fd));
  }
}

void ServiceThread::unwatch(int fd) {
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) return;
  watches_.erase(found->second);
  watch_of_fd_.erase(found);
  // May fail: a descriptor that is closed already has left the epoll by itself.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Service::TimerId ServiceThread::after(uint64_t delay_ns, Task task) {
  const TimerId id = ++last_timer_;
  const uint64_t deadline = monotonic_ns() + delay_ns;
  timers_.emplace(Deadline{deadline, id}, std::move(task));
  deadline_of_timer_[id] = deadline;
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
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (run_posted()) {
    run_due_timers();
    arm_timer();
    wait_and_dispatch();
  }
  // A later thread of the program may get the same id.
  thread_id_.store({}, std::memory_order_relaxed);
}

// False once the thread is to end and has nothing posted left.
bool ServiceThread::run_posted() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
    if (tasks.empty() && stopping_) return false;
  }
  for (const auto& task : tasks) run_guarded(task);
  return true;
}

void ServiceThread::run_due_timers() {
  // Timers that a task sets are for the next round, else one of no delay would starve all others.
  const Deadline last{monotonic_ns(), last_timer_};
  while (!timers_.empty() && timers_.begin()->first <= last) {
    const auto timer = timers_.extract(timers_.begin());
    deadline_of_timer_.erase(timer.key().second);
    run_guarded(timer.mapped());
  }
}

void ServiceThread::arm_timer() {
  const uint64_t deadline = timers_.empty() ? 0 : timers_.begin()->first.first;
  if (deadline == clock_deadline_) return;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(deadline / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(deadline % 1'000'000'000);
  ::timerfd_settime(clock_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  clock_deadline_ = deadline;
}

void ServiceThread::wait_and_dispatch() {
  int timeout = 0;
  {
    const std::lock_guard lock(mutex_);
    if (posted_.empty() && !stopping_) {
      asleep_ = true;
      timeout = -1;
    }
  }
  epoll_event events[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsAtOnce, timeout);
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t mark = events[i].data.u64;
    if (mark == kWakeMark || mark == kClockMark) {
      uint64_t ignored;
      const int fd = mark == kWakeMark ? wake_.get() : clock_.get();
      [[maybe_unused]] const auto got = ::read(fd, &ignored, sizeof ignored);
      if (mark == kClockMark) clock_deadline_ = 0;
      continue;
    }
    const auto found = watches_.find(mark);
    // An earlier event of this batch may have ended the watch.
    if (found == watches_.end()) continue;
    const auto watch = found->second;
    run_guarded([&] { watch->ready(events[i].events); });
  }
}

}  // namespace urma::core
