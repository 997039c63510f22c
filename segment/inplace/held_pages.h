// SPDX-License-Identifier: MIT
//
// Whether pages of shared memory are held: by a buffer registered with io_uring or a network card,
// which goes on writing to them after the program has other pages in their place.
//
// The kernel says how many pages a process has pinned, but not which. It makes a huge page of small
// ones only if nothing but page tables and the file refer to them, and that is tried here. The
// answer is not known if the pages are not small, if most of the huge page would be filled
// with zeros, or if memory is short.
#ifndef SEGMENT_INPLACE_HELD_PAGES_H_
#define SEGMENT_INPLACE_HELD_PAGES_H_

#include <cstdint>

#include "segment/inplace/page_memory.h"

namespace urma {

// True also if it is not known. `pagemap` is /proc/self/pagemap. The contents stay.
bool may_be_held(const PageMemory& memory, uint64_t va, uint64_t len, int pagemap);

}  // namespace urma

#endif  // SEGMENT_INPLACE_HELD_PAGES_H_
