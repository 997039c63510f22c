// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/device.h"

#include <sys/epoll.h>

#include <algorithm>

#include "jetty/device_limits.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/tcp/address.h"

namespace urma::tcp {
namespace {

// The interfaces of the addresses. Loopback is no network, and counts only if there is no other.
std::vector<std::string> ports_of(const std::vector<HostAddress>& addresses) {
  std::vector<std::string> ports;
  for (const HostAddress& address : addresses) {
    if (ports.size() == MAX_PORT_CNT || (is_loopback(address.eid) && !ports.empty())) break;
    if (std::find(ports.begin(), ports.end(), address.interface) == ports.end()) {
      ports.push_back(address.interface);
    }
  }
  return ports;
}

}  // namespace

Device::Device(std::string_view chosen, const char* name, uint32_t first_port)
    : name_(name), first_port_(first_port) {
  if (chosen == "none") return;
  const HostNetwork network = read_host_network();
  const std::vector<HostAddress> addresses = choose_addresses(network, chosen);
  if (addresses.empty()) {
    if (chosen.empty()) return;
    fail(URMA_FAIL, "URMA_TCP_DEVICES names no interface that is up and has a global address");
  }
  for (const HostAddress& address : addresses) eids_.push_back(address.eid);
  ports_ = ports_of(addresses);
  attr_ = software_device(name_, static_cast<uint32_t>(eids_.size()));
  attr_.port_cnt = static_cast<uint8_t>(ports_.size());
  for (size_t i = 0; i < ports_.size(); ++i) {
    running_.push_back(network.running(ports_[i]));
    attr_.port_attr[i] = port_attr(ports_[i], running_[i]);
  }
  has_eid_.assign(eids_.size(), true);
}

void Device::watch(Service* service, Registry* registry, const Changed& changed) {
  service->run([&] {
    if (service_ != nullptr) return;
    registry_ = registry;
    changed_ = changed;
    news_.emplace();
    service->watch(news_->fd(), EPOLLIN, [this](uint32_t) {
      news_->read();
      guarded(URMA_LOG_SITE, [this] { look(); });
    });
    // Now it is watched: what failed before can be tried again.
    service_ = service;
    look();
  });
}

void Device::unwatch() {
  if (service_ == nullptr) return;
  service_->run([this] {
    service_->unwatch(news_->fd());
    news_.reset();
  });
  service_ = nullptr;
}

void Device::look() {
  const HostNetwork network = read_host_network();
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    const bool running = network.running(ports_[i]);
    if (running != running_[i]) port_changed(i, running);
  }
  for (uint32_t i = 0; i < eids_.size(); ++i) {
    const bool has = network.has(eids_[i]);
    if (has == has_eid_[i]) continue;
    has_eid_[i] = has;
    URMA_LOG(INFO, "EID {} of {}, {}, {}", i, name_, text_of(eids_[i]),
             has ? "is back" : "has gone");
    changed_(URMA_EVENT_EID_CHANGE, i);
  }
}

void Device::port_changed(uint32_t port, bool running) {
  running_[port] = running;
  const uint32_t number = first_port_ + port;
  URMA_LOG(INFO, "port {} of {}, {}, is {}", number, name_, ports_[port], running ? "up" : "down");
  // Queries after the event agree with it.
  registry_->set_port_state(name_, number, running ? URMA_PORT_ACTIVE : URMA_PORT_DOWN);
  changed_(running ? URMA_EVENT_PORT_ACTIVE : URMA_EVENT_PORT_DOWN, number);
}

}  // namespace urma::tcp
