// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/implicit_regions.h"

#include <algorithm>

#include "jetty/network.h"

namespace urma::verbs {
namespace {

constexpr size_t kMaxKnown = 64;

// One that was not granted, or not yet, stands for the bytes that it was asked for with.
bool holds(const RemoteRegion& region, uint64_t addr, uint64_t bytes) {
  const KeyGrant* grant = region.granted();
  if (grant == nullptr) return region.seg.ubva.va == addr && region.seg.len == bytes;
  return grant->covers(addr, bytes);
}

}  // namespace

RemoteRegion* ImplicitRegions::find(const urma_eid_t& owner, const TokenKey& key, uint64_t addr,
                                    uint64_t bytes) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.key == key && same_eid(known.owner, owner) && holds(*known.region, addr, bytes);
  });
  if (found != known_.end()) {
    std::rotate(known_.begin(), found, found + 1);
  } else {
    if (known_.size() == kMaxKnown) known_.pop_back();
    urma_seg_t described = {};
    described.ubva.eid = owner;
    described.ubva.va = addr;
    described.len = bytes;
    described.token_id = key.token_id;
    std::unique_ptr<RemoteRegion, DropRef> region(new RemoteRegion(
        transport_, connector_, /*ctx=*/nullptr, described, urma_token_t{key.token}));
    known_.insert(known_.begin(), Known{owner, key, std::move(region)});
  }
  known_.front().region->add_ref();
  return known_.front().region.get();
}

}  // namespace urma::verbs
