// SPDX-License-Identifier: MIT
//
// Pages of this process that peers map, as modules see them. A process has one table for all
// providers, since a page can be moved into shared memory only once.
#ifndef URMA_BASE_SHARED_PAGES_H_
#define URMA_BASE_SHARED_PAGES_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "urma_ext.h"

namespace urma {

// With whom pages are shared. A descriptor that is handed out holds pages of one audience only.
struct Audience {
  uint32_t token_id;
  uint32_t token_policy;
  uint32_t token;
  uint32_t access;  // URMA_ACCESS_*; without WRITE and ATOMIC no peer writes them

  bool operator==(const Audience&) const = default;
};

// A part of a range of memory. The parts cover the range in ascending order without gaps.
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

  // Adds a range that may be shared later. Moves nothing yet. Throws Error.
  virtual RangeId add(uint64_t va, uint64_t len, const Audience& audience) = 0;
  // Counts an import by a peer. True if share() pays off now: at the fourth import of the range, or
  // if nothing has to be moved.
  virtual bool imported(RangeId range) = 0;
  // Moves up to about `budget` bytes of it into shared memory. True once everything that can be
  // shared is, and the descriptors are sealed; false: call again. Never fails: what cannot be
  // shared stays as it is, with its reason. Other threads may use the memory meanwhile; no access
  // is lost, and one waits at most while one chunk of 2 MiB moves.
  virtual bool share(RangeId range, uint64_t budget) = 0;
  // The parts as they are now. If nothing was shared yet, the reason is NOT_IMPORTED.
  virtual std::vector<SharedPart> parts(RangeId range) const = 0;
  // Removes the range, and moves its shared pages back to private memory, except those that another
  // range shares with the same audience. Peers that still map the shared memory see no later
  // change.
  virtual void remove(RangeId range) = 0;
  // The same for about `budget` bytes of it. True once nothing is left, or for an unknown range;
  // false: call again, or remove() for the rest.
  virtual bool remove_some(RangeId range, uint64_t budget) = 0;

  // Whether pages were ever shared, or allocated to be. Another process must no longer have the
  // kernel write to memory of this one: what it writes while a page moves back is lost. Relaxed:
  // pairs with nothing, since the end of a registration waits for what had begun before.
  bool may_move() const { return may_move_.load(std::memory_order_relaxed); }

  // Memory for urma_ext_alloc; NULL if there is none.
  virtual void* allocate(uint64_t bytes, uint32_t flags) = 0;
  // False if `memory` is not from allocate().
  virtual bool deallocate(void* memory) = 0;

 protected:
  void note_may_move() { may_move_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> may_move_{false};
};

}  // namespace urma

#endif  // URMA_BASE_SHARED_PAGES_H_
