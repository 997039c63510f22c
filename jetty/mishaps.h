// SPDX-License-Identifier: MIT
//
// Failures of the device: of its port, its EIDs, or all of it.
#ifndef JETTY_MISHAPS_H_
#define JETTY_MISHAPS_H_

#include <cstdint>
#include <mutex>

#include "jetty/device_events.h"
#include "jetty/transport.h"
#include "urma/base/fault_plan.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"

namespace urma {

class Mishaps final : public PortControl {
 public:
  // `transport`, `registry` and `events` outlive it, and need not be made yet; `device` is the
  // name. Of one of several devices over a transport: `faults` are those of the device; NULL: those
  // of the transport.
  Mishaps(const char* device, Transport* transport, Registry* registry, DeviceEvents* events,
          Faults* faults = nullptr)
      : device_(device),
        transport_(transport),
        registry_(registry),
        events_(events),
        own_faults_(faults) {}

  // The first context was made: starts the clock of the timed faults.
  void begin() noexcept;
  // There is one port, 0.
  void set_port(uint32_t port, bool up) override;

 private:
  Faults* faults() const { return own_faults_ != nullptr ? own_faults_ : transport_->faults(); }
  void later(uint64_t ms, Service::Task task);
  void plan(const FaultRule& rule);
  void fail_device();

  const char* const device_;
  Transport* const transport_;
  Registry* const registry_;
  DeviceEvents* const events_;
  Faults* const own_faults_;
  std::once_flag begun_;
  Mutex mutex_;  // guards port_up_, and holds events and state together
  bool port_up_ URMA_GUARDED_BY(mutex_) = true;
};

}  // namespace urma

#endif  // JETTY_MISHAPS_H_
