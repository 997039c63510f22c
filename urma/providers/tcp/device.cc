// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/device.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "jetty/device_limits.h"
#include "jetty/work_request.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/tcp/address.h"

namespace urma::tcp {
namespace {

constexpr uint32_t kMaxInline = 512;
constexpr uint32_t kMaxSge = 16;

void fill_queues(urma_device_cap_t* cap) {
  fill_object_limits(cap);
  cap->max_jfc_depth = kMaxQueueDepth;
  cap->max_jfs_depth = kMaxQueueDepth;
  cap->max_jfr_depth = kMaxQueueDepth;
  cap->max_jfs_inline_len = kMaxInline;
  cap->max_jfs_sge = kMaxSge;
  cap->max_jfs_rsge = kMaxSge;
  cap->max_jfr_sge = kMaxSge;
  cap->max_msg_size = kMaxTransfer;
  cap->max_read_size = kMaxTransfer;
  cap->max_write_size = kMaxTransfer;
  cap->ceq_cnt = 1;
}

urma_device_attr_t describe(uint32_t eid_count) {
  urma_device_attr_t attr = {};
  std::memcpy(attr.guid.raw, kDeviceName, sizeof(kDeviceName));
  fill_queues(&attr.dev_cap);
  fill_transport(&attr.dev_cap, true);
  fill_atomics(&attr.dev_cap, kHasWideAtomics ? 16 : 8);
  fill_priorities(&attr.dev_cap);
  attr.dev_cap.max_eid_cnt = eid_count;
  attr.dev_cap.max_netaddr_cnt = eid_count;
  attr.dev_cap.feature.bs.non_pin = 1;
  attr.dev_cap.feature.bs.muti_seg_per_token_id = 1;
  attr.dev_cap.feature.bs.jetty_grp = 1;
  attr.dev_cap.page_size_cap = 4096;
  attr.reserved_jetty_id_min = 1;
  attr.reserved_jetty_id_max = kMaxObjects;
  return attr;
}

// The interfaces of the addresses. That of loopback addresses says nothing of a network, and counts
// where there is no other.
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

Device::Device(std::string_view chosen) {
  if (chosen == "none") return;
  const HostNetwork network = read_host_network();
  const std::vector<HostAddress> addresses = choose_addresses(network, chosen);
  if (addresses.empty()) {
    if (chosen.empty()) return;
    fail(URMA_FAIL, "no interface is up and has a global address that URMA_TCP_DEVICES names");
  }
  for (const HostAddress& address : addresses) eids_.push_back(address.eid);
  ports_ = ports_of(addresses);
  attr_ = describe(static_cast<uint32_t>(eids_.size()));
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
    NetworkNews news;
    service_ = service;
    registry_ = registry;
    changed_ = changed;
    news_ = std::move(news);
    service_->watch(news_->fd(), EPOLLIN, [this](uint32_t) {
      news_->read();
      guarded(URMA_LOG_SITE, [this] { look(); });
    });
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
    URMA_LOG(INFO, "EID {} of {}, {}, {}", i, kDeviceName, text_of(eids_[i]),
             has ? "is back" : "has gone");
    changed_(URMA_EVENT_EID_CHANGE, i);
  }
}

void Device::port_changed(uint32_t port, bool running) {
  running_[port] = running;
  URMA_LOG(INFO, "port {} of {}, {}, is {}", port, kDeviceName, ports_[port],
           running ? "up" : "down");
  // What is asked for after the event is as the event says.
  registry_->set_port_state(kDeviceName, port, running ? URMA_PORT_ACTIVE : URMA_PORT_DOWN);
  changed_(running ? URMA_EVENT_PORT_ACTIVE : URMA_EVENT_PORT_DOWN, port);
}

}  // namespace urma::tcp
