// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/device.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "jetty/device_limits.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/tcp/address.h"

namespace urma::tcp {
namespace {

constexpr uint64_t kLookAgainNs = 1'000'000'000;

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
    : chosen_(chosen), name_(name), first_port_(first_port) {
  if (chosen == "none") return;
  const HostNetwork network = read_host_network();
  check_names(network, chosen);
  const std::vector<HostAddress> addresses = choose_addresses(network, chosen);
  if (addresses.empty()) {
    if (chosen.empty()) return;
    fail(URMA_FAIL, "URMA_TCP_DEVICES names no interface that is up and has a global address");
  }
  for (const HostAddress& address : addresses) eids_.add(address.eid);
  ports_ = ports_of(addresses);
  attr_ = software_device(name_, static_cast<uint32_t>(eids().size()));
  attr_.port_cnt = static_cast<uint8_t>(ports_.size());
  for (size_t i = 0; i < ports_.size(); ++i) {
    running_.push_back(network.running(ports_[i]));
    attr_.port_attr[i] = port_attr(ports_[i], running_[i]);
  }
  has_eid_.assign(eids().size(), true);
}

void Device::watch(Service* service, Registry* registry, const Appeared& appeared,
                   const Changed& changed) {
  service->run([&] {
    if (service_ != nullptr) return;
    registry_ = registry;
    appeared_ = appeared;
    changed_ = changed;
    news_.emplace();
    service->watch(news_->fd(), EPOLLIN, [this](uint32_t) {
      news_->read();
      look_until_it_succeeds();
    });
    // Now it is watched: what failed before can be tried again.
    service_ = service;
    look();
  });
}

void Device::unwatch() {
  if (service_ == nullptr) return;
  service_->run([this] {
    if (again_.has_value()) service_->cancel(*std::exchange(again_, std::nullopt));
    service_->unwatch(news_->fd());
    news_.reset();
  });
  service_ = nullptr;
}

// The news that led to it have been read.
void Device::look_until_it_succeeds() {
  bool done = false;
  guarded(URMA_LOG_SITE, [&] {
    look();
    done = true;
  });
  guarded(URMA_LOG_SITE, [&] {
    if (done && again_.has_value()) service_->cancel(*std::exchange(again_, std::nullopt));
    if (done || again_.has_value()) return;
    again_ = service_->after(kLookAgainNs, [this] {
      again_.reset();
      look_until_it_succeeds();
    });
  });
}

void Device::look() {
  const HostNetwork network = read_host_network();
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    const bool running = network.running(ports_[i]);
    if (running != running_[i]) port_changed(i, running);
  }
  const auto known = eids();
  for (uint32_t i = 0; i < known.size(); ++i) {
    const bool has = network.has(known[i]);
    if (has == has_eid_[i]) continue;
    has_eid_[i] = has;
    eid_changed(i, has ? "is back" : "has gone");
  }
  look_for_more(network);
}

void Device::look_for_more(const HostNetwork& network) {
  for (const HostAddress& address : choose_addresses(network, chosen_)) {
    if (eids_.has(address.eid) || eids().size() == URMA_MAX_EID_CNT) continue;
    guarded(URMA_LOG_SITE, [&] {
      has_eid_.reserve(eids().size() + 1);
      if (!appeared_(address.eid)) return;
      has_eid_.push_back(true);
      eids_.add(address.eid);
      eid_changed(static_cast<uint32_t>(has_eid_.size() - 1), "is new");
    });
  }
}

void Device::eid_changed(uint32_t index, const char* how) {
  URMA_LOG(INFO, "EID {} of {}, {}, {}", index, name_, text_of(eids()[index]), how);
  changed_(URMA_EVENT_EID_CHANGE, index);
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
