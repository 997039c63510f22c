// SPDX-License-Identifier: MIT
//
// The ids of this process.
#ifndef URMA_PROVIDERS_TCP_NAMES_H_
#define URMA_PROVIDERS_TCP_NAMES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "jetty/port_names.h"
#include "jetty/wire.h"
#include "urma/base/held_name.h"
#include "urma/providers/tcp/carrier.h"

namespace urma::tcp {

// Any thread.
class Names final : public WireNames, private PortHost {
 public:
  Names(const EidTable& eids, const PortRange& range, uint64_t random)
      : names_(this, eids, range, /*block_suffix=*/""), ids_(&names_, random) {}

  // Before any id is taken.
  void start(Carrier* carrier) { carrier_ = carrier; }
  const PortRange& range() const { return names_.range(); }
  // For a device that takes the ids itself, and claims them here.
  PortNames& port_names() { return names_; }

  // Whether this process owns the id.
  bool owns(IdKind kind, const urma_eid_t& eid, uint32_t id) const {
    if (kind != IdKind::kToken) return names_.serves(eid, kind, id);
    return id >> 16 == carrier_->port() && names_.is_own(eid);
  }

  std::span<const urma_eid_t> eids() const override { return names_.eids(); }
  uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) override {
    return ids_.take(kind, eid_index, chosen, carrier_->port());
  }
  void free_id(IdKind kind, uint32_t eid_index, uint32_t id) override {
    ids_.free(kind, eid_index, id);
  }

 private:
  std::shared_ptr<void> claim(const std::string& name) override {
    return hold_name(kPrefix + name);
  }
  bool is_claimed(const std::string& name) override { return is_name_held(kPrefix + name); }
  bool listen_also(uint16_t port) override { return carrier_->listen_also(port); }
  void stop_listening(uint16_t port) override { carrier_->stop_listening(port); }

  static constexpr char kPrefix[] = "urma-tcp-";

  Carrier* carrier_ = nullptr;
  PortNames names_;
  PortIds ids_;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_NAMES_H_
