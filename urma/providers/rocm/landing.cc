// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/landing.h"

#include <algorithm>

#include "urma/base/log.h"

namespace urma::rocm {

bool is_device_memory(const SegmentTable& segments, const LocalPiece& piece) {
  bool holds = false;
  segments.with_segment(piece.ref, [&](const Segment& segment) {
    holds = segment.opaque_len != 0 && segment.holds(piece.addr, piece.len);
  });
  return holds;
}

void Landing::make_room(uint32_t bytes) {
  bytes_ = bytes;
  buffer_ = copies_->buffer(bytes);
}

bool Landing::stands() const {
  return std::all_of(receive_.begin(), receive_.end(), [this](const LocalPiece& piece) {
    return piece.len == 0 || (piece.valid && segments_->alive(piece.ref)) ||
           is_device_memory(*segments_, piece);
  });
}

bool Landing::landed(urma_cr_status_t* status) {
  try {
    if (copy_ == nullptr) {
      std::vector<CopyPiece> pieces;
      const char* from = buffer_->data();
      uint64_t left = bytes_;
      for (const LocalPiece& piece : receive_) {
        const uint64_t bytes = std::min<uint64_t>(piece.len, left);
        if (bytes == 0) continue;
        pieces.push_back({reinterpret_cast<char*>(piece.addr), from, bytes});
        from += bytes;
        left -= bytes;
      }
      copy_ = copies_->begin(pieces);
    }
    if (copy_->ended(status)) return true;
    copy_->wake_when_ended();
    return false;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a message of {} bytes cannot be copied to its receive: {}", bytes_,
                     error.what());
    *status = URMA_CR_LOC_OPERATION_ERR;
    return true;
  }
}

}  // namespace urma::rocm
