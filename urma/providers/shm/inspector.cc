// SPDX-License-Identifier: MIT
#include "urma/providers/shm/inspector.h"

#include "urma/providers/shm/remote.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
std::vector<urma_ext_part_t> Inspector::parts(const urma_target_seg_t& segment) const {
  const auto& handle = static_cast<const SegmentHandle&>(segment);
  if (!handle.registered) return static_cast<const RemoteSegment&>(handle).parts();
  const auto& own = static_cast<const Segment&>(handle);
  if (own.opaque_len != 0) {
    return {{own.base, own.opaque_len, URMA_EXT_PATH_DEVICE, URMA_EXT_REASON_NONE}};
  }
  std::vector<SharedPart> shared_parts;
  if (own.pages != 0) shared_parts = transport_->pages()->parts(own.pages);
  if (shared_parts.empty()) {
    // Without remote access nobody can import it, nor once a peer has invalidated it.
    const bool allowed = own.access != 0 && own.pages == 0;
    const auto reason = allowed ? URMA_EXT_REASON_OFF : URMA_EXT_REASON_NOT_IMPORTED;
    return {{own.base, own.len, URMA_EXT_PATH_COPIED, reason}};
  }
  std::vector<urma_ext_part_t> parts;
  for (const SharedPart& part : shared_parts) {
    const bool shared = part.fd >= 0;
    parts.push_back({part.va, part.len, shared ? URMA_EXT_PATH_MAPPED : URMA_EXT_PATH_COPIED,
                     shared ? URMA_EXT_REASON_NONE : part.reason});
  }
  return parts;
}

void Inspector::list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const {
  transport_->queues().append_to(queues, most);
}

void Inspector::list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const {
  transport_->segments().visit([&](const Segment& segment) {
    append_parts(describe(segment), parts(segment), most, segments);
  });
  transport_->imports().visit([&](uint64_t serial, const ImportedSegment& imported) {
    const auto& segment = static_cast<const RemoteSegment&>(imported);
    const Grant* grant = segment.grant();
    append_parts(
        describe(serial, segment, segment.device(), grant == nullptr ? 0 : grant->segment.access),
        segment.parts(), most, segments);
  });
}

}  // namespace urma::shm
