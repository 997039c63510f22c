// SPDX-License-Identifier: MIT
//
// The switch of one chunk of pages from private to shared memory and back, while other threads use
// them. An access during the switch sleeps until it is over; none is lost.
//
// Each function either does its work or leaves everything as it was, and returns which: 0 or
// -errno.
#ifndef SEGMENT_INPLACE_PAGE_MOVER_H_
#define SEGMENT_INPLACE_PAGE_MOVER_H_

#include <cstdint>

#include "segment/inplace/freeze.h"
#include "segment/inplace/page_attributes.h"

namespace urma {

// Address space that pages pass through.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // Throws bad_alloc if there is none.
  void reserve();
  // A place for pages of `va`, at the same distance from the border of a huge page, in memory that
  // is readable, writable and empty.
  uint64_t pages(uint64_t va) const;
  // The same, in address space without a mapping.
  uint64_t parking(uint64_t va) const;

 private:
  uint64_t start_ = 0;    // of the whole reservation
  uint64_t aligned_ = 0;  // of the pages
};

// Whole pages at `va`, and their place in shared memory.
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

// Private to shared, at most up to the next border of a huge page. -EBUSY: a device or a child of a
// fork holds a page. -EEXIST: the program watches the pages with a userfaultfd.
long share_chunk(const MoverTools& tools, const Chunk& chunk);
// The same for memory without contents, of any length. -EAGAIN: it has contents.
long share_gap(const MoverTools& tools, const Chunk& chunk);
// Makes the shared memory of a chunk, still without contents, a huge page if possible.
void make_huge(const MoverTools& tools, const Chunk& chunk);
// Gives pages that a child of a fork still shares, and that have contents, a copy of their own.
void break_copy_on_write(const MoverTools& tools, uint64_t va, uint64_t len);

// The private memory that replaces the shared memory.
struct RestoredArea {
  int protection;
  const PageAttributes* attributes;
  // Bytes of private memory on either side that can be frozen without splitting a huge page; 0: no
  // memory there can merge with the chunk.
  uint64_t before;
  uint64_t behind;
};

// Shared to private. Another thread must read the events of tools.uffd meanwhile. -EIO: a part
// could not be moved, and is still shared. *data_end is a hint where the contents that begin at or
// before the chunk's offset end; it is updated.
long restore_chunk(const MoverTools& tools, const Chunk& chunk, const RestoredArea& area,
                   uint64_t* data_end);
// From one shared memory to another, at the same offset.
long replace_chunk(const MoverTools& tools, const Chunk& chunk, int protection, int new_fd,
                   uint64_t* data_end);

}  // namespace urma

#endif  // SEGMENT_INPLACE_PAGE_MOVER_H_
