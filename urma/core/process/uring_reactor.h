// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_URING_REACTOR_H_
#define URMA_CORE_PROCESS_URING_REACTOR_H_

#include <liburing.h>

#include "urma/base/fd.h"
#include "urma/core/process/reactor.h"

namespace urma::core {

// On an io_uring that polls one epoll instance. A request that polled a descriptor itself would
// hold its file: when this process is killed the kernel gives up such requests some time later, in
// the background, and peers learned of its end up to two seconds late.
class UringReactor final : public Reactor {
 public:
  // Throws Error where the kernel refuses, or knows too little: before 6.1 completions interrupt
  // whatever call the thread is in.
  UringReactor();
  UringReactor(const UringReactor&) = delete;
  UringReactor& operator=(const UringReactor&) = delete;
  ~UringReactor() override;

  // False before Linux 6.15: a thread that sleeps on an io_uring then counts as waiting for a disk,
  // and an idle process shows full I/O pressure.
  bool sleeps_unnoticed() const;

  const char* name() const override { return "io_uring"; }
  void add(int fd, uint32_t events, uint64_t mark) override;
  void modify(int fd, uint32_t events, uint64_t mark) override;
  void remove(int fd) override;
  void wait(uint64_t deadline_ns, std::vector<Event>* events) override;

 private:
  void control(int operation, int fd, uint32_t events, uint64_t mark);
  bool arm();
  void sleep(uint64_t deadline_ns);
  void take_ready(std::vector<Event>* events);

  Fd epoll_;
  io_uring ring_;
  bool armed_ = false;  // the poll of epoll_ is in flight; it ends with its first completion
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_URING_REACTOR_H_
