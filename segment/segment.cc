// SPDX-License-Identifier: MIT
#include "segment/segment.h"

#include <algorithm>
#include <cstring>

#include "urma/base/error.h"

namespace urma {

SegmentTable::SegmentTable()
    : memory_(SharedMemory::create("urma-segments", kSharedBytes, PeerMay::kRead, kWordBytes)),
      words_(static_cast<std::atomic<uint32_t>*>(memory_.data())),
      own_words_(kMaxSegments),
      by_index_(kMaxSegments, nullptr) {
  memory_.back(kSharedBytes - sizeof(CopyMarks), sizeof(CopyMarks));
}

Bell& SegmentTable::bell(uint32_t jfc_id) {
  const uint32_t index = jfc_id % kBells;
  memory_.back(kWordBytes + index * sizeof(Bell), sizeof(Bell));
  Bell& bell = bells()[index];
  bell.bits.store(0, std::memory_order_relaxed);
  return bell;
}

void SegmentTable::add(Segment* segment) {
  const MutexLock lock(mutex_);
  uint32_t tried = 0;
  while (by_index_[cursor_ % kMaxSegments] != nullptr) {
    if (++tried == kMaxSegments) {
      fail(URMA_ENOMEM, "register_seg: all {} segments are in use; unregister some", kMaxSegments);
    }
    ++cursor_;
  }
  const uint32_t index = cursor_++ % kMaxSegments;
  by_token_.emplace(segment->token_id_value, segment);
  by_index_[index] = segment;
  const uint32_t generation = words_[index].load(std::memory_order_relaxed) + 1;
  segment->ref = {index, generation};
  const bool open =
      segment->token_policy == URMA_TOKEN_NONE && (segment->access & URMA_ACCESS_READ) != 0;
  segment->open_token_id = open ? segment->token_id_value : 0;
  // Release pairs with the acquire in alive_in(): the segment is complete before it stands.
  own_words_[index].store(generation, std::memory_order_release);
  words_[index].store(generation, std::memory_order_release);
}

void SegmentTable::end_for_peers(SegmentRef ref) {
  // Release pairs with the acquire in alive_in().
  words_[ref.index].store(ref.generation + 1, std::memory_order_release);
  // SYNC(segment-gone): this release fence, before the memory changes, pairs with the acquire fence
  // in Receiver::pull_stretch and QueuePath::transfer: a copy of what is stored later finds that
  // the segment has gone. A release store alone may be passed by later stores.
  std::atomic_thread_fence(std::memory_order_release);
}

void SegmentTable::remove(const Segment* segment) {
  const MutexLock lock(mutex_);
  const auto [index, generation] = segment->ref;
  end_for_peers(segment->ref);
  // Release pairs with the acquire in alive_in().
  own_words_[index].store(generation + 1, std::memory_order_release);
  by_index_[index] = nullptr;
  const auto [first, last] = by_token_.equal_range(segment->token_id_value);
  by_token_.erase(std::find_if(first, last, [=](const auto& e) { return e.second == segment; }));
}

bool SegmentTable::invalidate(const urma_eid_t& eid, uint32_t token_id, uint64_t va, uint64_t len,
                              urma_token_t token, SegmentRef ref) {
  const MutexLock lock(mutex_);
  GrantError error;
  const Segment* segment = find_first(eid, token_id, va, len, token, 0, ref, &error);
  if (segment == nullptr || segment->access == 0) return false;
  // First: nobody may write to pages that no longer belong to the program.
  end_for_peers(segment->ref);
  if (segment->pages != 0) take_back_(segment->pages);
  return true;
}

Segment* SegmentTable::find(const urma_eid_t& eid, uint32_t token_id, uint64_t va, uint64_t len,
                            urma_token_t token, uint32_t access, SegmentRef ref,
                            GrantError* error) const {
  // Of several, one that allows the wanted access; then the one that was described.
  const auto rank = [&](const Segment& segment) {
    return ((segment.access & access) == access ? 2 : 0) +
           (segment.base == va && segment.registered_len() == len ? 1 : 0);
  };
  Segment* found = nullptr;
  auto [first, last] = by_token_.equal_range(token_id);
  for (auto entry = first; entry != last; ++entry) {
    Segment& segment = *entry->second;
    if (!segment.holds(va, len) || std::memcmp(&segment.eid, &eid, sizeof(eid)) != 0 ||
        !alive_in(words_, segment.ref) || (ref.generation != 0 && segment.ref != ref)) {
      continue;
    }
    if (segment.token_policy != URMA_TOKEN_NONE && segment.token.token != token.token) {
      *error = GrantError::kWrongToken;
      continue;
    }
    if (found == nullptr || rank(segment) > rank(*found)) found = &segment;
  }
  return found;
}

Segment* SegmentTable::find_first(const urma_eid_t& eid, uint32_t token_id, uint64_t va,
                                  uint64_t len, urma_token_t token, uint32_t access, SegmentRef ref,
                                  GrantError* error) const {
  const uint64_t bytes = std::max<uint64_t>(len, 1);
  Segment* segment = find(eid, token_id, va, bytes, token, access, ref, error);
  return segment != nullptr ? segment : find(eid, token_id, va, 1, token, access, ref, error);
}

std::optional<SegmentGrant> SegmentTable::grant(const urma_eid_t& eid, uint32_t token_id,
                                                uint64_t va, uint64_t len, urma_token_t token,
                                                GrantError* error, uint32_t access) const {
  const MutexLock lock(mutex_);
  *error = GrantError::kNotRegistered;
  Segment* segment = find_first(eid, token_id, va, len, token, access, {}, error);
  if (segment == nullptr) return std::nullopt;
  segment->granted = true;
  return SegmentGrant{segment->ref,    segment->base,  segment->registered_len(),
                      segment->access, segment->pages, segment->opaque_len != 0};
}

bool SegmentTable::with_grant(SegmentRef ref, uint64_t va, uint64_t bytes, uint32_t access,
                              const std::function<void()>& access_memory) const {
  if (ref.index >= kMaxSegments) return false;
  const MutexLock lock(mutex_);
  const Segment* segment = by_index_[ref.index];
  if (segment == nullptr || segment->ref.generation != ref.generation || !alive_in(words_, ref) ||
      (segment->access & access) != access || !segment->covers(va, bytes)) {
    return false;
  }
  access_memory();
  return true;
}

bool SegmentTable::with_segment(SegmentRef ref,
                                const std::function<void(const Segment&)>& visit) const {
  if (ref.index >= kMaxSegments) return false;
  const MutexLock lock(mutex_);
  const Segment* segment = by_index_[ref.index];
  if (segment == nullptr || segment->ref != ref || !alive(ref)) return false;
  visit(*segment);
  return true;
}

void SegmentTable::end(SegmentRef ref) {
  const MutexLock lock(mutex_);
  const Segment* segment = by_index_[ref.index];
  if (segment == nullptr || segment->ref != ref) return;
  end_for_peers(ref);
  // Release pairs with the acquire in alive_in().
  own_words_[ref.index].store(ref.generation + 1, std::memory_order_release);
}

void SegmentTable::visit(const std::function<void(const Segment&)>& visit) const {
  const MutexLock lock(mutex_);
  for (const auto& [token_id, segment] : by_token_) visit(*segment);
}

}  // namespace urma
