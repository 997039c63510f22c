// SPDX-License-Identifier: MIT
//
// Keeps mremap() from growing an area of shared memory, with nothing after its end: the call would
// succeed, and the first access raise SIGBUS. The kernel grows only a single area, so the last
// piece of a shared range is made an area of its own, by an advice on the order of accesses that
// has no effect on memory. Callers such as realloc() then copy.
#include <sys/mman.h>

#include "segment/inplace/page_table.h"
#include "segment/kernel_abi.h"

namespace urma {
// The extent at the end of the range, and where its last piece begins; end() if none is kept
// apart: the range ends with private memory, or is one page.
PageTable::ExtentMap::iterator PageTable::end_piece(const Range& range, uint64_t* va) {
  if (range.parts.empty() || range.parts.back().fd < 0) return extents_.end();
  const uint64_t start = range.parts.back().va;
  const auto extent = extents_.at_or_after(range.last - 1);
  const auto* block = own_.at_or_after(range.last - 1);
  const bool own = block != nullptr && block->va < range.last;
  if (extent == extents_.end() || extent->first >= range.last || own) return extents_.end();
  // Splits no huge page.
  *va = extent->second.attributes.huge ? (range.last - 1) & ~kernel::kHugeMask
                                       : range.last - kernel::kPageBytes;
  return *va > start ? extent : extents_.end();
}

void PageTable::forbid_growth(const Range& range) {
  uint64_t va = 0;
  const auto extent = end_piece(range, &va);
  if (extent == extents_.end()) return;
  const bool random = (extent->second.attributes.flags & kVmRandom) != 0;
  ::madvise(reinterpret_cast<void*>(va), range.last - va, random ? MADV_NORMAL : MADV_RANDOM);
  ++areas_added_;
}

void PageTable::permit_growth(const Range& range) {
  uint64_t va = 0;
  const auto extent = end_piece(range, &va);
  if (extent == extents_.end() || !memory_map().usable()) return;
  // Another range needs the same pages: they must not grow as long as it stands.
  if (extent->second.claims.size() > 1) return;
  const auto vma = map_->find(va);
  if (!vma || vma->start > va || vma->end < range.last ||
      !extent->second.memory->is_mapped_by(*vma)) {
    return;
  }
  const bool random = (extent->second.attributes.flags & kVmRandom) != 0;
  ::madvise(reinterpret_cast<void*>(va), range.last - va, random ? MADV_RANDOM : MADV_NORMAL);
}

}  // namespace urma
