// SPDX-License-Identifier: MIT
//
// Registered segments: which rights hold for which bytes, and which registrations still stand.
#ifndef SEGMENT_SEGMENT_H_
#define SEGMENT_SEGMENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "segment/bells.h"
#include "segment/copy_marks.h"
#include "segment/lazy_array.h"
#include "segment/shared_memory.h"
#include "urma/base/mutex.h"
#include "urma/base/shared_pages.h"
#include "urma_types.h"

namespace urma {

inline constexpr uint32_t kMaxSegments = 65536;

// Names one registration permanently: the generation changes when the place is used again.
struct SegmentRef {
  uint32_t index;
  uint32_t generation;  // 0: none

  bool operator==(const SegmentRef&) const = default;
};

// Whether `bytes` bytes at va lie in the `len` bytes at base.
[[gnu::always_inline]] inline bool lies_in(uint64_t va, uint64_t bytes, uint64_t base,
                                           uint64_t len) {
  uint64_t behind;
  return !__builtin_sub_overflow(len, bytes, &behind) && va - base <= behind;
}

// What urma_register_seg and urma_import_seg return begins with the public struct; this
// distinguishes the two, since programs put either into an sge. The slots are for a provider, which
// finds there at one look whether a request may take its short way, and what it keeps for the
// segment.
struct SegmentHandle : urma_target_seg_t {
  bool registered;
  std::atomic<const void*> own_slot{nullptr};    // of a registered one
  std::atomic<const void*> grant_slot{nullptr};  // of an imported one
};

// A registered segment. The members after the public struct are immutable while the segment stands,
// and only they are used on behalf of a peer: the program may write to the public fields.
struct Segment : SegmentHandle {
  // Providers keep more with it.
  virtual ~Segment() = default;

  SegmentRef ref;
  urma_eid_t eid;
  uint64_t base;
  uint64_t len;
  uint32_t token_id_value;
  uint32_t token_policy;
  urma_token_t token;
  uint32_t access;             // URMA_ACCESS_*
  uint32_t open_token_id;      // the token id, if everybody may read the segment; else 0
  SharedPages::RangeId pages;  // the part that peers can map; 0: nothing
  const char* device;          // the name of the device where it was registered
  bool foreign = false;        // not memory of this process, which must not touch it
  // The size of memory that the processor must not touch, and that its provider moves; `len` is
  // then 0, so that code that touches memory itself finds none here.
  uint64_t opaque_len = 0;
  bool granted = false;  // to a peer, once; guarded by the table's lock until it is removed

  bool covers(uint64_t va, uint64_t bytes) const { return lies_in(va, bytes, base, len); }
  uint64_t registered_len() const { return len + opaque_len; }
  // The same, whatever moves it.
  bool holds(uint64_t va, uint64_t bytes) const {
    return lies_in(va, bytes, base, registered_len());
  }
};

// The owner's answer to an importer whose token it has checked.
struct SegmentGrant {
  SegmentRef ref;
  uint64_t base;
  uint64_t len;
  uint32_t access;
  SharedPages::RangeId pages;
  bool opaque = false;  // Segment::opaque_len

  bool covers(uint64_t va, uint64_t bytes) const { return lies_in(va, bytes, base, len); }
  bool allows(uint32_t rights) const { return (access & rights) == rights; }
  // Whether both give an importer the same answer.
  bool says_the_same(const SegmentGrant& other) const {
    return ref == other.ref && base == other.base && len == other.len && access == other.access;
  }
};

enum class GrantError { kNotRegistered, kWrongToken };

// The registrations of one process at one provider. Thread-safe.
//
// One word per place holds the generation that stands there (odd), or an even number if none
// does. The words lie in memory that importers map read-only, so that they see an unregistration
// before each access without asking. The bells of the process's JFCs lie after them, and the marks
// of its writes to the memory of others. Another word per place holds the same for the process
// itself: a registration that a peer has invalidated still stands there.
class SegmentTable {
 public:
  SegmentTable();

  // Fills in and enters `segment`; throws Error(URMA_ENOMEM) when all places are taken.
  void add(Segment* segment);
  void remove(const Segment* segment);

