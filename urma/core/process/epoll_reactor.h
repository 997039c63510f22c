// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_EPOLL_REACTOR_H_
#define URMA_CORE_PROCESS_EPOLL_REACTOR_H_

#include "urma/base/fd.h"
#include "urma/core/process/reactor.h"

namespace urma::core {

// On epoll, with a timerfd for deadlines: epoll_wait counts in milliseconds, and epoll_pwait2 needs
// a newer kernel than those that lack io_uring.
class EpollReactor final : public Reactor {
 public:
  // Throws Error where the kernel gives no descriptors.
  EpollReactor();

  const char* name() const override { return "epoll"; }
  void add(int fd, uint32_t events, uint64_t mark) override;
  void modify(int fd, uint32_t events, uint64_t mark) override;
  void remove(int fd) override;
  void wait(uint64_t deadline_ns, std::vector<Event>* events) override;

 private:
  void control(int operation, int fd, uint32_t events, uint64_t mark);
  void arm_clock(uint64_t deadline_ns);

  Fd epoll_;
  Fd clock_;
  uint64_t clock_deadline_ = kNoDeadline;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_EPOLL_REACTOR_H_
