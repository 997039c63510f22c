// SPDX-License-Identifier: MIT
//
// A service thread inside one thread of a test, with its own clock.
#ifndef TEST_VERBS_FAKE_SERVICE_H_
#define TEST_VERBS_FAKE_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include "urma/base/service.h"

namespace urma {

// Time passes only in run_for() and run_until(), from one timer to the next.
class FakeService final : public Service {
 public:
  void post(Task task) override { after(0, std::move(task)); }
  void run(const Task& task) override { task(); }
  bool on_thread() const override { return true; }
  void watch(int fd, uint32_t, Ready ready) override { watches_[fd] = std::move(ready); }
  void rewatch(int, uint32_t) override {}
  void unwatch(int fd) override { watches_.erase(fd); }
  TimerId after(uint64_t delay_ns, Task task) override {
    if (out_of_memory) throw std::bad_alloc();
    timers_.emplace(std::pair(now_ns_ + delay_ns, ++last_timer_), std::move(task));
    due_ns_[last_timer_] = now_ns_ + delay_ns;
    return last_timer_;
  }
  void cancel(TimerId timer) override {
    const auto due = due_ns_.find(timer);
    if (due == due_ns_.end()) return;
    timers_.erase({due->second, timer});
    due_ns_.erase(due);
  }

  bool out_of_memory = false;  // there are no more timers

  uint64_t now_ns() const { return now_ns_; }
  std::function<uint64_t()> clock() {
    return [this] { return now_ns_; };
  }
  size_t timers() const { return timers_.size(); }
  void signal(int fd, uint32_t events) {
    const auto watch = watches_.find(fd);
    if (watch == watches_.end()) return;
    const Ready ready = watch->second;
    ready(events);
  }
  // True if the condition held in time.
  bool run_until(const std::function<bool()>& condition, uint64_t limit_ns) {
    const uint64_t end = now_ns_ + limit_ns;
    while (!condition()) {
      if (timers_.empty() || timers_.begin()->first.first > end) {
        now_ns_ = end;
        return false;
      }
      auto timer = timers_.extract(timers_.begin());
      now_ns_ = timer.key().first;
      due_ns_.erase(timer.key().second);
      timer.mapped()();
    }
    return true;
  }
  void run_for(uint64_t ns) {
    run_until([] { return false; }, ns);
  }

 private:
  uint64_t now_ns_ = 1;
  TimerId last_timer_ = 0;
  std::map<std::pair<uint64_t, TimerId>, Task> timers_;
  std::map<TimerId, uint64_t> due_ns_;
  std::map<int, Ready> watches_;
};

}  // namespace urma

#endif  // TEST_VERBS_FAKE_SERVICE_H_
