// SPDX-License-Identifier: MIT
//
// Queues that are made for several ports of an aggregated device: each has its full depth for every
// one of them. A Kind is one of lifecycle.h.
#ifndef URMA_CORE_API_QUEUE_PORTS_H_
#define URMA_CORE_API_QUEUE_PORTS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "urma/core/api/bonding.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/object_ports.h"

namespace urma::core {

// Nothing, with a log line, if the list of ports is invalid.
template <typename Kind>
std::optional<uint32_t> ports_asked(const char* call, const urma_context_t* ctx,
                                    const typename Kind::Config& config) {
  if (object_ports(ctx) == nullptr || config.flag.bs.has_drv_ext == 0) return 1;
  const auto& list = reinterpret_cast<const typename Kind::PortConfig&>(config);
  return check_ports(call, list.port_ids, list.port_count);
}

// The depths of all ports together, up to the limit of the device.
inline uint32_t depth_of_ports(const urma_context_t* ctx, uint32_t depth, uint32_t ports,
                               uint32_t urma_device_cap_t::*limit) {
  const urma_device_cap_t* caps = caps_of(ctx);
  const uint32_t most = caps == nullptr ? depth : std::max(depth, caps->*limit);
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{depth} * ports, most));
}

// While this lives, the configuration has that depth.
template <typename Kind>
class DepthOfPorts {
 public:
  DepthOfPorts(const urma_context_t* ctx, typename Kind::Config& config, uint32_t ports)
      : depth_(ports == 1 ? nullptr : Kind::port_depth(config)) {
    if (depth_ == nullptr) return;
    asked_ = *depth_;
    *depth_ = depth_of_ports(ctx, asked_, ports, Kind::kPortDepth);
  }
  DepthOfPorts(const DepthOfPorts&) = delete;
  DepthOfPorts& operator=(const DepthOfPorts&) = delete;
  ~DepthOfPorts() {
    if (depth_ != nullptr) *depth_ = asked_;
  }

 private:
  uint32_t* const depth_;
  uint32_t asked_ = 0;
};

// What the provider makes for this many ports; it shows the requested depth.
template <typename Kind, typename Op>
typename Kind::Object* make(Op* op, urma_context_t* ctx, typename Kind::Config* config,
                            uint32_t ports) {
  if (ports == 1) return op(ctx, config);
  auto copy = reinterpret_cast<const typename Kind::PortConfig&>(*config);
  typename Kind::Object* object;
  {
    const DepthOfPorts<Kind> depth(ctx, copy.base, ports);
    object = op(ctx, &copy.base);
  }
  if (object != nullptr && Kind::depth(Kind::config(*object)) != 0) {
    if (uint32_t* shown = Kind::port_depth(Kind::config(*object))) *shown = Kind::depth(*config);
  }
  return object;
}

// The entry of an object that is about to be made, among those of its context.
template <typename Kind>
class PortsPlace {
 public:
  PortsPlace(const urma_context_t* ctx, uint32_t ports) : table_(object_ports(ctx)) {
    if (table_ != nullptr) node_ = ObjectPorts::object_of(ports);
  }
  void take(typename Kind::Object* object) {
    if (table_ != nullptr) table_->add(std::move(node_), object, Kind::as_jetty(object));
  }

 private:
  ObjectPorts* const table_;
  ObjectPorts::Objects::node_type node_;
};

}  // namespace urma::core

#endif  // URMA_CORE_API_QUEUE_PORTS_H_
