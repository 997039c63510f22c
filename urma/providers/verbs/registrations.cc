// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/registrations.h"

#include <utility>

#include "urma/base/log.h"

namespace urma::verbs {
namespace {

uint64_t key_of(SegmentRef ref) { return uint64_t{ref.generation} << 32 | ref.index; }

}  // namespace

void Registrations::enter(KeyedSegment* segment) {
  MemoryRegion::Options options = {segment->access, segment->seg.attr.bs.non_pin != 0};
  // What the program has posted into a segment goes on when a peer invalidates it.
  options.apart = segment->access != 0 && !takes_rights_in_place(*segment);
  add(segment, MemoryRegion(*device_, segment->base, segment->len, options));
}

// Whether the device can take the peers' rights from an existing region. Soft-RoCE cannot. Tried
// once, with the first segment, so that an error names that segment.
bool Registrations::takes_rights_in_place(const Segment& segment) {
  const MutexLock lock(in_place_mutex_);
  if (!in_place_.has_value()) {
    MemoryRegion region(*device_, segment.base, segment.len,
                        {URMA_ACCESS_READ, segment.seg.attr.bs.non_pin != 0});
    in_place_ = !region.revoke(*device_);
  }
  return *in_place_;
}

void Registrations::enter(KeyedSegment* segment, int dmabuf, uint64_t offset) {
  const MemoryRegion::Options options = {segment->access, segment->seg.attr.bs.non_pin != 0};
  add(segment, MemoryRegion(*device_, dmabuf, offset, segment->base, segment->len, options));
}

void Registrations::add(KeyedSegment* segment, MemoryRegion region) {
  // A peer that is granted the segment finds its key.
  const MutexLock lock(mutex_);
  table_->add(segment);
  try {
    const uint32_t lkey = region.lkey();
    known_.emplace(key_of(segment->ref), Known{segment, std::move(region)});
    keys_.set(segment, lkey);
  } catch (...) {
    table_->remove(segment);
    throw;
  }
}

void Registrations::withdraw(KeyedSegment* segment) {
  table_->remove(segment);
  // A revocation may be about to change the key.
  const MutexLock lock(mutex_);
  keys_.clear(segment);
}

void Registrations::remove(SegmentRef ref) {
  const MutexLock lock(mutex_);
  known_.erase(key_of(ref));
}

void Registrations::clear() {
  const MutexLock lock(mutex_);
  known_.clear();
}

std::optional<uint32_t> Registrations::rkey(SegmentRef ref) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(key_of(ref));
  return found == known_.end() ? std::nullopt : found->second.region.rkey();
}

bool Registrations::revoke(const urma_eid_t& eid, const TokenKey& key, uint64_t va, uint64_t len) {
  GrantError error;
  const MutexLock lock(mutex_);
  const auto grant = table_->grant(eid, key.token_id, va, len, {key.token}, &error);
  if (!grant.has_value() ||
      !table_->invalidate(eid, key.token_id, va, len, {key.token}, grant->ref)) {
    return false;
  }
  const auto found = known_.find(key_of(grant->ref));
  if (found == known_.end()) return false;
  // The program's own requests go on.
  auto& [segment, region] = found->second;
  const MrHandle old = region.revoke(*device_);
  if (region.usable()) {
    keys_.set(segment, region.lkey());
  } else {
    keys_.clear(segment);
    URMA_LOG(ERR,
             "the {} bytes at {:#x} were invalidated by a peer, and {} cannot register them for "
             "this process again; register the segment again, see `ulimit -l`",
             region.bytes(), region.va(), device_->info().name);
  }
  return true;
}

}  // namespace urma::verbs
