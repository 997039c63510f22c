/* SPDX-License-Identifier: MIT */

// Memory of an endpoint for datagrams: receives that are always posted, and copies of messages that
// are too long for inline data.

#ifndef OFI_RDM_BUFFERS_H
#define OFI_RDM_BUFFERS_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ofi/rdm_frame.h"
#include "urma_api.h"

namespace urma_fi {

constexpr size_t kEagerSize = 16384;  // longer messages wait at their sender
constexpr size_t kMostInline = 1024;  // of a message with its head
constexpr uint32_t kBounces = 256;
constexpr uint32_t kCopies = 64;

// What the completion record of a request belongs to: the low bits of its user_ctx.
enum Owner : uint64_t {
  kBounce,  // a receive that is always posted; its number is above
  kLane,    // the Receive whose memory takes data
  kSend,    // the Send
  kPeer,    // the Peer that it goes to: there is a record only if it fails
  kProbe,   // the Peer that it goes to: a probe
  kOwnerMask = 7,
};
constexpr int kOwnerBits = 3;

inline uint64_t context_of(const void* object, Owner owner) {
  return reinterpret_cast<uintptr_t>(object) | owner;
}

class Buffers {
 public:
  ~Buffers() { drop(); }

  // Returns 0 or a negative code; drop() is needed then, too.
  int make(urma_context_t* context);
  // Once nothing is posted any more.
  void drop();
  // Posts all receives. Returns 0 or a negative code.
  int post_all(urma_jfr_t* queue);

  const char* bounce(uint64_t index) const { return at(index); }
  // Posts this receive again, with others.
  void post(urma_jfr_t* queue, uint64_t index) {
    returned_[returned_count_++] = static_cast<uint32_t>(index);
    if (returned_count_ == kBatch) post_returned(queue);
  }

  // NULL: all are in use.
  char* take_copy() {
    if (free_copies_.empty()) return nullptr;
    char* copy = free_copies_.back();
    free_copies_.pop_back();
    return copy;
  }
  void put_copy(char* copy) { free_copies_.push_back(copy); }

  urma_target_seg_t* segment() const { return segment_; }

 private:
  static constexpr uint32_t kBatch = 16;
  // An odd number of cache lines, so that the heads do not share a few sets of the cache.
  static constexpr size_t kStride = (kEagerSize + kMaxHead + 63) / 64 * 64 | 64;
  static constexpr size_t kBytes = (kBounces + kCopies) * kStride;

  char* at(uint64_t index) const { return memory_ + index * kStride; }
  int post_returned(urma_jfr_t* queue);

  char* memory_ = nullptr;
  urma_target_seg_t* segment_ = nullptr;
  std::vector<urma_sge_t> pieces_;       // of the receives
  std::vector<urma_jfr_wr_t> requests_;  // likewise
  uint32_t returned_[kBatch];
  uint32_t returned_count_ = 0;
  std::vector<char*> free_copies_;
};

}  // namespace urma_fi

#endif  // OFI_RDM_BUFFERS_H
