// SPDX-License-Identifier: MIT
//
// Receives in memory of a device: the message is gathered in host memory, and then copied there.
#include <algorithm>

#include "urma/base/log.h"
#include "urma/providers/shm/receiver.h"

namespace urma::shm {

// Nothing of the receive is written any more when this returns.
void Receiver::end_parts() {
  if (holding_ == nullptr) return;
  holding_->pull_memory->staged.reset();
  holding_->pull_memory->copy.reset();
  holding_->pull_memory->buffer.reset();
  holding_ = nullptr;
}

// Where all of it can be written, and not by the CPU alone.
bool Receiver::receives_by_device(ReceiveEntry* entry) const {
  for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
    if (piece.len == 0 || (piece.valid && segments_->alive(piece.ref))) continue;
    bool holds = false;
    segments_->with_segment(piece.ref, [&](const Segment& segment) {
      holds = segment.device_len != 0 && segment.holds(piece.addr, piece.len);
    });
    if (!holds) return false;
  }
  return true;
}

Receiver::Step Receiver::begin_device_pull(IncomingRing* ring, const Message& message,
                                           ReceiveEntry* entry, Poll* poll) {
  std::unique_ptr<HostBuffer> buffer;
  try {
    buffer = device_->buffer(message.length);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a message of {} bytes cannot be gathered: {}", message.length,
                     error.what());
    finish(ring, message, entry, URMA_CR_LOC_OPERATION_ERR, URMA_CR_REM_OPERATION_ERR, poll);
    return Step::kMoved;
  }
  if ((message.flags & kByReference) != 0) {
    if (!begin_pull(ring, message)) {
      ring->ring.consume(message, URMA_CR_REM_RESP_LEN_ERR);
      return Step::kMoved;
    }
  } else {
    if (ring->pull_memory == nullptr) ring->pull_memory = std::make_unique<Pull>();
    Pull* const pull = ring->pull_memory.get();
    pull->message = message;
    pull->moved = message.length;
    pull->invalidation = invalidation_of(*ring, message);
    pull->count = 0;
    ring->ring.copy_payload(message, prefix_of(message.kind), buffer->data(),
                            message.payload - prefix_of(message.kind));
    ring->pull = pull;
    holding_ = ring;
  }
  ring->pull->buffer = std::move(buffer);
  return go_on(ring, poll);
}

// False while the copy is under way; *status says how it ended.
bool Receiver::copy_to_device(Pull* pull, ReceiveEntry* entry, urma_cr_status_t* status) {
  try {
    if (pull->copy == nullptr) {
      std::vector<CopyPiece> pieces;
      const char* from = pull->buffer->data();
      uint64_t left = pull->message.length;
      for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
        const uint64_t bytes = std::min<uint64_t>(piece.len, left);
        if (bytes == 0) continue;
        pieces.push_back({reinterpret_cast<char*>(piece.addr), from, bytes});
        from += bytes;
        left -= bytes;
      }
      pull->copy = device_->copy(pieces, nullptr);
    }
    if (pull->copy->ended(status)) return true;
    pull->copy->wake_when_ended();
    return false;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a message of {} bytes cannot be copied to its receive: {}",
                     pull->message.length, error.what());
    *status = URMA_CR_LOC_OPERATION_ERR;
    return true;
  }
}

}  // namespace urma::shm
