// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/registrations.h"

#include <utility>

namespace urma::verbs {
namespace {

uint64_t key_of(SegmentRef ref) { return uint64_t{ref.generation} << 32 | ref.index; }

}  // namespace

void Registrations::enter(Segment* segment) {
  MemoryRegion::Options options;
  options.non_pin = segment->seg.attr.bs.non_pin != 0;
  MemoryRegion own(*device_, segment->base, segment->len, options);
  std::optional<MemoryRegion> granted;
  if (segment->access != 0) {
    options.access = segment->access;
    granted.emplace(*device_, segment->base, segment->len, options);
  }
  // Whoever is granted the segment finds its key.
  const std::lock_guard lock(mutex_);
  table_->add(segment);
  try {
    const uint32_t lkey = own.lkey();
    known_.emplace(key_of(segment->ref), Regions{std::move(own), std::move(granted)});
    keys_.set(segment->ref, lkey);
  } catch (...) {
    table_->remove(segment);
    throw;
  }
}

void Registrations::withdraw(Segment* segment) {
  table_->remove(segment);
  keys_.clear(segment->ref);
}

void Registrations::remove(SegmentRef ref) {
  const std::lock_guard lock(mutex_);
  known_.erase(key_of(ref));
}

std::optional<uint32_t> Registrations::rkey(SegmentRef ref) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key_of(ref));
  if (found == known_.end()) return std::nullopt;
  return found->second.granted.has_value() ? found->second.granted->rkey() : std::nullopt;
}

bool Registrations::revoke(const urma_eid_t& eid, const TokenKey& key, uint64_t va, uint64_t len) {
  GrantError error;
  const std::lock_guard lock(mutex_);
  const auto grant = table_->grant(eid, key.token_id, va, len, {key.token}, &error);
  if (!grant.has_value() ||
      !table_->invalidate(eid, key.token_id, va, len, {key.token}, grant->ref)) {
    return false;
  }
  const auto found = known_.find(key_of(grant->ref));
  if (found == known_.end()) return false;
  found->second.granted.reset();
  return true;
}

}  // namespace urma::verbs
