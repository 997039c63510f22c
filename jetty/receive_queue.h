// SPDX-License-Identifier: MIT
//
// The posted receives of a JFR, consumed strictly first in, first out.
#ifndef JETTY_RECEIVE_QUEUE_H_
#define JETTY_RECEIVE_QUEUE_H_

#include <cstdint>
#include <span>

#include "jetty/work_request.h"
#include "segment/lazy_array.h"
#include "urma_types.h"

namespace urma {

struct ReceiveEntry {
  uint64_t user_ctx;
  uint64_t bytes;
  uint32_t pieces;
};

// Not thread-safe; the owner's lock guards it.
class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t depth, uint32_t max_sge);

  // URMA_EINVAL for a request that the contract refuses, URMA_ENOMEM if the queue is full.
  urma_status_t post(const urma_jfr_wr_t& wr);
  // The same for a receive of one piece, without a call. False if it needs one: nothing was done.
  [[gnu::always_inline]] bool post_plain(const urma_jfr_wr_t& wr) {
    if (wr.src.num_sge != 1 || wr.src.sge == nullptr || max_sge_ == 0 || size_ == depth_) {
      return false;
    }
    start_over_if_empty();
    ReceiveEntry& entry = at(place_of(size_));
    entry.pieces = 1;
    if (!piece_of_segment(*wr.src.sge, &pieces(&entry)[0])) return false;
    entry.user_ctx = wr.user_ctx;
    entry.bytes = wr.src.sge->len;
    ++size_;
    return true;
  }
  // The oldest posted receive, or NULL.
  ReceiveEntry* front() const { return size_ == 0 ? nullptr : &at(head_); }
  [[gnu::always_inline]] void pop() {
    head_ = head_ + 1 == depth_ ? 0 : head_ + 1;
    --size_;
    ++popped_;
  }
  // Holds at least `depth` receives from now on.
  void make_room(uint32_t depth);
  uint32_t size() const { return size_; }
  uint64_t popped() const { return popped_; }

  static std::span<LocalPiece> pieces(ReceiveEntry* entry) {
    return {reinterpret_cast<LocalPiece*>(entry + 1), entry->pieces};
  }

 private:
  // So that it stays in the cache whatever its depth is.
  void start_over_if_empty() {
    if (size_ == 0) head_ = 0;
  }
  // The place of the n-th receive, from the oldest on.
  uint32_t place_of(uint32_t n) const {
    return n < depth_ - head_ ? head_ + n : head_ - (depth_ - n);
  }
  ReceiveEntry& at(uint32_t index) const {
    return *reinterpret_cast<ReceiveEntry*>(static_cast<char*>(memory_.data()) + index * stride_);
  }

  uint32_t depth_;
  const uint32_t max_sge_;
  const size_t stride_;
  LazyMemory memory_;
  uint32_t head_ = 0;
  uint32_t size_ = 0;
  uint64_t popped_ = 0;  // all that ever left
};

}  // namespace urma

#endif  // JETTY_RECEIVE_QUEUE_H_
