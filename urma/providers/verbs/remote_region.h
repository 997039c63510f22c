// SPDX-License-Identifier: MIT
//
// An imported segment: its key is requested by the first request that needs it, and again after a
// request has found it invalid.
#ifndef URMA_PROVIDERS_VERBS_REMOTE_REGION_H_
#define URMA_PROVIDERS_VERBS_REMOTE_REGION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "jetty/remote.h"
#include "urma/base/mutex.h"
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
class RemoteRegion : public ImportedSegment {
 public:
  // Both outlive it.
  RemoteRegion(urma::Transport* transport, Connector* connector, urma_context_t* ctx,
               const urma_seg_t& imported, urma_token_t token);
  ~RemoteRegion() override;

  // The newest grant, NULL if none is valid. It lives as long as the segment.
  const KeyGrant* grant() const {
    // SYNC(key-grant): acquire pairs with the release in finish().
    return static_cast<const KeyGrant*>(grant_slot.load(std::memory_order_acquire));
  }
  // A key can be used at once.
  static bool settled(const KeyGrant& /*grant*/) { return true; }
  static bool about_to_be_mapped() { return false; }
  static bool stale() { return false; }
  // Whether it covers these bytes. A grant that was refused, or not yet given, covers those that it
  // was requested for.
  bool holds(uint64_t addr, uint64_t bytes, uint32_t /*access*/) const {
    const KeyGrant* known = grant();
    if (known == nullptr) return seg.ubva.va == addr && seg.len == bytes;
    return known->segment.covers(addr, bytes);
  }
  // A request with this grant was refused: the next request asks anew.
  void doubt(const KeyGrant* refused);

 private:
  void ask_owner(const Wanted& wanted) override;
  void finish(const Wanted& wanted, const SegmentAnswer& answer);

  urma::Transport* const transport_;
  Connector* const connector_;
  // Older ones may be in use by requests in flight.
  std::vector<std::unique_ptr<const KeyGrant>> grants_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_REMOTE_REGION_H_
