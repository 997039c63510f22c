// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/control_names.h"

#include <sys/epoll.h>

#include <cstring>

#include "urma/base/error.h"
#include "urma/base/id_blocks.h"

namespace urma::verbs {
namespace {

constexpr uint32_t kFirstPort = 20000;
constexpr uint32_t kPorts = 8192;
constexpr uint32_t kPortStep = 977;

bool is_asked_for(IdKind kind) {
  return kind == IdKind::kJfr || kind == IdKind::kJetty || kind == IdKind::kGroup;
}

}  // namespace

uint16_t well_known_port(uint32_t id, uint32_t index) {
  return static_cast<uint16_t>(kFirstPort + (id + kPortStep * index) % kPorts);
}

ControlNames::ControlNames(Service* service, DatagramNetwork* network, const urma_eid_t& eid,
                           const NetAddress& local, OnReady on_ready)
    : service_(service),
      network_(network),
      eid_(eid),
      local_(local),
      on_ready_(std::move(on_ready)) {
  for (const uint8_t byte : eid_.raw) eid_text_ += urma::format("{:02x}", byte);
}

ControlNames::~ControlNames() {
  for (const auto& [port, open] : ports_) service_->unwatch(open.socket->fd());
}

void ControlNames::reserve(IdKind kind, uint32_t id) {
  if (id == 0 || id > kMaxChosenId) {
    fail(URMA_EINVAL, "id {} is out of range; choose 1 to {}", id, kMaxChosenId);
  }
  Name name = {network_->claim(name_of(kind, id)), 0};
  if (name.claim == nullptr) {
    fail(URMA_EEXIST, "id {} is in use on this EID by a process of this machine; choose another",
         id);
  }
  if (is_asked_for(kind)) {
    name.port = take_port(id);
    if (name.port == 0) {
      fail(URMA_ENOMEM,
           "all {} UDP ports of id {} ({} and others) are taken by other processes of this "
           "machine; choose another id",
           kWellKnownPorts, id, well_known_port(id, 0));
    }
  }
  names_.emplace(std::make_pair(kind, id), std::move(name));
}

bool ControlNames::claim_block(uint32_t block) {
  Name name = {network_->claim(name_of_block(block)), 0};
  if (name.claim == nullptr) return false;
  name.port = take_port(block * kBlockIds);
  if (name.port == 0) return false;
  blocks_.emplace(block, std::move(name));
  return true;
}

std::string ControlNames::name_of(IdKind kind, uint32_t id) const {
  return urma::format("{}-{}-{}", static_cast<uint32_t>(kind), id, eid_text_);
}

std::string ControlNames::name_of_block(uint32_t block) const {
  return urma::format("block-{}-{}", block, eid_text_);
}

bool ControlNames::is_reserved(IdKind kind, uint32_t id) const {
  return network_->is_claimed(name_of(kind, id));
}

bool ControlNames::is_claimed(uint32_t block) const {
  return network_->is_claimed(name_of_block(block));
}

// 0 if none is left.
uint16_t ControlNames::take_port(uint32_t id) {
  for (uint32_t i = 0; i < kWellKnownPorts; ++i) {
    const uint16_t port = well_known_port(id, i);
    auto own = ports_.find(port);
    if (own == ports_.end()) {
      auto socket = open(port);
      if (socket == nullptr) continue;
      own = ports_.emplace(port, Port{std::move(socket), 0}).first;
    }
    ++own->second.uses;
    return port;
  }
  return 0;
}

void ControlNames::drop_port(uint16_t port) {
  const auto own = ports_.find(port);
  if (own == ports_.end() || --own->second.uses != 0) return;
  service_->unwatch(own->second.socket->fd());
  ports_.erase(own);
}

std::unique_ptr<DatagramSocket> ControlNames::open(uint16_t port) {
  NetAddress address = local_;
  address.port = port;
  auto socket = network_->open(address);
  if (socket == nullptr) return nullptr;
  service_->watch(socket->fd(), EPOLLIN,
                  [this, opened = socket.get()](uint32_t) { on_ready_(opened); });
  return socket;
}

void ControlNames::release(IdKind kind, uint32_t id) {
  const auto name = names_.find({kind, id});
  if (name == names_.end()) return;
  drop_port(name->second.port);
  names_.erase(name);
}

void ControlNames::release_block(uint32_t block) {
  const auto name = blocks_.find(block);
  if (name == blocks_.end()) return;
  drop_port(name->second.port);
  blocks_.erase(name);
}

bool ControlNames::serves(const urma_eid_t& eid, IdKind kind, uint32_t id) const {
  return std::memcmp(&eid, &eid_, sizeof(eid)) == 0 &&
         (names_.contains({kind, id}) || blocks_.contains(block_of(id)));
}

}  // namespace urma::verbs
