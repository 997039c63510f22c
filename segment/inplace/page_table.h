// SPDX-License-Identifier: MIT
//
// The pages of this process that peers map.
//
// A range is moved when it is first wanted, chunk by chunk, into a memfd of its own. Pages in two
// ranges are moved once, if both have the same audience, and stay until neither range needs
// them; the pages of one audience are never handed to another.
#ifndef SEGMENT_INPLACE_PAGE_TABLE_H_
#define SEGMENT_INPLACE_PAGE_TABLE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "segment/inplace/child_copies.h"
#include "segment/inplace/extents.h"
#include "segment/inplace/own_memory.h"
#include "segment/inplace/page_attributes.h"
#include "segment/inplace/page_memory.h"
#include "segment/inplace/page_mover.h"
#include "segment/inplace/turn_mutex.h"
#include "segment/inplace/way_back.h"
#include "segment/memory_map.h"
#include "urma/base/fd.h"
#include "urma/base/shared_pages.h"

namespace urma {

class PageTable final : public SharedPages {
 public:
  // Whether private memory may be moved; true by default.
  void set_in_place(bool on);
  // Calls it at the first share(), with no lock held.
  void at_first_share(void (*call)()) { at_first_share_.store(call); }

  RangeId add(uint64_t va, uint64_t len, const Audience& audience) override;
  bool imported(RangeId range) override;
  bool share(RangeId range, uint64_t budget) override;
  std::vector<SharedPart> parts(RangeId range) const override;
  void remove(RangeId range) override;
  bool remove_some(RangeId range, uint64_t budget) override;
  // Pages of removed ranges that stay shared: former importers may still map them.
  struct LeftPages {
    uint64_t va;
    uint64_t len;
    Audience audience;
  };
  std::vector<LeftPages> left_pages();
  void* allocate(uint64_t bytes, uint32_t flags) override;
  bool deallocate(void* memory) override;
  // Drops all ranges, and closes what is kept open for the next one.
  void clear();

  // To be called around fork(). The child gets private copies of all that is shared here, and drops
  // the table; the parent's memory is unchanged. The parent waits until the child has its copies,
  // up to a limit. The child is told how many bytes it could not copy; they are no longer mapped
  // there.
  void before_fork() URMA_ACQUIRE(mutex_);
  void after_fork_in_parent() URMA_RELEASE(mutex_);
  uint64_t after_fork_in_child() URMA_RELEASE(mutex_);

  // For tests.
  void fail_at(FailPoint fail);
  void set_child_wait(uint64_t limit_ns);

 private:
  // The state of a removal between its turns.
  struct Leaving {
    struct Renewal {
      uint64_t block;
      uint64_t free;  // up to here no page is held
      uint64_t at;    // done up to here
      std::shared_ptr<PageMemory> to;
    };
    uint64_t va = 0;    // done up to here
    bool busy = false;  // a thread works on it
    int tries = 0;
    uint64_t stuck = 0;  // bytes that stay shared
    std::string why;
    std::shared_ptr<PageMemory> lost;  // of which some pages were not found
    std::optional<Renewal> renewal;
  };
  struct Range {
    uint64_t va;
    uint64_t len;
    uint64_t first;  // whole pages
    uint64_t last;
    Audience audience;
    uint64_t cursor;                // up to here the shared parts are known
    std::vector<SharedPart> parts;  // of [first, cursor)
    std::shared_ptr<PageMemory> memory;
    std::vector<std::shared_ptr<PageMemory>> used;  // memory of the parts
    std::optional<FlagSnapshot> flags;
    urma_ext_reason_t memory_refusal = URMA_EXT_REASON_NONE;
    uint64_t busy_until_ns = 0;  // 0: no page was held by others yet
    uint32_t imports = 0;
    bool done = false;
    Leaving leaving = {};
  };
  struct Turn;
  struct Removal;
  using RangeMap = std::map<RangeId, Range>;
  using ExtentMap = Extents::Map;

  // Sharing. step() returns a measure of its work.
  uint64_t step(RangeId id, Range& range, Turn& turn) URMA_REQUIRES(mutex_);
  uint64_t adopt(RangeId id, Range& range, ExtentMap::iterator extent) URMA_REQUIRES(mutex_);
  uint64_t adopt_own(RangeId id, Range& range, OwnMemory::Block& block) URMA_REQUIRES(mutex_);
  uint64_t move(RangeId id, Range& range, uint64_t limit, const PageAttributes& found, Turn& turn)
      URMA_REQUIRES(mutex_);
  uint64_t move_gap(RangeId id, Range& range, const PageAttributes& found, uint64_t end, Turn& turn)
      URMA_REQUIRES(mutex_);
  uint64_t move_chunk(RangeId id, Range& range, const PageAttributes& found, uint64_t end,
                      Turn& turn) URMA_REQUIRES(mutex_);
  urma_ext_reason_t judge(Range& range, const Vma& vma, uint64_t* limit, PageAttributes* attributes,
                          Turn& turn) URMA_REQUIRES(mutex_);
  urma_ext_reason_t get_ready(Range& range, Turn& turn) URMA_REQUIRES(mutex_);
  bool near_area_limit() URMA_REQUIRES(mutex_);
  bool may_wait(Range& range) const URMA_REQUIRES(mutex_);
  uint64_t refuse(Range& range, uint64_t end, urma_ext_reason_t reason) URMA_REQUIRES(mutex_);
  void append(Range& range, uint64_t end, const std::shared_ptr<PageMemory>& memory,
              urma_ext_reason_t reason) URMA_REQUIRES(mutex_);
  void withhold(Range& range, const PageMemory& memory) URMA_REQUIRES(mutex_);
  // make_entry() allocates all memory that is needed: no moved page may be missing in the table.
  ExtentMap::node_type make_entry(RangeId id, Range& range, uint64_t end,
                                  const std::shared_ptr<PageMemory>& memory,
                                  const PageAttributes& attributes) URMA_REQUIRES(mutex_);
  void enter(Range& range, ExtentMap::node_type entry) URMA_REQUIRES(mutex_);
  RangeMap::iterator next_to_move(RangeMap::iterator found) URMA_REQUIRES(mutex_);
  void finish(Range& range) URMA_REQUIRES(mutex_);
  // Between these calls mremap() of the range's memory to a larger size fails.
  void forbid_growth(const Range& range) URMA_REQUIRES(mutex_);
  void permit_growth(const Range& range) URMA_REQUIRES(mutex_);
  Extents::Map::iterator end_piece(const Range& range, uint64_t* va) URMA_REQUIRES(mutex_);

