// SPDX-License-Identifier: MIT
//
// An imported segment, with the grants of its owner.
#ifndef JETTY_GRANTED_SEGMENT_H_
#define JETTY_GRANTED_SEGMENT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "jetty/message.h"
#include "jetty/remote.h"

namespace urma {

// Where a segment keeps the grant in force: in its handle, where a provider's short way finds it
// without asking what kind of segment it is, or apart from it.
enum class GrantPlace { kHandle, kApart };

// `Grant` has a SegmentGrant `segment` and stands(); for is_of() and granted_invalidation() also
// the Wanted it was `wanted` for. Any thread.
template <typename Grant, GrantPlace kPlace = GrantPlace::kHandle>
class GrantedSegment : public ImportedSegment {
 public:
  using ImportedSegment::ImportedSegment;

  // The grant in force of any segment of this provider; NULL for a registered one.
  [[gnu::always_inline]] static const Grant* grant_of(const SegmentHandle& handle) requires(
      kPlace == GrantPlace::kHandle) {
    // SYNC(grant): acquire pairs with the release in put_in_force().
    return static_cast<const Grant*>(handle.grant_slot.load(std::memory_order_acquire));
  }
  // The newest grant, which may no longer stand. NULL before the first one, and while the provider
  // waits for the owner to answer again. It stays until a newer one is published; then for as long
  // as the caller holds the lock of a queue, or mutex_, or runs on the service thread.
  [[gnu::always_inline]] const Grant* grant() const {
    // SYNC(grant): acquire pairs with the release in put_in_force().
    return static_cast<const Grant*>(slot(this).load(std::memory_order_acquire));
  }
  // It was granted once, and that grant no longer stands.
  bool stale() const {
    const Grant* granted = grant();
    return granted != nullptr && !granted->stands();
  }
  // Whether the grant stands for these bytes. A grant that lacks them is asked for anew, with the
  // bytes of the first request that needs them.
  bool holds(uint64_t addr, uint64_t bytes, uint32_t access) const {
    if (seg.ubva.va == addr && seg.len == bytes) return true;
    const Grant* granted = grant();
    return granted != nullptr && granted->stands() && granted->segment.covers(addr, bytes) &&
           granted->segment.allows(access);
  }
  // Whether a grant covers the memory that an import describes, and not other memory around it;
  // with va 0, any memory.
  static bool is_of(const Grant& granted, uint64_t va, uint64_t bytes) {
    return va == 0 || granted.wanted == Wanted{va, bytes, 0} ||
           (va == granted.segment.base && bytes == granted.segment.len);
  }
  // The Invalidation of a message that ends its remote access, by its grant. A grant that no longer
  // stands says nothing about the current registration, and one of other memory says nothing about
  // this import.
  Invalidation granted_invalidation() const {
    const Grant* granted = grant();
    if (granted == nullptr || !granted->stands() || !is_of(*granted, seg.ubva.va, seg.len)) {
      return ImportedSegment::invalidation();
    }
    return {seg.ubva.eid, granted->segment.base, granted->segment.len, granted->segment.ref};
  }
  uint32_t granted_access() const override {
    const MutexLock lock(mutex_);
    const Grant* granted = grant();
    return granted == nullptr ? 0 : granted->segment.access;
  }

 protected:
  const Grant* publish(std::unique_ptr<const Grant> granted) URMA_REQUIRES(mutex_) {
    grants_.push_back(std::move(granted));
    put_in_force(grants_.back().get());
    return grants_.back().get();
  }
  // One of grants(), or NULL.
  void put_in_force(const Grant* granted) URMA_REQUIRES(mutex_) {
    // SYNC(grant): release pairs with the acquires in grant_of() and grant().
    slot(this).store(granted, std::memory_order_release);
  }
  // Requests in flight may use older ones.
  const std::vector<std::unique_ptr<const Grant>>& grants() const URMA_REQUIRES(mutex_) {
    return grants_;
  }
  // While nobody holds the segment.
  void drop_older_grants() URMA_REQUIRES(mutex_) {
    grants_.erase(grants_.begin(), grants_.end() - 1);
  }
  // Whether something uses it that holds no lock of a queue. Such a grant goes with the import.
  virtual bool outlasts_requests(const Grant& /*granted*/) const URMA_REQUIRES(mutex_) {
    return false;
  }
  void drop_older() override {
    std::vector<std::unique_ptr<const Grant>> older;
    {
      const MutexLock lock(mutex_);
      if (grants_.size() < 2) return;
      const auto newest = grants_.end() - 1;
      const auto first = std::stable_partition(grants_.begin(), newest, [this](const auto& each) {
        mutex_.assume_held();
        return outlasts_requests(*each);
      });
      older.assign(std::move_iterator(first), std::move_iterator(newest));
      grants_.erase(first, newest);
    }
    if (!older.empty()) await_queues();
  }

 private:
  struct None {};

  template <typename Self>
  [[gnu::always_inline]] static auto& slot(Self* self) {
    if constexpr (kPlace == GrantPlace::kHandle)
      return self->grant_slot;
    else
      return self->apart_;
  }

  [[no_unique_address]] std::conditional_t<kPlace == GrantPlace::kApart, std::atomic<const void*>,
                                           None>
      apart_ = {};
  std::vector<std::unique_ptr<const Grant>> grants_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma

#endif  // JETTY_GRANTED_SEGMENT_H_
