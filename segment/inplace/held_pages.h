// SPDX-License-Identifier: MIT
//
// Whether somebody holds pages of shared memory: a buffer registered with io_uring or a network
// card, which goes on writing to them when the program has others in their place.
//
// The kernel says how many pages a process has pinned, but not which. It makes one huge page of
// small ones only where nothing but page tables and the file refer to them, though, and that is
// tried here. Where it was not small pages, where most of it would be filled with nothing but
// zeros, or where there is no memory, it cannot be told.
#ifndef SEGMENT_INPLACE_HELD_PAGES_H_
#define SEGMENT_INPLACE_HELD_PAGES_H_

#include <cstdint>

#include "segment/inplace/page_memory.h"

namespace urma {

// True too where it cannot be told. `pagemap` is /proc/self/pagemap. The contents stay.
bool may_be_held(const PageMemory& memory, uint64_t va, uint64_t len, int pagemap);

}  // namespace urma

#endif  // SEGMENT_INPLACE_HELD_PAGES_H_
