// SPDX-License-Identifier: MIT
#ifndef JETTY_PEER_GRANTS_H_
#define JETTY_PEER_GRANTS_H_

#include <cstdint>
#include <unordered_map>

#include "segment/segment.h"
#include "urma/base/mutex.h"

namespace urma {

// The registrations granted to one peer: it can use no others, even if it guesses their names.
// Thread-safe.
class PeerGrants {
 public:
  void add(SegmentRef segment) {
    const MutexLock lock(mutex_);
    granted_[segment.index] = segment.generation;
  }
  bool has(SegmentRef segment) const {
    const MutexLock lock(mutex_);
    const auto found = granted_.find(segment.index);
    return found != granted_.end() && found->second == segment.generation;
  }
  // A registration has ended. False if it was not granted.
  bool remove(SegmentRef segment) {
    const MutexLock lock(mutex_);
    const auto found = granted_.find(segment.index);
    if (found == granted_.end() || found->second != segment.generation) return false;
    granted_.erase(found);
    return true;
  }

 private:
  mutable Mutex mutex_;
  std::unordered_map<uint32_t, uint32_t> granted_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma

#endif  // JETTY_PEER_GRANTS_H_
