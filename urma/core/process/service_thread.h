// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_SERVICE_THREAD_H_
#define URMA_CORE_PROCESS_SERVICE_THREAD_H_

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma/base/service.h"
#include "urma/core/process/reactor.h"

namespace urma::core {

// The service thread. Asleep until a descriptor is ready, a task is posted or a timer is
// due.
class ServiceThread final : public Service {
 public:
  ServiceThread();
  ~ServiceThread() override;

  // Throws Error if the thread cannot be made. May follow stop().
  void start();
  // Runs what was posted before, ends the thread, and drops all watches and timers.
  void stop();

  void post(Task task) override;
  void run(const Task& task) override;
  bool on_thread() const override;
  void watch(int fd, uint32_t events, Ready ready) override;
  void rewatch(int fd, uint32_t events) override;
  void unwatch(int fd) override;
  TimerId after(uint64_t delay_ns, Task task) override;
  void cancel(TimerId timer) override;

 private:
  struct Watch {
    int fd;
    Ready ready;
  };
  using Deadline = std::pair<uint64_t, TimerId>;

  void close_descriptors();
  void launch();
  bool enqueue(Task task);
  void wake();
  void loop();
  bool run_posted();
  void run_due_timers();
  void wait_and_dispatch();

  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};

  Mutex mutex_;
  std::vector<Task> posted_ URMA_GUARDED_BY(mutex_);
  bool open_ URMA_GUARDED_BY(mutex_) = false;  // tasks are accepted
  bool asleep_ URMA_GUARDED_BY(mutex_) =
      false;  // the thread will not look at posted_ without a wake-up
  bool stopping_ URMA_GUARDED_BY(mutex_) = false;

  // All below belongs to the service thread.
  std::vector<Task> running_;  // of posted_; keeps its room, as that does
  std::unique_ptr<Reactor> reactor_;
  Fd wake_;
  uint64_t last_watch_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<Watch>> watches_;
  std::unordered_map<int, uint64_t> watch_of_fd_;
  TimerId last_timer_ = 0;
  std::map<Deadline, Task> timers_;
  std::unordered_map<TimerId, uint64_t> deadline_of_timer_;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_SERVICE_THREAD_H_
