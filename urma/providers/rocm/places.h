// SPDX-License-Identifier: MIT
//
// Which memory of this process the runtime's engines reach, and at which address.
#ifndef URMA_PROVIDERS_ROCM_PLACES_H_
#define URMA_PROVIDERS_ROCM_PLACES_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "urma/base/mutex.h"
#include "urma/providers/rocm/hsa.h"

namespace urma::rocm {

// A stretch of memory.
struct Place {
  uint64_t begin;  // the program's address
  uint64_t bytes;
  uint64_t for_agent;  // the engines' address of `begin`
  hsa_agent_t agent;   // its owner
  bool cpu;            // the CPU may touch it

  bool covers(uint64_t addr, uint64_t count) const {
    return addr >= begin && count <= bytes && addr - begin <= bytes - count;
  }
};

// Thread-safe.
class Places {
 public:
  using Id = uint64_t;

  Id add(const Place& place) {
    const MutexLock lock(mutex_);
    longest_ = std::max(longest_, place.bytes);
    places_.emplace(place.begin, std::pair{++last_id_, place});
    return last_id_;
  }

  void remove(uint64_t begin, Id id) {
    const MutexLock lock(mutex_);
    const auto [first, last] = places_.equal_range(begin);
    for (auto entry = first; entry != last; ++entry) {
      if (entry->second.first != id) continue;
      places_.erase(entry);
      return;
    }
  }

  // A place that has all of the bytes.
  std::optional<Place> find(uint64_t addr, uint64_t bytes) const {
    const SharedMutexLock lock(mutex_);
    auto entry = places_.upper_bound(addr);
    while (entry != places_.begin()) {
      const Place& place = (--entry)->second.second;
      if (place.covers(addr, bytes)) return place;
      // A place that begins earlier may reach further, but not beyond the longest.
      if (addr - place.begin >= longest_) break;
    }
    return std::nullopt;
  }

 private:
  mutable SharedMutex mutex_;
  std::multimap<uint64_t, std::pair<Id, Place>> places_ URMA_GUARDED_BY(mutex_);
  uint64_t longest_ URMA_GUARDED_BY(mutex_) = 0;
  Id last_id_ URMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_PLACES_H_