  // Removing.
  bool release_some(RangeId id, const Range& range, Removal& removal) URMA_REQUIRES(mutex_);
  void restore_some(ExtentMap::iterator extent, Removal& removal) URMA_REQUIRES(mutex_);
  void strand(uint64_t start, uint64_t end, Removal& removal) URMA_REQUIRES(mutex_);
  void forget(uint64_t start, uint64_t end) URMA_REQUIRES(mutex_);
  void release_own(ExtentMap::iterator extent, RangeId id, Removal& removal) URMA_REQUIRES(mutex_);
  void begin_renewal(OwnMemory::Block& block, Removal& removal) URMA_REQUIRES(mutex_);
  void renew_some(Removal& removal) URMA_REQUIRES(mutex_);
  void look_for_holders(OwnMemory::Block& block, Removal& removal) URMA_REQUIRES(mutex_);
  static void end_renewal(OwnMemory::Block& block, Removal& removal);
  static void report_stuck(Range& range);
  bool is_claimed(const OwnMemory::Block& block) URMA_REQUIRES(mutex_);
  void append_left(uint64_t va, const Extent& extent, std::vector<LeftPages>* left)
      URMA_REQUIRES(mutex_);
  RestoredArea surroundings(const Chunk& chunk, const Vma& vma, const PageAttributes& attributes)
      URMA_REQUIRES(mutex_);
  // The way back. False if there is none.
  bool secure_way_back() URMA_REQUIRES(mutex_);
  // NULL with errno; EAGAIN: the only one is lent.
  std::unique_ptr<WayBack> borrow_way_back() URMA_REQUIRES(mutex_);
  void return_way_back(std::unique_ptr<WayBack> way) URMA_REQUIRES(mutex_);
  std::unique_ptr<WayBack> make_way_back() URMA_REQUIRES(mutex_);
  void close_way_back(std::unique_ptr<WayBack> way) URMA_REQUIRES(mutex_);
  // Closes what is needed only while something is shared.
  void settle() URMA_REQUIRES(mutex_);

  // While a child is copying, nothing may be punched out of memory that it may read.
  bool child_is_copying() const URMA_REQUIRES(mutex_) { return child_copies_.any_missing(); }
  // Whether the kernel's page size is kPageBytes; no others are moved.
  static bool knows_pages();
  // The map of this process. Retries if it could not be opened before.
  MemoryMap& memory_map() URMA_REQUIRES(mutex_);

  // In a child. Each returns the number of bytes that could not be copied.
  uint64_t copy_in_child(uint64_t start, uint64_t end, const PageMemory& memory,
                         const PageAttributes& attributes, MemoryMap* map) URMA_REQUIRES(mutex_);
  uint64_t copy_own_in_child(const OwnMemory::Block& block, MemoryMap* map) URMA_REQUIRES(mutex_);
  uint64_t copy_all_in_child() URMA_REQUIRES(mutex_);
  void close_in_child() const URMA_REQUIRES(mutex_);
  void punch(const PageMemory& memory, uint64_t va, uint64_t len) URMA_REQUIRES(mutex_);

  mutable TurnMutex mutex_;
  bool in_place_ URMA_GUARDED_BY(mutex_) = true;
  RangeMap ranges_ URMA_GUARDED_BY(mutex_);
  RangeMap going_ URMA_GUARDED_BY(mutex_);  // those that remove_some() works on
  RangeId next_id_ URMA_GUARDED_BY(mutex_) = 1;
  Extents extents_ URMA_GUARDED_BY(mutex_);
  OwnMemory own_ URMA_GUARDED_BY(mutex_);
  Scratch scratch_ URMA_GUARDED_BY(mutex_);
  std::optional<MemoryMap> map_ URMA_GUARDED_BY(mutex_);
  Fd pagemap_ URMA_GUARDED_BY(mutex_);
  std::set<int> passing_fds_ URMA_GUARDED_BY(mutex_);  // a child must close them too
  std::unique_ptr<WayBack> way_back_ URMA_GUARDED_BY(mutex_);
  int ways_lent_ URMA_GUARDED_BY(mutex_) = 0;
  ChildCopies child_copies_ URMA_GUARDED_BY(mutex_);
  std::atomic<void (*)()> at_first_share_{nullptr};
  uint64_t child_wait_ns_ URMA_GUARDED_BY(mutex_) = 30'000'000'000;
  uint64_t areas_ URMA_GUARDED_BY(mutex_) =
      0;  // mappings of the process when they were last counted
  uint64_t areas_added_ URMA_GUARDED_BY(mutex_) = 0;
  uint64_t areas_counted_ns_ URMA_GUARDED_BY(mutex_) = 0;
  FailPoint fail_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_PAGE_TABLE_H_
