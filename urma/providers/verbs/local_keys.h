// SPDX-License-Identifier: MIT
//
// The local keys of registered segments, found by the reference that requests carry.
#ifndef URMA_PROVIDERS_VERBS_LOCAL_KEYS_H_
#define URMA_PROVIDERS_VERBS_LOCAL_KEYS_H_

#include <atomic>
#include <cstdint>

#include "segment/lazy_array.h"
#include "segment/segment.h"

namespace urma::verbs {

struct KeyedSegment : Segment {
  std::atomic<uint32_t> lkey{0};
};

// Thread-safe. The generation and the key share one word, so that one load also tells whether the
// registration is still valid.
class LocalKeys {
 public:
  // Before requests can name the segment, and before its region ends.
  void set(KeyedSegment* segment, uint32_t lkey) {
    const SegmentRef ref = segment->ref;
    // SYNC(local-key): release pairs with the acquire in find().
    words_[ref.index].store(uint64_t{ref.generation} << 32 | lkey, std::memory_order_release);
    segment->lkey.store(lkey, std::memory_order_relaxed);
    // SYNC(own-key): release pairs with the acquire in own_segment().
    segment->own_slot.store(this, std::memory_order_release);
  }
  void clear(Segment* segment) {
    segment->own_slot.store(nullptr, std::memory_order_relaxed);
    words_[segment->ref.index].store(0, std::memory_order_relaxed);
  }
  // False if that registration is gone.
  bool find(SegmentRef ref, uint32_t* lkey) const {
    // SYNC(local-key): acquire pairs with the release in set().
    const uint64_t word = words_[ref.index].load(std::memory_order_acquire);
    *lkey = static_cast<uint32_t>(word);
    return ref.generation != 0 && word >> 32 == ref.generation;
  }
  // The registered segment that contains all of a piece of this many bytes, and its key; NULL if
  // there is none.
  [[gnu::always_inline]] const Segment* own_segment(const urma_sge_t& piece, uint64_t bytes,
                                                    uint32_t* lkey) const {
    const auto* handle = static_cast<const SegmentHandle*>(piece.tseg);
    // SYNC(own-key): acquire pairs with the release in set().
    if (handle == nullptr || handle->own_slot.load(std::memory_order_acquire) != this) {
      return nullptr;
    }
    // Only set() says so.
    const auto* segment = static_cast<const KeyedSegment*>(handle);
    if (!lies_in(piece.addr, bytes, segment->base, segment->len)) return nullptr;
    *lkey = segment->lkey.load(std::memory_order_relaxed);
    return segment;
  }
  // Whether a valid registration has this key. Slow.
  bool has(uint32_t lkey) const {
    for (uint32_t i = 0; i < kMaxSegments; ++i) {
      // Relaxed: registrations that come or go meanwhile do not matter.
      const uint64_t word = words_[i].load(std::memory_order_relaxed);
      if (word != 0 && static_cast<uint32_t>(word) == lkey) return true;
    }
    return false;
  }

 private:
  LazyArray<std::atomic<uint64_t>> words_{kMaxSegments};
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_LOCAL_KEYS_H_
