// SPDX-License-Identifier: MIT
#include "urma/core/api/object_ports.h"

#include <algorithm>
#include <utility>

#include "urma/base/log.h"
#include "urma/core/api/targets.h"

namespace urma::core {

ObjectPorts::Objects::node_type ObjectPorts::object_of(uint32_t ports) {
  Objects one;
  one.emplace(nullptr, Object{ports});
  return one.extract(one.begin());
}

ObjectPorts::Pairs::node_type ObjectPorts::pair_with(urma_jetty_t* jetty) {
  Pairs one;
  one.emplace(nullptr, jetty);
  return one.extract(one.begin());
}

void ObjectPorts::add(Objects::node_type node, const void* object, urma_jetty_t* jetty) {
  node.key() = object;
  node.mapped().jetty = jetty;
  add(std::move(node));
}

void ObjectPorts::add(Objects::node_type node) {
  const MutexLock lock(mutex_);
  objects_.insert(std::move(node));
}

ObjectPorts::Objects::node_type ObjectPorts::remove(const void* object) {
  const MutexLock lock(mutex_);
  return objects_.extract(object);
}

uint32_t ObjectPorts::of(const void* object) const {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  return found == objects_.end() ? 1 : found->second.ports;
}

urma_jetty_t* ObjectPorts::jetty_at(const void* object) const {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  return found == objects_.end() ? nullptr : found->second.jetty;
}

void ObjectPorts::pair(Pairs::node_type node, urma_target_jetty_t* target) {
  const MutexLock lock(mutex_);
  urma_jetty_t* jetty = node.mapped();
  if (!objects_.contains(jetty)) return;
  peer_of(*jetty).store(target);
  node.key() = target;
  pairs_.insert(std::move(node));
}

ObjectPorts::Pairs::node_type ObjectPorts::part(urma_target_jetty_t* target) {
  const MutexLock lock(mutex_);
  auto pair = pairs_.extract(target);
  if (pair.empty() || !objects_.contains(pair.mapped())) return pair;
  urma_target_jetty_t* peer = target;
  peer_of(*pair.mapped()).compare_exchange_strong(peer, nullptr);
  return pair;
}

std::optional<uint32_t> check_ports(const char* call, const bondp_port_id_t* ports,
                                    uint32_t count) {
  if (count <= URMA_UBAGG_DEV_MAX_NUM && (count == 0 || ports != nullptr)) {
    return std::max(count, 1U);
  }
  URMA_LOG_LIMITED(ERR, "{}: port_count {} with port_ids {}; list up to {} ports", call, count,
                   static_cast<const void*>(ports), URMA_UBAGG_DEV_MAX_NUM);
  return std::nullopt;
}

}  // namespace urma::core
