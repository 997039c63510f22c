// SPDX-License-Identifier: MIT
//
// The switch of one chunk of pages: from private to shared memory and back, while other threads use
// them. An access that meets the switch sleeps until it is over; none is lost.
//
// Each function either does its work or leaves everything as it was, and tells which: 0 or -errno.
#ifndef SEGMENT_INPLACE_PAGE_MOVER_H_
#define SEGMENT_INPLACE_PAGE_MOVER_H_

#include <cstdint>

#include "segment/inplace/freeze.h"
#include "segment/inplace/page_attributes.h"

namespace urma {

// Address space of our own that pages pass through.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // Throws bad_alloc where there is none.
  void reserve();
  // A place for pages of `va`, at the same distance from the border of a huge page, in memory that
  // is readable, writable and empty.
  uint64_t pages(uint64_t va) const;
  // The same, in address space that nothing is mapped to.
  uint64_t parking(uint64_t va) const;

 private:
  uint64_t start_ = 0;    // of the whole reservation
  uint64_t aligned_ = 0;  // of the pages
};

// Whole pages at `va`, and where they belong in shared memory.
struct Chunk {
  uint64_t va;
  uint64_t len;
  int fd;
  uint64_t offset;
};

struct MoverTools {
  int uffd;
  int pagemap;
  const Scratch* scratch;
  FailPoint fail;
};

// Private to shared, at most up to the next border of a huge page. -EBUSY: somebody else holds a
// page, a device or a child of a fork. -EEXIST: the program watches the pages with a userfaultfd.
long share_chunk(const MoverTools& tools, const Chunk& chunk);
// The same for memory without contents, of any length. -EAGAIN: it has some.
long share_gap(const MoverTools& tools, const Chunk& chunk);
// Makes the shared memory of a chunk, which has no contents yet, a huge page where that is
// possible.
void make_huge(const MoverTools& tools, const Chunk& chunk);
// Gives pages with contents a copy of their own where a child of a fork still has them too.
void break_copy_on_write(const MoverTools& tools, uint64_t va, uint64_t len);

// How the private memory is to be that takes the place of the shared memory.
struct RestoredArea {
  int protection;
  const PageAttributes* attributes;
  // Of the private memory on either side, so much that freezing it splits no huge page; 0: there is
  // none that could become one with the chunk.
  uint64_t before;
  uint64_t behind;
};

// Shared to private. Somebody must read the events of tools.uffd meanwhile. -EIO: a part could not
// be moved, and is shared still. *data_end is a hint where the contents that begin at or before the
// chunk's offset end; it is brought up to date.
long restore_chunk(const MoverTools& tools, const Chunk& chunk, const RestoredArea& area,
                   uint64_t* data_end);
// Shared to other shared memory, with the same offset there.
long replace_chunk(const MoverTools& tools, const Chunk& chunk, int protection, int new_fd,
                   uint64_t* data_end);

}  // namespace urma

#endif  // SEGMENT_INPLACE_PAGE_MOVER_H_
