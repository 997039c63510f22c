// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/inspector.h"

#include "urma/base/text.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

// A device moves the bytes; peers do not map them.
urma_ext_part_t whole(uint64_t va, uint64_t len) {
  return {va, len, URMA_EXT_PATH_COPIED, URMA_EXT_REASON_PEER};
}

}  // namespace

void Inspector::add(Transport* transport) {
  const MutexLock lock(mutex_);
  transports_.push_back(transport);
}

void Inspector::remove(Transport* transport) {
  const MutexLock lock(mutex_);
  std::erase(transports_, transport);
}

std::vector<urma_ext_part_t> Inspector::parts(const urma_target_seg_t& segment) const {
  return {whole(segment.seg.ubva.va, segment.seg.len)};
}

void Inspector::list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const {
  const MutexLock lock(mutex_);
  for (Transport* transport : transports_) transport->queues().append_to(queues, most);
}

void Inspector::list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const {
  const MutexLock lock(mutex_);
  for (Transport* transport : transports_) {
    transport->segments().visit([&](const Segment& segment) {
      append_parts(describe(segment), {whole(segment.base, segment.len)}, most, segments);
    });
    transport->imports().visit([&](uint64_t serial, const ImportedSegment& imported) {
      const auto& region = static_cast<const RemoteRegion&>(imported);
      const KeyGrant* grant = region.grant();
      append_parts(
          describe(serial, region, region.device(), grant == nullptr ? 0 : grant->segment.access),
          {whole(region.seg.ubva.va, region.seg.len)}, most, segments);
    });
  }
}

void Inspector::list_connections(size_t most,
                                 std::vector<urma_ext_connection_t>* connections) const {
  const MutexLock lock(mutex_);
  for (Transport* transport : transports_) {
    const size_t first = connections->size();
    transport->connections().append_to(connections, most);
    transport->incoming().append_to(connections, most);
    for (size_t i = first; i < connections->size(); ++i) {
      copy_text((*connections)[i].device, transport->device().info().name.c_str());
    }
  }
}

}  // namespace urma::verbs
