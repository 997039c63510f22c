// SPDX-License-Identifier: MIT
#include "jetty/receive_queue.h"

#include <cstring>

#include "urma/base/log.h"

namespace urma {

ReceiveQueue::ReceiveQueue(uint32_t depth, uint32_t max_sge)
    : depth_(depth),
      max_sge_(max_sge),
      stride_(sizeof(ReceiveEntry) + max_sge * sizeof(LocalPiece)),
      memory_(depth_ * stride_) {}

urma_status_t ReceiveQueue::post(const urma_jfr_wr_t& wr) {
  if (wr.src.num_sge > max_sge_ || (wr.src.num_sge != 0 && wr.src.sge == nullptr)) {
    URMA_LOG_LIMITED(ERR, "post: a receive with num_sge {} at {}; the JFR takes up to {}",
                     wr.src.num_sge, static_cast<const void*>(wr.src.sge), max_sge_);
    return URMA_EINVAL;
  }
  if (size_ == depth_) {
    URMA_LOG_LIMITED(WARNING, "post: the JFR already holds its depth of {} receives; poll first",
                     depth_);
    return URMA_ENOMEM;
  }
  start_over_if_empty();
  ReceiveEntry& entry = at(place_of(size_));
  entry = {wr.user_ctx, 0, wr.src.num_sge};
  for (uint32_t i = 0; i < entry.pieces; ++i) {
    if (!local_piece(wr.src.sge[i], &pieces(&entry)[i])) return URMA_EINVAL;
    entry.bytes += wr.src.sge[i].len;
  }
  ++size_;
  return URMA_SUCCESS;
}

void ReceiveQueue::make_room(uint32_t depth) {
  if (depth <= depth_) return;
  LazyMemory wider(depth * stride_);
  auto* to = static_cast<char*>(wider.data());
  for (uint32_t n = 0; n < size_; ++n) std::memcpy(to + n * stride_, &at(place_of(n)), stride_);
  memory_ = std::move(wider);
  depth_ = depth;
  head_ = 0;
}

}  // namespace urma
