// SPDX-License-Identifier: MIT
//
// What befalls the device: its port, its EIDs, all of it.
#ifndef URMA_PROVIDERS_SHM_MISHAPS_H_
#define URMA_PROVIDERS_SHM_MISHAPS_H_

#include <cstdint>
#include <mutex>

#include "jetty/device_events.h"
#include "urma/base/fault_plan.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/providers/local/transport.h"

namespace urma::shm {

class Mishaps final : public PortControl {
 public:
  Mishaps(local::Transport* transport, Registry* registry, DeviceEvents* events)
      : transport_(transport), registry_(registry), events_(events) {}

  // The first context was made: the clock of the faults that go by it starts.
  void begin() noexcept;
  // There is one port, 0.
  void set_port(uint32_t port, bool up) override;

 private:
  void later(uint64_t ms, Service::Task task);
  void plan(const FaultRule& rule);
  void fail_device();

  local::Transport* const transport_;
  Registry* const registry_;
  DeviceEvents* const events_;
  std::once_flag begun_;
  Mutex mutex_;  // guards port_up_, and holds events and state together
  bool port_up_ URMA_GUARDED_BY(mutex_) = true;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_MISHAPS_H_
