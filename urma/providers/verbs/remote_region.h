// SPDX-License-Identifier: MIT
//
// An imported segment: its key is asked for when the first request needs it, and again when a
// request has found that it is none any more.
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

  // Until a request finds that it does not, see RemoteRegion::doubt().
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

  // The newest grant, NULL where there is none in force. It stays as long as the segment does.
  const KeyGrant* grant() const {
    // SYNC(key-grant): acquire pairs with the release in finish().
    return static_cast<const KeyGrant*>(grant_slot.load(std::memory_order_acquire));
  }
  // A key needs nothing else before it can be used.
  static bool settled(const KeyGrant& /*grant*/) { return true; }
  static bool about_to_be_mapped() { return false; }
  static bool stale() { return false; }
  // Whether it stands for these bytes. One that was not granted, or not yet, does for those that it
  // was asked for with.
  bool holds(uint64_t addr, uint64_t bytes, uint32_t /*access*/) const {
    const KeyGrant* known = grant();
    if (known == nullptr) return seg.ubva.va == addr && seg.len == bytes;
    return known->segment.covers(addr, bytes);
  }
  // A request with this grant was refused: the next one asks anew.
  void doubt(const KeyGrant* refused);

 private:
  void ask_owner(const Wanted& wanted) override;
  void finish(const Wanted& wanted, const SegmentAnswer& answer);

  urma::Transport* const transport_;
  Connector* const connector_;
  // Older ones may be in use by requests that are under way.
  std::vector<std::unique_ptr<const KeyGrant>> grants_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_REMOTE_REGION_H_
