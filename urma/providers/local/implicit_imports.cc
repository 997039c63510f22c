// SPDX-License-Identifier: MIT
#include "urma/providers/local/implicit_imports.h"

#include <algorithm>
#include <cstring>

namespace urma::local {
namespace {

// Each may keep memory of its owner mapped.
constexpr size_t kMaxKnown = 64;

// One that was not granted yet was asked for with the bytes of its first request.
bool holds(const RemoteSegment& segment, uint64_t addr, uint64_t bytes) {
  const Grant* grant = segment.grant();
  if (grant == nullptr) return segment.seg.ubva.va == addr && segment.seg.len == bytes;
  return grant->stands() && grant->covers(addr, bytes);
}

}  // namespace

RemoteSegment* ImplicitImports::find(const urma_eid_t& owner, const TokenKey& key, uint64_t addr,
                                     uint64_t bytes) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.key == key && std::memcmp(&known.owner, &owner, sizeof(owner)) == 0 &&
           holds(*known.segment, addr, bytes);
  });
  if (found == known_.end()) return import(owner, key, addr, bytes);
  std::rotate(known_.begin(), found, found + 1);
  known_.front().segment->add_ref();
  return known_.front().segment.get();
}

RemoteSegment* ImplicitImports::import(const urma_eid_t& owner, const TokenKey& key, uint64_t addr,
                                       uint64_t bytes) {
  // What was registered anew is asked for by where it is used now: it may begin elsewhere.
  std::erase_if(known_, [](const Known& known) { return known.segment->stale(); });
  if (known_.size() == kMaxKnown) known_.pop_back();
  RemoteSegmentRef segment = import_memory(transport_, owner, addr, bytes, key.token_id,
                                           {key.token}, /*access=*/0, Mapped::kWhenItPays);
  known_.insert(known_.begin(), Known{owner, key, std::move(segment)});
  known_.front().segment->add_ref();
  return known_.front().segment.get();
}

}  // namespace urma::local
