// SPDX-License-Identifier: MIT
//
// The service thread sleeps in this: epoll, with a timerfd for deadlines, since epoll_wait counts
// in milliseconds.
#ifndef URMA_CORE_PROCESS_REACTOR_H_
#define URMA_CORE_PROCESS_REACTOR_H_

#include <array>
#include <cstdint>
#include <span>

#include "urma/base/fd.h"

namespace urma::core {

// Watches descriptors. `events` are EPOLLIN and the like: a descriptor is reported again and again
// while it is ready, with EPOLLET once each time it becomes so. Each report carries the mark given
// with the descriptor. For one thread at a time.
class Reactor {
 public:
  struct Event {
    uint64_t mark;
    uint32_t events;
  };
  static constexpr uint64_t kNoDeadline = UINT64_MAX;

  // Throws Error if the kernel gives no descriptors.
  Reactor();

  // Throw Error if the descriptor cannot be watched.
  void add(int fd, uint32_t events, uint64_t mark);
  void modify(int fd, uint32_t events, uint64_t mark);
  // On return nothing here keeps the descriptor's file open. Events that wait() already returned
  // may still carry its mark.
  void remove(int fd);

  // The ready ones, until the next call. Sleeps until there is one, but not past the deadline of
  // monotonic_ns(); may return early without any. Allocates nothing: the thread has nobody to tell.
  std::span<const Event> wait(uint64_t deadline_ns);

 private:
  static constexpr int kEventsAtOnce = 64;

  void control(int operation, int fd, uint32_t events, uint64_t mark);
  void arm_clock(uint64_t deadline_ns);

  Fd epoll_;
  Fd clock_;
  uint64_t clock_deadline_ = kNoDeadline;
  std::array<Event, kEventsAtOnce> ready_;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_REACTOR_H_
