// SPDX-License-Identifier: MIT
//
// The receives that a device has, each in a place whose number comes back with its completion:
// devices complete them in any order.
#ifndef URMA_PROVIDERS_VERBS_RECEIVE_TABLE_H_
#define URMA_PROVIDERS_VERBS_RECEIVE_TABLE_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "segment/lazy_array.h"

namespace urma::verbs {

struct PostedReceive {
  uint64_t user_ctx;
  uint64_t bytes;
  uint64_t number;  // in the order of posts; 0: the place is free
  uint32_t pieces;
  uint32_t next_free;  // one more than the index of the next free place
};

// Not thread-safe; the owner's lock guards it.
class ReceiveTable {
 public:
  ReceiveTable(uint32_t depth, uint32_t max_pieces)
      : depth_(depth),
        stride_(sizeof(PostedReceive) + max_pieces * sizeof(ibv_sge)),
        memory_(depth * stride_) {}

  uint32_t depth() const { return depth_; }
  uint32_t size() const { return size_; }
  uint64_t taken() const { return taken_; }

  // A free place, or NULL. Only take() takes it.
  PostedReceive* free_place() const {
    const uint32_t index = free_index();
    return index == depth_ ? nullptr : &at(index);
  }
  // The same; the depth if there is none.
  uint32_t free_index() const { return first_free_ != 0 ? first_free_ - 1 : untouched_; }
  void take(PostedReceive* place) {
    if (first_free_ != 0) {
      first_free_ = place->next_free;
    } else {
      ++untouched_;
    }
    place->number = ++taken_;
    ++size_;
  }
  void free(PostedReceive* place) { free(place, index_of(place)); }
  void free(PostedReceive* place, uint32_t index) {
    place->number = 0;
    // Reuse the latest place first, while it is in the cache.
    place->next_free = first_free_;
    first_free_ = index + 1;
    --size_;
  }

  // NULL if nothing is posted there.
  PostedReceive* find(uint64_t index) const {
    if (index >= untouched_ || at(static_cast<uint32_t>(index)).number == 0) return nullptr;
    return &at(static_cast<uint32_t>(index));
  }
  // All that are posted, the oldest last.
  void list(std::vector<PostedReceive*>* posted) const {
    posted->clear();
    for (uint32_t i = 0; i < untouched_; ++i) {
      if (PostedReceive* place = find(i); place != nullptr) posted->push_back(place);
    }
    std::sort(posted->begin(), posted->end(),
              [](const auto* a, const auto* b) { return a->number > b->number; });
  }
  uint32_t index_of(const PostedReceive* place) const {
    const auto* base = static_cast<const char*>(memory_.data());
    return static_cast<uint32_t>((reinterpret_cast<const char*>(place) - base) / stride_);
  }
  // What the device is given for it.
  ibv_recv_wr request_for(PostedReceive* place) const {
    return {index_of(place), nullptr, pieces(place), static_cast<int>(place->pieces)};
  }
  static ibv_sge* pieces(PostedReceive* place) { return reinterpret_cast<ibv_sge*>(place + 1); }
  PostedReceive& at(uint32_t index) const {
    return *reinterpret_cast<PostedReceive*>(static_cast<char*>(memory_.data()) + index * stride_);
  }

 private:
  const uint32_t depth_;
  const size_t stride_;
  LazyMemory memory_;
  uint32_t untouched_ = 0;   // places from here on were never used
  uint32_t first_free_ = 0;  // one more than its index; 0: none
  uint32_t size_ = 0;
  uint64_t taken_ = 0;  // total ever taken
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_RECEIVE_TABLE_H_
