// SPDX-License-Identifier: MIT
//
// An imported segment: its key is requested by the first request that needs it, and again after a
// request has found it invalid.
#ifndef URMA_PROVIDERS_VERBS_REMOTE_REGION_H_
#define URMA_PROVIDERS_VERBS_REMOTE_REGION_H_

#include <cstdint>

#include "jetty/granted_segment.h"
#include "urma/providers/verbs/connector.h"

namespace urma::verbs {

struct KeyGrant {
  SegmentGrant segment;
  uint32_t rkey;

  // Valid until a request finds otherwise, see RemoteRegion::doubt().
  static bool stands() { return true; }
  static bool owner_gone() { return false; }
};

// Thread-safe.
class RemoteRegion : public GrantedSegment<KeyGrant> {
 public:
  // Both outlive it.
  RemoteRegion(urma::Transport* transport, Connector* connector, urma_context_t* ctx,
               const urma_seg_t& imported, urma_token_t token);
  ~RemoteRegion() override { leave_list(); }

  // A key can be used at once.
  static bool settled(const KeyGrant& /*grant*/) { return true; }
  static bool about_to_be_mapped() { return false; }
  // Whether it covers these bytes. A grant that was refused, or not yet given, covers those that it
  // was requested for.
  bool holds(uint64_t addr, uint64_t bytes, uint32_t /*access*/) const {
    const KeyGrant* known = grant();
    if (known == nullptr) return seg.ubva.va == addr && seg.len == bytes;
    return known->segment.covers(addr, bytes);
  }
  // A request with this grant was refused: the next request asks anew.
  void doubt(const KeyGrant* refused) {
    // Relaxed: publishes nothing. A newer grant stays.
    const void* in_force = refused;
    grant_slot.compare_exchange_strong(in_force, nullptr, std::memory_order_relaxed);
  }

 private:
  void ask_owner(const Wanted& wanted) override;
  void finish(const Wanted& wanted, const Reply& reply);
  const KeyGrant* find_same(const KeyGrant& answered) const URMA_REQUIRES(mutex_);

  urma::Transport* const transport_;
  Connector* const connector_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_REMOTE_REGION_H_
