// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/context_events.h"

#include <algorithm>

#include "jetty/network.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/receiver.h"

namespace urma::verbs {
namespace {

// Each port of an RDMA device is a device of its own here, with this port alone.
constexpr uint32_t kPort = 0;
// There is one device to a context.
constexpr uint32_t kDevice = 0;

}  // namespace

ContextEvents::ContextEvents(Device* device, Registry* registry, AsyncEvents* events,
                             urma::Transport* transport, Connections* connections)
    : device_(device),
      registry_(registry),
      events_(events),
      transport_(transport),
      connections_(connections),
      present_(present()) {
  // Before any event: the latest one decides.
  ibv_port_attr port = {};
  if (device_->api().query_port(device_->context(), device_->port(), &port) == 0) {
    registry_->set_port_state(device_->info().name.c_str(), kPort, state_of(port.state));
  }
  device_->add_listener(this);
}

ContextEvents::~ContextEvents() { device_->remove_listener(this); }

void ContextEvents::port_changed(bool active) {
  URMA_LOG(INFO, "the port of {} is {}", device_->info().name, active ? "up" : "down");
  // Queries after the event agree with it.
  registry_->set_port_state(device_->info().name.c_str(), kPort,
                            active ? URMA_PORT_ACTIVE : URMA_PORT_DOWN);
  events_->raise(active ? URMA_EVENT_PORT_ACTIVE : URMA_EVENT_PORT_DOWN, kPort);
}

std::vector<bool> ContextEvents::present() const {
  const std::vector<PortAddress> addresses = device_->addresses();
  std::vector<bool> present;
  for (const PortAddress& known : device_->info().eids) {
    present.push_back(std::any_of(addresses.begin(), addresses.end(), [&](const PortAddress& now) {
      return same_eid(now.eid, known.eid);
    }));
  }
  return present;
}

// The EIDs of a device are those that urma_init has found. Others have no index.
void ContextEvents::addresses_changed() {
  std::vector<bool> now = present();
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] == present_[i]) continue;
    URMA_LOG(INFO, "EID {} of {} {}", i, device_->info().name, now[i] ? "is back" : "has gone");
    events_->raise(URMA_EVENT_EID_CHANGE, static_cast<uint32_t>(i));
  }
  present_ = std::move(now);
}

void ContextEvents::device_failed() {
  events_->raise(URMA_EVENT_DEV_FATAL, kDevice);
  // After this event: a queue being destroyed just now may wait, with its lock held, until the
  // event is handled.
  transport_->service().post(
      [transport = transport_, connections = connections_, ended = transport_->ended()] {
        if (*ended) return;
        guarded(URMA_LOG_SITE, [&] {
          connections->device_failed();
          transport->serve_senders();
          transport->visit_receivers(
              [](urma::Receiver& receiver) { static_cast<Receiver&>(receiver).device_failed(); });
        });
      });
}

}  // namespace urma::verbs
