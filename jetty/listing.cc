// SPDX-License-Identifier: MIT
#include "jetty/listing.h"

#include <algorithm>
#include <utility>

#include "jetty/network.h"
#include "jetty/remote.h"
#include "segment/segment.h"
#include "urma/base/text.h"

namespace urma {
namespace {

constexpr uint64_t kImported = 1ULL << 63;

}  // namespace

urma_ext_segment_t describe(const Segment& segment) {
  urma_ext_segment_t described = {};
  copy_text(described.device, segment.device);
  described.handle = uint64_t{segment.ref.generation} << 32 | segment.ref.index;
  described.va = segment.base;
  described.len = segment.registered_len();
  described.token_id = segment.token_id_value;
  described.access = segment.access == 0 ? URMA_ACCESS_LOCAL_ONLY : segment.access;
  return described;
}

urma_ext_segment_t describe(uint64_t serial, const ImportedSegment& segment) {
  urma_ext_segment_t described = {};
  copy_text(described.device, segment.device());
  described.handle = kImported | serial;
  described.va = segment.seg.ubva.va;
  described.len = segment.seg.len;
  described.token_id = segment.seg.token_id;
  described.access = segment.granted_access();
  described.imported = 1;
  return described;
}

// The public fields of a registered segment are the program's.
std::vector<urma_ext_part_t> moved_part(const urma_target_seg_t& segment) {
  const auto& handle = static_cast<const SegmentHandle&>(segment);
  urma_ext_part_t whole = {segment.seg.ubva.va, segment.seg.len, URMA_EXT_PATH_COPIED,
                           URMA_EXT_REASON_PEER};
  if (handle.registered) {
    const auto& own = static_cast<const Segment&>(handle);
    whole.va = own.base;
    whole.len = own.len;
  }
  return {whole};
}

void append_parts(const urma_ext_segment_t& segment, const std::vector<urma_ext_part_t>& parts,
                  size_t most, std::vector<urma_ext_segment_t>* segments) {
  require_room(*segments, parts.size(), most);
  urma_ext_segment_t entry = segment;
  entry.part_count = static_cast<uint32_t>(parts.size());
  for (const urma_ext_part_t& part : parts) {
    entry.part = part;
    segments->push_back(entry);
    ++entry.part_index;
  }
}

QueueList::Place QueueList::add(Entry entry) {
  const MutexLock lock(mutex_);
  return entries_.insert(entries_.end(), std::move(entry));
}

void QueueList::remove(Place place) {
  const MutexLock lock(mutex_);
  entries_.erase(place);
}

void QueueList::append_to(std::vector<urma_ext_queue_t>* queues, size_t most) const {
  const MutexLock lock(mutex_);
  require_room(*queues, entries_.size(), most);
  for (const Entry& entry : entries_) {
    queues->push_back(entry.fixed);
    entry.report(&queues->back());
  }
}

bool QueueList::has(urma_ext_queue_kind_t kind, const urma_eid_t& eid, uint32_t id) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    return entry.fixed.kind == kind && entry.fixed.id == id && same_eid(entry.fixed.eid, eid);
  });
}

void ImportList::add(uint64_t serial, const ImportedSegment* segment) {
  const MutexLock lock(mutex_);
  segments_.emplace(serial, segment);
}

void ImportList::remove(uint64_t serial) {
  const MutexLock lock(mutex_);
  segments_.erase(serial);
}

void ImportList::visit(const std::function<void(uint64_t, const ImportedSegment&)>& visit) const {
  const MutexLock lock(mutex_);
  for (const auto& [serial, segment] : segments_) visit(serial, *segment);
}

}  // namespace urma