  // Ends what peers may do with the registration that they would be granted for this; the process
  // itself goes on using it. False if there is none, or none that peers may access; if `ref`
  // is set, only that registration counts: the place may have been registered again.
  bool invalidate(const urma_eid_t& eid, uint32_t token_id, uint64_t va, uint64_t len,
                  urma_token_t token, SegmentRef ref = {});
  // Takes back what peers can map of an invalidated registration, soon; does not throw. The owner's
  // unregistration removes the rest. To be set once, before there are peers.
  void set_take_back(std::function<void(SharedPages::RangeId)> take_back) {
    take_back_ = std::move(take_back);
  }

  // For the process itself; peers look at their own view, with alive_in().
  bool alive(SegmentRef ref) const { return alive_in(&own_words_[0], ref); }
  // For peers: false also once one of them has invalidated it.
  bool granted(SegmentRef ref) const { return alive_in(words_, ref); }
  static bool alive_in(const std::atomic<uint32_t>* words, SegmentRef ref) {
    // Acquire pairs with the release stores of add() and remove().
    return words[ref.index].load(std::memory_order_acquire) == ref.generation;
  }
  static constexpr size_t kWordBytes = kMaxSegments * sizeof(uint32_t);

  // The bell of a JFC, not set. Throws Error(URMA_ENOMEM).
  Bell& bell(uint32_t jfc_id);
  static const Bell& bell_in(const void* shared, uint32_t index) {
    return reinterpret_cast<const Bell*>(static_cast<const char*>(shared) + kWordBytes)[index];
  }
  // Of the writes of this process to the memory of others.
  CopyMarks& copies() { return *reinterpret_cast<CopyMarks*>(&bells()[kBells]); }
  static const CopyMarks& copies_in(const void* shared) {
    return reinterpret_cast<const CopyMarks&>(bell_in(shared, kBells));
  }
  // What peers map: words, bells and marks.
  static constexpr size_t kSharedBytes = kWordBytes + kBells * sizeof(Bell) + sizeof(CopyMarks);

  // Finds a registration by token id and range, then compares the token's value. If none covers
  // the whole range, the one in which it begins is granted, with its own bounds. Of several, one
  // that allows `access` is preferred.
  std::optional<SegmentGrant> grant(const urma_eid_t& eid, uint32_t token_id, uint64_t va,
                                    uint64_t len, urma_token_t token, GrantError* error,
                                    uint32_t access = 0) const;
  // Calls access_memory() if the grant still stands and covers `bytes` bytes at va with all
  // rights in `access`, and returns whether it did. The segment cannot be unregistered meanwhile.
  bool with_grant(SegmentRef ref, uint64_t va, uint64_t bytes, uint32_t access,
                  const std::function<void()>& access_memory) const;

  // Calls visit(segment) where the registration stands for the process itself; it cannot go
  // meanwhile. False if it does not.
  bool with_segment(SegmentRef ref, const std::function<void(const Segment&)>& visit) const;
  // The memory of a registration has gone: it no longer stands for anybody. Its unregistration is
  // still to come.
  void end(SegmentRef ref);

  // Calls visit(segment) for each registration; none of them can go meanwhile.
  void visit(const std::function<void(const Segment&)>& visit) const;

  int words_fd() const { return memory_.fd(); }

 private:
  Segment* find(const urma_eid_t& eid, uint32_t token_id, uint64_t va, uint64_t len,
                urma_token_t token, uint32_t access, SegmentRef ref, GrantError* error) const
      URMA_REQUIRES(mutex_);
  // The registration that covers the range, else the one in which it begins.
  Segment* find_first(const urma_eid_t& eid, uint32_t token_id, uint64_t va, uint64_t len,
                      urma_token_t token, uint32_t access, SegmentRef ref, GrantError* error) const
      URMA_REQUIRES(mutex_);
  // The registration no longer stands for peers.
  void end_for_peers(SegmentRef ref) URMA_REQUIRES(mutex_);

  Bell* bells() { return reinterpret_cast<Bell*>(static_cast<char*>(memory_.data()) + kWordBytes); }

  SharedMemory memory_;
  std::atomic<uint32_t>* words_;
  LazyArray<std::atomic<uint32_t>> own_words_;
  std::function<void(SharedPages::RangeId)> take_back_;
  mutable Mutex mutex_;
  std::vector<Segment*> by_index_ URMA_GUARDED_BY(mutex_);
  uint32_t cursor_ URMA_GUARDED_BY(mutex_) = 0;
  std::unordered_multimap<uint32_t, Segment*> by_token_ URMA_GUARDED_BY(mutex_);
};

// A token id of this library: the public struct only.
struct TokenId : urma_token_id_t {};

}  // namespace urma

#endif  // SEGMENT_SEGMENT_H_
