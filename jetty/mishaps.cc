// SPDX-License-Identifier: MIT
#include "jetty/mishaps.h"

#include <utility>

#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// Nanoseconds of the milliseconds in which rules are given.
constexpr uint64_t kNsPerMs = 1'000'000;

}  // namespace

void Mishaps::begin() noexcept {
  if (faults() == nullptr) return;
  std::call_once(begun_, [this] {
    guarded(URMA_LOG_SITE, [this] {
      transport_->service().run([this] {
        for (const FaultRule& rule : faults()->timed()) plan(rule);
      });
    });
  });
}

// On the service thread, as the task.
void Mishaps::later(uint64_t ms, Service::Task task) {
  transport_->service().after(ms * kNsPerMs, [ended = transport_->ended(), task = std::move(task)] {
    if (!*ended) guarded(URMA_LOG_SITE, task);
  });
}

void Mishaps::plan(const FaultRule& rule) {
  switch (rule.kind) {
    case FaultKind::kPort:
      later(rule.at_ms, [this] { set_port(0, false); });
      if (rule.for_ms != 0) later(rule.at_ms + rule.for_ms, [this] { set_port(0, true); });
      break;
    case FaultKind::kEid:
      later(rule.at_ms,
            [this, index = rule.index] { events_->raise(URMA_EVENT_EID_CHANGE, index); });
      break;
    case FaultKind::kFatal:
      later(rule.at_ms, [this] { fail_device(); });
      break;
    default:
      break;
  }
}

void Mishaps::set_port(uint32_t port, bool up) {
  if (port != 0) return;
  const MutexLock lock(mutex_);
  if (std::exchange(port_up_, up) == up) return;
  URMA_LOG(WARNING, "port 0 of {} is {} now", device_, up ? "up" : "down");
  if (faults() != nullptr) faults()->set_port_down(!up);
  // A query after the event shows the new state.
  registry_->set_port_state(device_, 0, up ? URMA_PORT_ACTIVE : URMA_PORT_DOWN);
  events_->raise(up ? URMA_EVENT_PORT_ACTIVE : URMA_EVENT_PORT_DOWN, 0);
}

void Mishaps::fail_device() {
  URMA_LOG(ERR, "{} has failed: no request is executed any more", device_);
  faults()->fail_device();
  events_->raise(URMA_EVENT_DEV_FATAL, 0);
}

}  // namespace urma
