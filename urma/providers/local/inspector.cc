// SPDX-License-Identifier: MIT
#include "urma/providers/local/inspector.h"

#include "urma/providers/local/remote.h"
#include "urma/providers/local/transport.h"

namespace urma::local {

std::vector<urma_ext_part_t> Inspector::parts(const urma_target_seg_t& segment) const {
  const auto& handle = static_cast<const SegmentHandle&>(segment);
  if (!handle.registered) return static_cast<const RemoteSegment&>(handle).parts();
  const auto& own = static_cast<const Segment&>(handle);
  if (own.pages == 0) {
    // Without remote access nobody can import it.
    const auto reason = own.access == 0 ? URMA_EXT_REASON_NOT_IMPORTED : URMA_EXT_REASON_OFF;
    return {{own.base, own.len, URMA_EXT_PATH_COPIED, reason}};
  }
  std::vector<urma_ext_part_t> parts;
  for (const SharedPart& part : transport_->pages()->parts(own.pages)) {
    const bool shared = part.fd >= 0;
    parts.push_back({part.va, part.len, shared ? URMA_EXT_PATH_MAPPED : URMA_EXT_PATH_COPIED,
                     shared ? URMA_EXT_REASON_NONE : part.reason});
  }
  return parts;
}

}  // namespace urma::local
