// SPDX-License-Identifier: MIT
#include "urma/core/process/reactor.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "urma/base/error.h"
#include "urma/core/process/files.h"

namespace urma::core {
namespace {

constexpr uint64_t kClockMark = UINT64_MAX;

}  // namespace

Reactor::Reactor()
    : epoll_(checked_fd(::epoll_create1(EPOLL_CLOEXEC), "making the service thread's epoll")),
      clock_(checked_fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                        "making the service thread's timer")) {
  // With EPOLLET it need not be read.
  add(clock_.get(), EPOLLIN | EPOLLET, kClockMark);
}

void Reactor::control(int operation, int fd, uint32_t events, uint64_t mark) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = mark;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    fail_errno(URMA_FAIL, urma::format("watching descriptor {}", fd));
  }
}

void Reactor::add(int fd, uint32_t events, uint64_t mark) {
  control(EPOLL_CTL_ADD, fd, events, mark);
}

void Reactor::modify(int fd, uint32_t events, uint64_t mark) {
  control(EPOLL_CTL_MOD, fd, events, mark);
}

void Reactor::remove(int fd) {
  // May fail: a descriptor that is closed already has left the epoll by itself.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Reactor::arm_clock(uint64_t deadline_ns) {
  if (deadline_ns == clock_deadline_) return;
  itimerspec when{};
  if (deadline_ns != kNoDeadline) {
    when.it_value.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000);
  }
  ::timerfd_settime(clock_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  clock_deadline_ = deadline_ns;
}

std::span<const Reactor::Event> Reactor::wait(uint64_t deadline_ns) {
  // A timer set to zero would be off.
  if (deadline_ns != 0) arm_clock(deadline_ns);
  epoll_event ready[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), ready, kEventsAtOnce, deadline_ns == 0 ? 0 : -1);
  size_t filled = 0;
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.u64 == kClockMark) {
      clock_deadline_ = kNoDeadline;
    } else {
      ready_[filled++] = {ready[i].data.u64, ready[i].events};
    }
  }
  return std::span(ready_).first(filled);
}

}  // namespace urma::core
