// SPDX-License-Identifier: MIT
//
// The one service thread of the process, as modules see it.
#ifndef URMA_BASE_SERVICE_H_
#define URMA_BASE_SERVICE_H_

#include <cstdint>
#include <functional>

namespace urma {

// Sleeps until something happens. Runs everything on its thread, one after the other, so state that
// only such code uses needs no lock. The thread blocks all signals; nothing that it runs may wait
// for another thread.
class Service {
 public:
  using Task = std::function<void()>;
  using Ready = std::function<void(uint32_t events)>;
  using TimerId = uint64_t;

  virtual ~Service() = default;

  // From any thread.
  virtual void post(Task task) = 0;
  // Runs the task on the service thread and returns afterwards; runs it at once if called there. An
  // exception of the task reaches the caller.
  virtual void run(const Task& task) = 0;
  virtual bool on_thread() const = 0;

  // On the service thread only. `events` are EPOLLIN and the like; ready() may unwatch its own or
  // any other descriptor. It is called repeatedly while the descriptor is ready. Throws Error if
  // the descriptor cannot be watched. Unwatch it before closing it; ready() is not called after
  // that, and closing then notifies the other end at once.
  virtual void watch(int fd, uint32_t events, Ready ready) = 0;
  virtual void rewatch(int fd, uint32_t events) = 0;
  virtual void unwatch(int fd) = 0;
  // Runs the task once, after at least delay_ns.
  virtual TimerId after(uint64_t delay_ns, Task task) = 0;
  virtual void cancel(TimerId timer) = 0;
};

}  // namespace urma

#endif  // URMA_BASE_SERVICE_H_
