// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/inspector.h"

#include "urma/base/text.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

// Marks the handles of imported segments, which are counted apart from registered ones.
constexpr uint64_t kImported = 1ULL << 63;

// A device moves the bytes; nobody maps them.
urma_ext_part_t whole(uint64_t va, uint64_t len) {
  return {va, len, URMA_EXT_PATH_COPIED, URMA_EXT_REASON_PEER};
}

urma_ext_segment_t describe(const Segment& segment) {
  urma_ext_segment_t described = {};
  copy_text(described.device, segment.device);
  described.handle = uint64_t{segment.ref.generation} << 32 | segment.ref.index;
  described.va = segment.base;
  described.len = segment.len;
  described.token_id = segment.token_id_value;
  described.access = segment.access == 0 ? URMA_ACCESS_LOCAL_ONLY : segment.access;
  described.part_count = 1;
  described.part = whole(segment.base, segment.len);
  return described;
}

urma_ext_segment_t describe(uint64_t serial, const RemoteRegion& region) {
  urma_ext_segment_t described = {};
  copy_text(described.device, region.device());
  described.handle = kImported | serial;
  described.va = region.seg.ubva.va;
  described.len = region.seg.len;
  described.token_id = region.seg.token_id;
  const KeyGrant* grant = region.grant();
  described.access = grant == nullptr ? 0 : grant->access;
  described.imported = 1;
  described.part_count = 1;
  described.part = whole(region.seg.ubva.va, region.seg.len);
  return described;
}

}  // namespace

void Inspector::add(VerbsTransport* transport) {
  const std::lock_guard lock(mutex_);
  transports_.push_back(transport);
}

void Inspector::remove(VerbsTransport* transport) {
  const std::lock_guard lock(mutex_);
  std::erase(transports_, transport);
}

std::vector<urma_ext_part_t> Inspector::parts(const urma_target_seg_t& segment) const {
  return {whole(segment.seg.ubva.va, segment.seg.len)};
}

void Inspector::list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const {
  const std::lock_guard lock(mutex_);
  for (VerbsTransport* transport : transports_) transport->queues().append_to(queues, most);
}

void Inspector::list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const {
  const std::lock_guard lock(mutex_);
  for (VerbsTransport* transport : transports_) {
    transport->segments().visit([&](const Segment& segment) {
      require_room(*segments, 1, most);
      segments->push_back(describe(segment));
    });
    transport->imports().visit([&](uint64_t serial, const ImportedSegment& imported) {
      require_room(*segments, 1, most);
      segments->push_back(describe(serial, static_cast<const RemoteRegion&>(imported)));
    });
  }
}

void Inspector::list_connections(size_t most,
                                 std::vector<urma_ext_connection_t>* connections) const {
  const std::lock_guard lock(mutex_);
  for (VerbsTransport* transport : transports_) {
    const size_t first = connections->size();
    transport->connections().append_to(connections, most);
    transport->incoming().append_to(connections, most);
    for (size_t i = first; i < connections->size(); ++i) {
      copy_text((*connections)[i].device, transport->device().info().name.c_str());
    }
  }
}

}  // namespace urma::verbs
