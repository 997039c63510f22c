// SPDX-License-Identifier: MIT
//
// The segments of a context at its device: what peers are granted, and what ends that.
#ifndef URMA_PROVIDERS_VERBS_REGISTRATIONS_H_
#define URMA_PROVIDERS_VERBS_REGISTRATIONS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "segment/segment.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/connection.h"
#include "urma/providers/verbs/local_keys.h"
#include "urma/providers/verbs/memory.h"

namespace urma::verbs {

// Thread-safe.
class Registrations final : public Revoker {
 public:
  Registrations(const Device* device, SegmentTable* table) : device_(device), table_(table) {}

  LocalKeys& keys() { return keys_; }
  // Registers the segment and enters it into the table. Throws Error; nothing has changed then.
  void enter(KeyedSegment* segment);
  // The same for memory at `offset` in a dma-buf.
  void enter(KeyedSegment* segment, int dmabuf, uint64_t offset);
  // No new use begins; its region stays until remove().
  void withdraw(KeyedSegment* segment);
  void remove(SegmentRef ref);
  // Ends all regions. The segments are not used any more.
  void clear();
  // How peers reach a registration; nothing if they may not, or it is gone.
  std::optional<uint32_t> rkey(SegmentRef ref) const;

  bool revoke(const urma_eid_t& eid, const TokenKey& key, uint64_t va, uint64_t len) override;

 private:
  struct Known {
    KeyedSegment* segment;  // until it is withdrawn
    MemoryRegion region;
  };

  void add(KeyedSegment* segment, MemoryRegion region);
  bool takes_rights_in_place(const Segment& segment);

  const Device* const device_;
  SegmentTable* const table_;
  LocalKeys keys_;
  Mutex in_place_mutex_;
  std::optional<bool> in_place_ URMA_GUARDED_BY(in_place_mutex_);  // set once the device was tried
  mutable Mutex mutex_;  // guards the next one; taken before the table's
  std::map<uint64_t, Known> known_ URMA_GUARDED_BY(mutex_);  // by SegmentRef
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_REGISTRATIONS_H_
