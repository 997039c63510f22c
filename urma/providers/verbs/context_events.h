// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_CONTEXT_EVENTS_H_
#define URMA_PROVIDERS_VERBS_CONTEXT_EVENTS_H_

#include <vector>

#include "jetty/async_events.h"
#include "jetty/transport.h"
#include "urma/base/host.h"
#include "urma/providers/verbs/connection.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {

// Reports to the program what happens to the port, the addresses and the device of a context, and
// ends what cannot continue. Queues report their own events.
class ContextEvents final : public DeviceListener {
 public:
  // All outlive it. `registry` is told the port's state, now and at each change.
  ContextEvents(Device* device, Registry* registry, AsyncEvents* events, urma::Transport* transport,
                Connections* connections);
  ~ContextEvents() override;
  ContextEvents(const ContextEvents&) = delete;
  ContextEvents& operator=(const ContextEvents&) = delete;

  void port_changed(bool active) override;
  void addresses_changed() override;
  void device_failed() override;

 private:
  std::vector<bool> present() const;

  Device* const device_;
  Registry* const registry_;
  AsyncEvents* const events_;
  urma::Transport* const transport_;
  Connections* const connections_;
  std::vector<bool> present_;  // by eid_index
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTEXT_EVENTS_H_
