// SPDX-License-Identifier: MIT
//
// Which pages are shared memory at present, and which ranges need them.
#ifndef SEGMENT_INPLACE_EXTENTS_H_
#define SEGMENT_INPLACE_EXTENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "segment/inplace/page_attributes.h"
#include "segment/inplace/page_memory.h"

namespace urma {

struct Extent {
  uint64_t end;
  std::shared_ptr<PageMemory> memory;
  Audience audience;
  PageAttributes attributes;     // of the private pages that were there
  std::vector<uint64_t> claims;  // the ranges that need it
};

// Not thread-safe.
class Extents {
 public:
  using Map = std::map<uint64_t, Extent>;  // by the first address

  // The extent that holds `va`, else the next above it, else end().
  Map::iterator at_or_after(uint64_t va);
  Map::iterator end() { return map_.end(); }
  const Map& map() const { return map_; }

  // Merges with the extent before it if both are equal apart from their place. Does not throw.
  void insert(Map::node_type node);
  // For insert().
  static Map::node_type make(uint64_t start, Extent extent);
  // Cuts the extent that holds `va`, if any, so that one begins there.
  void cut(uint64_t va);
  Map::iterator erase(Map::iterator extent) { return map_.erase(extent); }
  void clear() { map_.clear(); }

 private:
  Map map_;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_EXTENTS_H_
