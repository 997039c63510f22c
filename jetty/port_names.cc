// SPDX-License-Identifier: MIT
#include "jetty/port_names.h"

#include <algorithm>
#include <utility>

#include "jetty/network.h"
#include "urma/base/error.h"

namespace urma {
namespace {

constexpr uint32_t kPortStep = 977;

}  // namespace

bool is_asked_for(IdKind kind) {
  return kind == IdKind::kJfr || kind == IdKind::kJetty || kind == IdKind::kGroup;
}

uint16_t port_of(const PortRange& range, uint32_t id, uint32_t index) {
  return static_cast<uint16_t>(range.first + (id + kPortStep * index) % range.size());
}

PortNames::PortNames(PortHost* host, const EidTable& eids, const PortRange& range,
                     std::string block_suffix)
    : host_(host), eids_(eids), range_(range), block_suffix_(std::move(block_suffix)) {}

std::string PortNames::name_of(IdKind kind, const urma_eid_t& eid, uint32_t id) {
  return urma::format("{}-{}-{}", static_cast<uint32_t>(kind), id, hex_of(eid));
}

std::string PortNames::name_of(uint32_t block) const {
  return urma::format("block-{}{}", block, block_suffix_);
}

bool PortNames::serves(const urma_eid_t& eid, IdKind kind, uint32_t id) const {
  if (!is_own(eid)) return false;
  const MutexLock lock(mutex_);
  return names_.contains(name_of(block_of(id))) || names_.contains(name_of(kind, eid, id));
}

PortNames::Taken PortNames::take(const std::string& name, std::optional<uint32_t> id) {
  const MutexLock lock(mutex_);
  Name taken = {host_->claim(name), 0};
  if (taken.claim == nullptr) return Taken::kByAnother;
  if (id.has_value()) {
    taken.port = take_port(*id);
    if (taken.port == 0) return Taken::kWithoutPort;
  }
  names_.emplace(name, std::move(taken));
  return Taken::kNow;
}

void PortNames::drop(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto known = names_.find(name);
  if (known == names_.end()) return;
  const auto uses = ports_.find(known->second.port);
  if (uses != ports_.end() && --uses->second == 0) {
    host_->stop_listening(uses->first);
    ports_.erase(uses);
  }
  names_.erase(known);
}

// 0 if none is left.
uint16_t PortNames::take_port(uint32_t id) {
  for (uint32_t index = 0; index < kPortsOfId; ++index) {
    const uint16_t port = port_of(range_, id, index);
    if (!ports_.contains(port) && !host_->listen_also(port)) continue;
    ++ports_[port];
    return port;
  }
  return 0;
}

bool PortNames::claim(uint32_t block) {
  return take(name_of(block), block * kBlockIds) == Taken::kNow;
}

void PortNames::reserve(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (id == 0 || id > kMaxChosenId) {
    fail(URMA_EINVAL, "id {} is out of range; choose 1 to {}", id, kMaxChosenId);
  }
  const auto ports = is_asked_for(kind) ? std::optional(id) : std::nullopt;
  switch (take(name_of(kind, eids()[eid_index], id), ports)) {
    case Taken::kNow:
      return;
    case Taken::kByAnother:
      fail(URMA_EEXIST, "id {} is in use on this EID by a process of this machine; choose another",
           id);
    case Taken::kWithoutPort:
      fail(URMA_ENOMEM,
           "all {} ports of id {} ({} and others) are taken by other processes of this machine; "
           "choose another id",
           kPortsOfId, id, port_of(range_, id, 0));
  }
}

bool PortNames::reserved_elsewhere(IdKind kind, uint32_t id) {
  return std::ranges::any_of(
      eids(), [&](const urma_eid_t& eid) { return host_->is_claimed(name_of(kind, eid, id)); });
}

uint32_t PortIds::take(IdKind kind, uint32_t eid_index, uint32_t chosen, uint16_t port) {
  if (kind == IdKind::kToken) {
    const auto index = tokens_.take();
    if (!index) fail(URMA_ENOMEM, "all {} token ids are in use; free some", kMaxTokens);
    return uint32_t{port} << 16 | *index;
  }
  if (chosen != 0) {
    ids_.choose(kind, eid_index, chosen);
    return chosen;
  }
  const auto id = ids_.take(kind);
  if (!id) {
    fail(URMA_ENOMEM,
         "all {} ids of an EID are taken by the processes of this machine; delete some objects",
         kClaimableIds);
  }
  return *id;
}

void PortIds::free(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (kind == IdKind::kToken) return tokens_.give_back(id & 0xffff);
  ids_.give_back(kind, eid_index, id);
}

}  // namespace urma
