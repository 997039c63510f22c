// SPDX-License-Identifier: MIT
//
// What the service thread sleeps on: io_uring, or epoll where io_uring is refused.
#ifndef URMA_CORE_PROCESS_REACTOR_H_
#define URMA_CORE_PROCESS_REACTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace urma::core {

// Watches descriptors. `events` are EPOLLIN and the like everywhere: a descriptor is reported again
// and again while it is ready, with EPOLLET once each time it becomes so. Each report carries the
// mark that the descriptor was added with. The thread that makes it is the one that uses it; any
// thread may destroy it once that one has ended.
class Reactor {
 public:
  struct Event {
    uint64_t mark;
    uint32_t events;
  };
  static constexpr uint64_t kNoDeadline = UINT64_MAX;

  virtual ~Reactor() = default;

  virtual const char* name() const = 0;

  // Throw Error where the descriptor cannot be watched.
  virtual void add(int fd, uint32_t events, uint64_t mark) = 0;
  virtual void modify(int fd, uint32_t events, uint64_t mark) = 0;
  // On return nothing here keeps the descriptor's file open. What wait() has returned already may
  // still carry its mark.
  virtual void remove(int fd) = 0;

  // Replaces *events by what is ready. Sleeps until something is, but not past the deadline of
  // monotonic_ns(); may return early with nothing.
  virtual void wait(uint64_t deadline_ns, std::vector<Event>* events) = 0;
};

// The reactor of a choice of URMA_SERVICE. Throws Error where not even epoll is to be had.
std::unique_ptr<Reactor> make_reactor(const std::string& choice);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_REACTOR_H_
