// SPDX-License-Identifier: MIT
//
// A device over a wire that a test has written, in this process.
#ifndef TEST_UNIT_WIRE_HOST_H_
#define TEST_UNIT_WIRE_HOST_H_

#include <new>
#include <optional>
#include <utility>

#include "jetty/context.h"
#include "jetty/device_limits.h"
#include "jetty/ops.h"
#include "jetty/wire_transport.h"
#include "test/unit/shm_harness.h"
#include "urma/base/host.h"
#include "urma/base/service.h"

namespace urma {

// A service thread that may lack the memory for a task.
class ScarceService final : public Service {
 public:
  explicit ScarceService(Service* service) : service_(service) {}

  // The next post of this thread throws.
  static void fail_next_post() { fails_ = true; }

  void post(Task task) override {
    if (std::exchange(fails_, false)) throw std::bad_alloc();
    service_->post(std::move(task));
  }
  void run(const Task& task) override { service_->run(task); }
  bool on_thread() const override { return service_->on_thread(); }
  void watch(int fd, uint32_t events, Ready ready) override {
    service_->watch(fd, events, std::move(ready));
  }
  void rewatch(int fd, uint32_t events) override { service_->rewatch(fd, events); }
  void unwatch(int fd) override { service_->unwatch(fd); }
  TimerId after(uint64_t delay_ns, Task task) override {
    return service_->after(delay_ns, std::move(task));
  }
  void cancel(TimerId timer) override { service_->cancel(timer); }

 private:
  static inline thread_local bool fails_ = false;

  Service* const service_;
};

class WireHost {
 public:
  explicit WireHost(Wire* wire) : engine_(table(), wire, 1 << 20) {
    engine_.add_post_ops(&ops);
    context_.emplace(&engine_, software_device("wire", 1), &device_, 0);
    context_->ops = &ops;
  }
  ~WireHost() {
    context_.reset();
    engine_.stop();
  }
  WireHost(const WireHost&) = delete;
  WireHost& operator=(const WireHost&) = delete;

  Context& context() { return *context_; }
  // For shm::Pause.
  shm::Host& host() { return host_; }

  urma_ops_t ops = make_ops("test");

 private:
  urma_host table() {
    static Runtime* current;
    current = &host_.runtime();
    urma_host table = *urma::host();
    table.service = &service_;
    table.runtime = []() -> Runtime* { return current; };
    return table;
  }

  shm::Host host_;
  ScarceService service_{&host_.service()};
  WireTransport engine_;
  urma_device_t device_ = {};
  std::optional<Context> context_;
};

}  // namespace urma

#endif  // TEST_UNIT_WIRE_HOST_H_
