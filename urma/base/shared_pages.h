// SPDX-License-Identifier: MIT
//
// Pages of this process that peers map, as modules see them. There is one table of them in a
// process, whatever provider shares them, since a page can be moved into shared memory only once.
#ifndef URMA_BASE_SHARED_PAGES_H_
#define URMA_BASE_SHARED_PAGES_H_

#include <cstdint>
#include <vector>

#include "urma_ext.h"

namespace urma {

// Whom pages are shared with. A descriptor that is handed out holds pages of one audience only.
struct Audience {
  uint32_t token_id;
  uint32_t token_policy;
  uint32_t token;
  uint32_t
      access;  // URMA_ACCESS_*; without WRITE and ATOMIC nobody that gets the pages writes them

  bool operator==(const Audience&) const = default;
};

// A part of a range of memory. The parts of a range cover it in ascending order without gaps.
struct SharedPart {
  uint64_t va;
  uint64_t len;
  int fd;           // of the memory that holds the part, at `offset`; -1: the part is not shared.
  uint64_t offset;  // Belongs to the table, and stays open until the range is removed.
  urma_ext_reason_t reason;  // why it is not shared
};

// Thread-safe.
class SharedPages {
 public:
  using RangeId = uint64_t;  // never 0

  virtual ~SharedPages() = default;

  // Takes note of a range that may be shared later. Nothing is moved yet. Throws Error.
  virtual RangeId add(uint64_t va, uint64_t len, const Audience& audience) = 0;
  // Counts an import by a peer. True where it pays to share() now: the range is imported for the
  // fourth time, or nothing has to be moved.
  virtual bool imported(RangeId range) = 0;
  // Moves up to about `budget` bytes of it into shared memory. True once all that can be shared is,
  // and the descriptors are sealed; false: call again. Never fails: what cannot be shared stays as
  // it is, with its reason. Other threads may use the memory meanwhile; none of their accesses is
  // lost, and the longest that one waits is the time to move one chunk of 2 MiB.
  virtual bool share(RangeId range, uint64_t budget) = 0;
  // The parts as they are now. Where nothing was shared yet the reason is NOT_IMPORTED.
  virtual std::vector<SharedPart> parts(RangeId range) const = 0;
  // Forgets the range, and moves what it shared back to private memory, but for pages that another
  // range shares with the same audience. Whoever still maps the shared memory sees no later change.
  virtual void remove(RangeId range) = 0;
  // The same of about `budget` bytes of it. True once nothing is left, as for a range that is not
  // there; false: call again, or remove() for the rest.
  virtual bool remove_some(RangeId range, uint64_t budget) = 0;

  // Memory for urma_ext_alloc and back; NULL where there is none.
  virtual void* allocate(uint64_t bytes, uint32_t flags) = 0;
  // False where `memory` is not what allocate() returned.
  virtual bool deallocate(void* memory) = 0;
};

}  // namespace urma

#endif  // URMA_BASE_SHARED_PAGES_H_
