// SPDX-License-Identifier: MIT
#include "urma/core/process/service_thread.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "urma/base/clock.h"
#include "urma/base/error.h"

namespace urma::core {
namespace {

class ServiceThreadTest : public testing::Test {
 protected:
  void SetUp() override { service_.start(); }
  void TearDown() override { service_.stop(); }

  // Returns when the service thread has looked at everything that had reached it before.
  void settle() {
    for (int i = 0; i < 3; ++i) service_.run([] {});
  }

  ServiceThread service_;
};

TEST_F(ServiceThreadTest, RunsTasksInOrderOnItsOwnThread) {
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) service_.post([&, i] { seen.push_back(i); });
  bool on_thread = false;
  service_.run([&] { on_thread = service_.on_thread(); });
  EXPECT_TRUE(on_thread);
  EXPECT_FALSE(service_.on_thread());
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST_F(ServiceThreadTest, RunPassesExceptionsOnAndNests) {
  EXPECT_THROW(service_.run([] { throw std::out_of_range("here"); }), std::out_of_range);
  int depth = 0;
  service_.run([&] { service_.run([&] { depth = 2; }); });
  EXPECT_EQ(depth, 2);
}

TEST_F(ServiceThreadTest, OutlivesATaskThatThrows) {
  service_.post([] { throw std::runtime_error("no caller waits for this"); });
  bool ran = false;
  service_.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(ServiceThreadTest, ThreadIsNamedAndBlocksAllSignals) {
  char name[16] = "";
  bool open_signal = false;
  service_.run([&] {
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    for (int signal = 1; signal < 32; ++signal) {
      const bool can = signal != SIGKILL && signal != SIGSTOP;
      if (can && ::sigismember(&blocked, signal) == 0) open_signal = true;
    }
  });
  EXPECT_STREQ(name, "urma-service");
  EXPECT_FALSE(open_signal);
  sigset_t own;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &own);
  EXPECT_EQ(::sigismember(&own, SIGTERM), 0);
}

// This thread, at a real-time priority on one processor, until the end.
class RealTime {
 public:
  explicit RealTime(int priority)
      : policy_(::sched_getscheduler(0)), taken_(take(SCHED_FIFO, priority)) {
    EXPECT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~RealTime() {
    EXPECT_EQ(::sched_setaffinity(0, sizeof(before_), &before_), 0);
    if (taken_) take(policy_, 0);
  }

  bool taken() const { return taken_; }

 private:
  static bool take(int policy, int priority) {
    sched_param param = {};
    param.sched_priority = priority;
    return ::sched_setscheduler(0, policy, &param) == 0;
  }

  const int policy_;
  const bool taken_;
  cpu_set_t before_;
};

TEST_F(ServiceThreadTest, RunsWhileARealTimeProgramPollsOnItsOnlyProcessor) {
  service_.stop();
  const RealTime real_time(10);
  if (!real_time.taken()) GTEST_SKIP() << "real-time priorities are not allowed here";
  service_.start();
  std::atomic<int> priority{0};
  service_.post([&] {
    sched_param param = {};
    EXPECT_EQ(::sched_getparam(0, &param), 0);
    priority = param.sched_priority;
  });
  const uint64_t end_ns = monotonic_ns() + 5'000'000'000;
  while (priority == 0 && monotonic_ns() < end_ns) {
  }
  EXPECT_EQ(priority, 11);
}

TEST_F(ServiceThreadTest, RunsAtTheHighestPriorityToo) {
  service_.stop();
  const RealTime real_time(::sched_get_priority_max(SCHED_FIFO));
  if (!real_time.taken()) GTEST_SKIP() << "real-time priorities are not allowed here";
  service_.start();
  bool ran = false;
  service_.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(ServiceThreadTest, StopRunsPostedTasksAndDropsLaterOnes) {
  int ran = 0;
  for (int i = 0; i < 1000; ++i) service_.post([&] { ++ran; });
  service_.stop();
  EXPECT_EQ(ran, 1000);
  service_.post([&] { ++ran; });
  EXPECT_THROW(service_.run([&] { ++ran; }), Error);
  service_.start();
  service_.run([] {});
  EXPECT_EQ(ran, 1000);
}

TEST_F(ServiceThreadTest, ManyThreadsPostAndRun) {
  uint64_t sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        service_.post([&] { ++sum; });
        if (j % 8 == 0) service_.run([&] { ++sum; });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  service_.run([] {});
  EXPECT_EQ(sum, 4 * 1000u + 4 * 125u);
}

TEST_F(ServiceThreadTest, TimersFireInOrderAndNotEarly) {
  std::vector<int> order;
  std::promise<void> last;
  uint64_t early_by = 0;
  service_.run([&] {
    const uint64_t start = monotonic_ns();
    const auto timer = [&, start](int number, uint64_t delay) {
      return service_.after(delay, [&, start, number, delay] {
        const uint64_t passed = monotonic_ns() - start;
        if (passed < delay) early_by = delay - passed;
        order.push_back(number);
        if (number == 3) last.set_value();
      });
    };
    timer(3, 20'000'000);
    timer(1, 2'000'000);
    const auto cancelled = timer(9, 3'000'000);
    timer(2, 2'500'000);
    service_.cancel(cancelled);
    service_.cancel(cancelled);
  });
  last.get_future().wait();
  service_.run([] {});
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(early_by, 0u);
}

TEST_F(ServiceThreadTest, RepeatedTimerWithoutDelayStarvesNoOther) {
  bool go_on = true;
  std::function<void()> again = [&] {
    if (go_on) service_.after(0, again);
  };
  service_.run([&] { service_.after(0, again); });
  service_.run([&] { go_on = false; });
  // One that is already set may still be running.
  service_.stop();
}

TEST_F(ServiceThreadTest, WatchedDescriptorsAreServedUntilUnwatched) {
  const Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  std::promise<uint32_t> woken;
  int calls = 0;
  service_.run([&] {
    service_.watch(event.get(), EPOLLIN, [&](uint32_t events) {
      ++calls;
      service_.unwatch(event.get());
      woken.set_value(events);
    });
  });
  ::eventfd_write(event.get(), 1);
  EXPECT_EQ(woken.get_future().get(), static_cast<uint32_t>(EPOLLIN));
  service_.run([] {});
  EXPECT_EQ(calls, 1);
  service_.run([&] {
    EXPECT_THROW(service_.rewatch(event.get(), EPOLLIN), Error);
    EXPECT_THROW(service_.watch(-1, EPOLLIN, [](uint32_t) {}), Error);
    service_.watch(event.get(), EPOLLIN, [](uint32_t) {});
    EXPECT_THROW(service_.watch(event.get(), EPOLLIN, [](uint32_t) {}), Error);
    service_.unwatch(event.get());
  });
}

TEST_F(ServiceThreadTest, RewatchChangesTheEvents) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Fd near(pair[0]), far(pair[1]);
  std::promise<uint32_t> woken;
  service_.run([&] {
    service_.watch(near.get(), EPOLLIN, [&](uint32_t events) {
      service_.unwatch(near.get());
      woken.set_value(events);
    });
    service_.rewatch(near.get(), EPOLLOUT);
  });
  EXPECT_EQ(woken.get_future().get(), static_cast<uint32_t>(EPOLLOUT));
}

// Two descriptors are ready in one batch, and whichever comes first closes the other.
TEST_F(ServiceThreadTest, AWatchEndedInTheSameBatchIsNotCalled) {
  const Fd events[] = {Fd(::eventfd(1, EFD_CLOEXEC)), Fd(::eventfd(1, EFD_CLOEXEC))};
  int calls = 0;
  service_.run([&] {
    for (int i = 0; i < 2; ++i) {
      service_.watch(events[i].get(), EPOLLIN, [&, i](uint32_t) {
        ++calls;
        service_.unwatch(events[1 - i].get());
        service_.unwatch(events[i].get());
      });
    }
  });
  for (int i = 0; i < 3; ++i) service_.run([] {});
  EXPECT_LE(calls, 1);
  std::promise<void> later;
  service_.run([&] { service_.after(1'000'000, [&] { later.set_value(); }); });
  later.get_future().wait();
  EXPECT_EQ(calls, 1);
}

TEST_F(ServiceThreadTest, ADescriptorThatStaysReadyIsReportedAgain) {
  const Fd event(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
  std::promise<void> fifth;
  int calls = 0;
  service_.run([&] {
    service_.watch(event.get(), EPOLLIN, [&](uint32_t) {
      if (++calls == 5) fifth.set_value();
      if (calls == 5) service_.rewatch(event.get(), 0);
    });
  });
  fifth.get_future().wait();
  settle();
  EXPECT_EQ(calls, 5);
}

TEST_F(ServiceThreadTest, RewatchWorksDuringAWait) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Fd near(pair[0]), far(pair[1]);
  std::promise<void> readable, writable;
  service_.run([&] {
    service_.watch(near.get(), EPOLLIN, [&](uint32_t events) {
      if (events == EPOLLIN) {
        service_.unwatch(near.get());
        return readable.set_value();
      }
      EXPECT_EQ(events, static_cast<uint32_t>(EPOLLOUT));
      service_.rewatch(near.get(), EPOLLIN);
      writable.set_value();
    });
  });
  settle();
  service_.run([&] { service_.rewatch(near.get(), EPOLLOUT); });
  writable.get_future().wait();
  settle();
  ASSERT_EQ(::write(far.get(), "x", 1), 1);
  readable.get_future().wait();
}

TEST_F(ServiceThreadTest, UnwatchDropsAPendingEvent) {
  const Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  std::promise<void> second_called;
  int first = 0, second = 0;
  service_.run([&] { service_.watch(event.get(), EPOLLIN, [&](uint32_t) { ++first; }); });
  settle();
  service_.run([&] {
    ::eventfd_write(event.get(), 1);
    service_.unwatch(event.get());
    service_.watch(event.get(), EPOLLIN, [&](uint32_t) {
      if (++second == 1) second_called.set_value();
      service_.unwatch(event.get());
    });
  });
  second_called.get_future().wait();
  settle();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST_F(ServiceThreadTest, ClosingAfterUnwatchReachesTheOtherEndAtOnce) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  Fd near(pair[0]);
  const Fd far(pair[1]);
  service_.run([&] { service_.watch(near.get(), EPOLLIN, [](uint32_t) {}); });
  settle();
  service_.run([&] {
    service_.unwatch(near.get());
    near.reset();
    pollfd other{far.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&other, 1, 0), 1);
    EXPECT_NE(other.revents & POLLHUP, 0);
  });
}

// More at once than any queue between the kernel and the thread holds.
TEST_F(ServiceThreadTest, ManyDescriptorsAreReadyAtOnce) {
  constexpr size_t kCount = 1500;
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kCount + 100) {
    GTEST_SKIP() << "only " << limit.rlim_max << " descriptors are allowed";
  }
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<Fd> events;
  for (size_t i = 0; i < kCount; ++i) events.emplace_back(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  std::vector<int> calls(kCount);
  size_t called = 0;
  std::promise<void> all;
  service_.run([&] {
    for (size_t i = 0; i < kCount; ++i) {
      service_.watch(events[i].get(), EPOLLIN, [&, i](uint32_t) {
        eventfd_t ignored;
        EXPECT_EQ(::eventfd_read(events[i].get(), &ignored), 0);
        ++calls[i];
        if (++called == kCount) all.set_value();
      });
    }
  });
  settle();
  service_.run([&] {
    for (const auto& event : events) ::eventfd_write(event.get(), 1);
  });
  all.get_future().wait();
  settle();
  EXPECT_EQ(calls, std::vector<int>(kCount, 1));
  service_.run([&] {
    for (const auto& event : events) service_.unwatch(event.get());
    for (const auto& event : events) ::eventfd_write(event.get(), 1);
  });
  settle();
  EXPECT_EQ(called, kCount);
}

// The thread falls asleep repeatedly while it is woken; a lost wakeup hangs this test.
TEST_F(ServiceThreadTest, EveryWakeUpArrives) {
  std::vector<std::thread> threads;
  uint64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) service_.run([&] { ++sum; });
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, 3 * 5000u);
}

// Stopping must not interrupt system calls of the program, even right after it has left the
// library.
TEST_F(ServiceThreadTest, StoppingInterruptsNoCallOfTheOwner) {
  const Fd own(::epoll_create1(EPOLL_CLOEXEC));
  const Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  for (int i = 0; i < 20; ++i) {
    service_.run([&] { service_.watch(event.get(), EPOLLIN, [](uint32_t) {}); });
    settle();
    service_.stop();
    epoll_event ignored;
    EXPECT_EQ(::epoll_wait(own.get(), &ignored, 1, 5), 0) << std::strerror(errno);
    service_.start();
  }
}

TEST_F(ServiceThreadTest, SleepsWhileNothingHappens) {
  const Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const auto switches = [&] {
    rusage usage{};
    service_.run([&] { ::getrusage(RUSAGE_THREAD, &usage); });
    return usage.ru_nvcsw;
  };
  std::promise<void> later;
  service_.run([&] { service_.watch(event.get(), EPOLLIN, [](uint32_t) {}); });
  settle();
  const auto before = switches();
  service_.run([&] { service_.after(100'000'000, [&] { later.set_value(); }); });
  later.get_future().wait();
  EXPECT_LT(switches() - before, 10);
}

}  // namespace
}  // namespace urma::core
