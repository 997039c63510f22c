// SPDX-License-Identifier: MIT
#include "segment/inplace/extents.h"

#include <iterator>
#include <utility>

namespace urma {

Extents::Map::iterator Extents::at_or_after(uint64_t va) {
  auto next = map_.upper_bound(va);
  if (next != map_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end > va) return before;
  }
  return next;
}

Extents::Map::node_type Extents::make(uint64_t start, Extent extent) {
  Map one;
  one.emplace(start, std::move(extent));
  return one.extract(one.begin());
}

void Extents::insert(Map::node_type node) {
  const uint64_t start = node.key();
  const Extent& extent = node.mapped();
  const auto next = map_.lower_bound(start);
  if (next != map_.begin()) {
    Extent& before = std::prev(next)->second;
    if (before.end == start && before.memory == extent.memory && before.claims == extent.claims &&
        before.attributes == extent.attributes) {
      before.end = extent.end;
      return;
    }
  }
  map_.insert(next, std::move(node));
}

void Extents::cut(uint64_t va) {
  const auto extent = at_or_after(va);
  if (extent == map_.end() || extent->first >= va) return;
  Extent behind = extent->second;
  extent->second.end = va;
  map_.emplace(va, std::move(behind));
}

}  // namespace urma
