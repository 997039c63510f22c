// SPDX-License-Identifier: MIT
#include "urma/core/process/reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "urma/base/clock.h"
#include "urma/base/fd.h"

namespace {

std::atomic<size_t> allocations{0};

}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }

namespace urma::core {
namespace {

using Event = Reactor::Event;
constexpr uint64_t kMillisecond = 1'000'000;

struct Pair {
  Pair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) return;
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  Fd near, far;
};

std::set<int> open_descriptors() {
  std::set<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    if (::fcntl(fd, F_GETFD) >= 0) open.insert(fd);
  }
  return open;
}

class ReactorTest : public testing::Test {
 protected:
  // The first ready descriptor, or empty if none is ready in time.
  std::vector<Event> wait(uint64_t for_ns) {
    std::span<const Event> events;
    const uint64_t end = for_ns == 0 ? 0 : monotonic_ns() + for_ns;
    do {
      events = reactor_->wait(end);
    } while (events.empty() && monotonic_ns() < end);
    return {events.begin(), events.end()};
  }
  // False if wait() returns repeatedly without a result.
  bool sleeps(uint64_t for_ns) {
    const uint64_t end = monotonic_ns() + for_ns;
    for (int early = 0; early < 100; ++early) {
      EXPECT_TRUE(reactor_->wait(end).empty());
      if (monotonic_ns() >= end) return true;
    }
    return false;
  }

  std::unique_ptr<Reactor> reactor_ = std::make_unique<Reactor>();
};

TEST_F(ReactorTest, DescriptorsAreCloseOnExecAndEndWithIt) {
  reactor_.reset();
  const auto before = open_descriptors();
  reactor_ = std::make_unique<Reactor>();
  const auto with = open_descriptors();
  EXPECT_GT(with.size(), before.size());
  for (const int fd : with) {
    if (before.count(fd) != 0) continue;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  }
  reactor_.reset();
  EXPECT_EQ(open_descriptors(), before);
}

// Its thread could tell nobody that there is no memory.
TEST_F(ReactorTest, WaitsWithoutAllocating) {
  const Fd event(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
  reactor_->add(event.get(), EPOLLIN, 7);
  const size_t before = allocations;
  EXPECT_EQ(reactor_->wait(0).size(), 1u);
  EXPECT_EQ(allocations, before);
}

TEST_F(ReactorTest, SleepsUntilTheDeadlineAndNoLonger) {
  EXPECT_TRUE(sleeps(5 * kMillisecond));
  // Not at all if the deadline has passed.
  EXPECT_TRUE(wait(0).empty());
  const Fd event(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
  reactor_->add(event.get(), EPOLLIN, 7);
  for (int i = 0; i < 3; ++i) {
    const auto events = wait(0);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].mark, 7u);
    EXPECT_EQ(events[0].events, static_cast<uint32_t>(EPOLLIN));
  }
}

TEST_F(ReactorTest, EdgesAreReportedOnceEach) {
  const Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  reactor_->add(event.get(), EPOLLIN | EPOLLET, 7);
  EXPECT_TRUE(wait(0).empty());
  for (int i = 0; i < 3; ++i) {
    ::eventfd_write(event.get(), 1);
    EXPECT_EQ(wait(1000 * kMillisecond).size(), 1u);
    EXPECT_TRUE(wait(0).empty());
  }
}

// epoll omits EPOLLRDHUP unless it is requested; the other implementation must do the same.
TEST_F(ReactorTest, AHalfClosedSocketDoesNotWakeUp) {
  const Pair pair;
  while (::write(pair.near.get(), "xxxxxxxx", 8) > 0) continue;
  ASSERT_EQ(errno, EAGAIN);
  ASSERT_EQ(::shutdown(pair.far.get(), SHUT_WR), 0);
  reactor_->add(pair.near.get(), EPOLLOUT, 7);
  EXPECT_TRUE(sleeps(20 * kMillisecond));
  reactor_->modify(pair.near.get(), 0, 7);
  EXPECT_TRUE(sleeps(20 * kMillisecond));
  reactor_->modify(pair.near.get(), EPOLLOUT, 7);
  EXPECT_TRUE(sleeps(20 * kMillisecond));
  // Requested events still arrive, for as long as they last.
  std::vector<char> bytes(1 << 20);
  while (::read(pair.far.get(), bytes.data(), bytes.size()) > 0) continue;
  int reports = 0;
  for (int i = 0; i < 10; ++i) {
    for (const auto& event : wait(100 * kMillisecond)) {
      EXPECT_EQ(event.mark, 7u);
      EXPECT_EQ(event.events, static_cast<uint32_t>(EPOLLOUT));
      ++reports;
    }
  }
  EXPECT_GE(reports, 5);
}

TEST_F(ReactorTest, ADescriptorThatWasClosedIsForgotten) {
  Fd event(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
  const int number = event.get();
  reactor_->add(number, EPOLLIN, 7);
  event.reset();
  EXPECT_TRUE(sleeps(5 * kMillisecond));
  reactor_->remove(number);
  const Fd next(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
  reactor_->add(next.get(), EPOLLIN, 8);
  const auto events = wait(1000 * kMillisecond);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].mark, 8u);
}

// Whatever the thread of a killed process waits in, its descriptors close with it.
TEST_F(ReactorTest, PeersOfAKilledProcessLearnOfItsEnd) {
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    Pair ready;
    const pid_t child = ::fork();
    if (child == 0) {
      Reactor reactor;
      reactor.add(pair.near.get(), EPOLLIN, 1);
      reactor.wait(0);
      ::send(ready.near.get(), "x", 1, MSG_NOSIGNAL);
      for (;;) reactor.wait(Reactor::kNoDeadline);
    }
    pair.near.reset();
    pollfd watched = {ready.far.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&watched, 1, 10000), 1);
    ::kill(child, SIGKILL);
    watched = {pair.far.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&watched, 1, 1000), 1);
    ::waitpid(child, nullptr, 0);
  }
}

}  // namespace
}  // namespace urma::core
