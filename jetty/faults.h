// SPDX-License-Identifier: MIT
//
// Decides when a fault of URMA_FAULT happens. A device has one such object, or none if the
// variable is not set.
#ifndef JETTY_FAULTS_H_
#define JETTY_FAULTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "jetty/work_request.h"
#include "urma/base/fault_plan.h"

namespace urma {

struct Fault {
  FaultKind kind;
  uint64_t ms;  // of a delay
};

// Thread-safe. Whether the n-th candidate of a rule is hit depends on seed, rule and n alone.
class Faults {
 public:
  explicit Faults(const FaultPlan& plan);
  // NULL if the text is empty. Throws Error.
  static std::unique_ptr<Faults> parse(std::string_view text);

  // The fault of a request that is about to be executed, if any.
  std::optional<Fault> of_request(OpKind kind) { return find(of_op(kind), kOfRequests); }
  // Whether the queue fails after this request, which was just posted to it.
  bool fails_queue(OpKind kind) { return find(of_op(kind), kOfQueues).has_value(); }
  // Whether the JFR fails after this receive.
  bool fails_receiver() { return find(kFaultAny, kOfReceivers).has_value(); }
  // The rules that depend on time.
  const std::vector<FaultRule>& timed() const { return timed_; }

  // While the port is down no request reaches anybody.
  bool port_down() const { return port_down_.load(std::memory_order_relaxed); }
  void set_port_down(bool down) { port_down_.store(down, std::memory_order_relaxed); }
  // Once failed, a device executes nothing.
  bool device_failed() const { return device_failed_.load(std::memory_order_relaxed); }
  void fail_device() { device_failed_.store(true, std::memory_order_relaxed); }

 private:
  enum Group { kOfRequests, kOfQueues, kOfReceivers };
  struct Rule {
    FaultRule what;
    uint64_t seed;
    std::atomic<uint64_t> candidates{0};
    std::atomic<uint64_t> hits{0};
    bool hit();
  };

  static uint32_t of_op(OpKind kind);
  static Group group_of(FaultKind kind);
  std::optional<Fault> find(uint32_t op, Group group);

  std::vector<std::unique_ptr<Rule>> rules_;
  std::vector<FaultRule> timed_;
  std::atomic<bool> port_down_{false};
  std::atomic<bool> device_failed_{false};
};

}  // namespace urma

#endif  // JETTY_FAULTS_H_
