/* SPDX-License-Identifier: MIT */

#include "ofi/wakeup.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace urma_fi {
namespace {

constexpr itimerspec kNever{};
constexpr itimerspec kSoon = {{}, {0, 100'000'000}};

}  // namespace

int Wakeup::make(int events) {
  all_ = epoll_create1(EPOLL_CLOEXEC);
  found_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (all_ < 0 || found_ < 0 || timer_ < 0) return -errno;
  for (const int fd : {events, found_, timer_}) {
    epoll_event readable{};
    readable.events = EPOLLIN;
    if (epoll_ctl(all_, EPOLL_CTL_ADD, fd, &readable) != 0) return -errno;
  }
  return 0;
}

Wakeup::~Wakeup() {
  for (const int fd : {all_, found_, timer_})
    if (fd >= 0) close(fd);
}

void Wakeup::prepare(bool timed) {
  eventfd_t count;
  eventfd_read(found_, &count);
  // Setting the timer makes it unreadable, too.
  if (timed || timed_) timerfd_settime(timer_, 0, timed ? &kSoon : &kNever, nullptr);
  timed_ = timed;
  awaited_ = true;
}

void Wakeup::raise() {
  awaited_ = false;
  eventfd_write(found_, 1);
}

}  // namespace urma_fi
