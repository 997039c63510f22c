// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/names.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "jetty/network.h"
#include "urma/base/error.h"

namespace urma::tcp {
namespace {

// This many processes of a machine may serve ids that share a port.
constexpr uint32_t kPortsOfId = 8;
constexpr uint32_t kPortStep = 977;
constexpr uint32_t kMostTokens = 65535;

uint16_t port_of(const PortRange& range, uint32_t id, uint32_t index) {
  return static_cast<uint16_t>(range.first + (id + kPortStep * index) % range.size());
}

bool is_asked_for(IdKind kind) {
  return kind == IdKind::kJfr || kind == IdKind::kJetty || kind == IdKind::kGroup;
}

// A name in the network namespace of this process, held by one process at a time.
struct AbstractName {
  explicit AbstractName(const std::string& name) {
    address.sun_family = AF_UNIX;
    const std::string full = "urma-tcp-" + name;
    std::memcpy(address.sun_path + 1, full.data(), full.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address = {};
  socklen_t length;
};

OwnFd name_socket() {
  OwnFd fd(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (!fd.valid()) fail_errno(URMA_ENOMEM, "making a socket that holds a name");
  return fd;
}

// Not valid if another process holds it.
OwnFd hold(const std::string& name) {
  OwnFd fd = name_socket();
  const AbstractName address(name);
  if (::bind(fd.get(), address.get(), address.length) == 0) return fd;
  if (errno != EADDRINUSE) fail_errno(URMA_FAIL, urma::format("holding the name {}", name));
  return OwnFd();
}

bool is_held(const std::string& name) {
  const OwnFd fd = name_socket();
  const AbstractName address(name);
  if (::connect(fd.get(), address.get(), address.length) == 0) return true;
  return errno != ECONNREFUSED;
}

std::string name_of_block(uint32_t block) { return urma::format("block-{}", block); }

std::string name_of(IdKind kind, uint32_t id, const urma_eid_t& eid) {
  std::string name = urma::format("{}-{}-", static_cast<uint32_t>(kind), id);
  for (const uint8_t byte : eid.raw) name += urma::format("{:02x}", byte);
  return name;
}

}  // namespace

std::vector<uint16_t> ports_of(const PortRange& range, IdKind kind, uint32_t id) {
  if (kind == IdKind::kToken) return {static_cast<uint16_t>(id >> 16)};
  std::vector<uint16_t> ports;
  for (uint32_t index = 0; index < kPortsOfId; ++index) {
    ports.push_back(port_of(range, block_of(id) * kBlockIds, index));
    const uint16_t own = port_of(range, id, index);
    if (own != ports.back()) ports.push_back(own);
  }
  return ports;
}

Names::Names(std::vector<urma_eid_t> eids, const PortRange& range, uint64_t random)
    : eids_(std::move(eids)), range_(range), ids_(this, random), tokens_(kMostTokens) {}

bool Names::is_own(const urma_eid_t& eid) const {
  return std::any_of(eids_.begin(), eids_.end(),
                     [&](const urma_eid_t& own) { return same_eid(own, eid); });
}

bool Names::owns(IdKind kind, const urma_eid_t& eid, uint32_t id) const {
  if (kind == IdKind::kToken) return id >> 16 == carrier_->port() && is_own(eid);
  const MutexLock lock(mutex_);
  if (blocks_.contains(block_of(id))) return is_own(eid);
  for (uint32_t index = 0; index < eids_.size(); ++index) {
    if (same_eid(eids_[index], eid)) return chosen_.contains({kind, id, index});
  }
  return false;
}

uint32_t Names::take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) {
  if (kind == IdKind::kToken) {
    const auto index = tokens_.take();
    if (!index) fail(URMA_ENOMEM, "all {} token ids of the device are in use", kMostTokens);
    return uint32_t{carrier_->port()} << 16 | *index;
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

void Names::free_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (kind == IdKind::kToken) return tokens_.give_back(id & 0xffff);
  ids_.give_back(kind, eid_index, id);
}

bool Names::claim(uint32_t block) {
  const MutexLock lock(mutex_);
  Name name = {hold(name_of_block(block)), 0};
  if (!name.claim.valid()) return false;
  name.port = take_port(block * kBlockIds);
  if (name.port == 0) return false;
  blocks_.emplace(block, std::move(name));
  return true;
}

void Names::release(uint32_t block) {
  const MutexLock lock(mutex_);
  const auto name = blocks_.find(block);
  if (name == blocks_.end()) return;
  drop_port(name->second.port);
  blocks_.erase(name);
}

bool Names::join(uint32_t block) { return !is_held(name_of_block(block)); }

void Names::reserve(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (id == 0 || id > kMaxChosenId) {
    fail(URMA_EINVAL, "id {} is out of range; choose 1 to {}", id, kMaxChosenId);
  }
  const MutexLock lock(mutex_);
  Name name = {hold(name_of(kind, id, eids_[eid_index])), 0};
  if (!name.claim.valid()) {
    fail(URMA_EEXIST, "id {} is in use on this EID by a process of this machine; choose another",
         id);
  }
  if (is_asked_for(kind)) {
    name.port = take_port(id);
    if (name.port == 0) {
      fail(URMA_ENOMEM,
           "all {} ports of id {} ({} and others) are taken by other processes of this machine; "
           "choose another id",
           kPortsOfId, id, port_of(range_, id, 0));
    }
  }
  chosen_.emplace(std::make_tuple(kind, id, eid_index), std::move(name));
}

void Names::unreserve(IdKind kind, uint32_t eid_index, uint32_t id) {
  const MutexLock lock(mutex_);
  const auto name = chosen_.find({kind, id, eid_index});
  if (name == chosen_.end()) return;
  drop_port(name->second.port);
  chosen_.erase(name);
}

bool Names::reserved_elsewhere(IdKind kind, uint32_t id) {
  return std::any_of(eids_.begin(), eids_.end(),
                     [&](const urma_eid_t& eid) { return is_held(name_of(kind, id, eid)); });
}

// 0 if none is left.
uint16_t Names::take_port(uint32_t id) {
  for (uint32_t index = 0; index < kPortsOfId; ++index) {
    const uint16_t port = port_of(range_, id, index);
    if (!ports_.contains(port) && !carrier_->listen_also(port)) continue;
    ++ports_[port];
    return port;
  }
  return 0;
}

void Names::drop_port(uint16_t port) {
  const auto uses = ports_.find(port);
  if (uses == ports_.end() || --uses->second != 0) return;
  ports_.erase(uses);
  carrier_->stop_listening(port);
}

}  // namespace urma::tcp
