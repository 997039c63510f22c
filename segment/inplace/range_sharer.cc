// SPDX-License-Identifier: MIT
//
// How a range becomes shared: step by step, so that a thread that waits for the table's lock waits
// for at most one chunk.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <new>
#include <utility>

#include "segment/inplace/page_table.h"
#include "segment/kernel_abi.h"
#include "segment/page_size.h"
#include "urma/base/clock.h"

namespace urma {
namespace {

using kernel::kHugeMask;
using kernel::kHugePageBytes;
using kernel::PageRegion;

// The cost of a look at an area, in bytes that could be moved meanwhile.
constexpr uint64_t kStepCost = 64 * 1024;
// Further tries for pages that a child of a fork has too, each after making copies of their own.
constexpr int kCopyTries = 10;
constexpr uint32_t kLooksPerTurn = 4;
// A range's total wait for pages that others hold. A copy by the kernel holds them briefly; a
// device, which holds them for long, must not delay the rest.
constexpr uint64_t kBusyNs = 100'000'000;
// Mappings that are left to the program.
constexpr uint64_t kAreaReserve = 1000;
constexpr uint64_t kAreaCountNs = 1'000'000'000;
constexpr uint64_t kAreasPerCount = 500;

urma_ext_reason_t reason_of(long error) {
  switch (-error) {
    case EBUSY:
      return URMA_EXT_REASON_PINNED;
    case EEXIST:
      return URMA_EXT_REASON_WATCHED;
    case EFAULT:
    case EPERM:
      return URMA_EXT_REASON_SEALED;
    case ENOMEM:
    case ENOSPC:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return URMA_EXT_REASON_LIMIT;
    default:
      return URMA_EXT_REASON_KERNEL;
  }
}

struct Span {
  uint64_t start;
  uint64_t end;
};

// The stack of this thread, if the kernel does not name it.
Span own_stack() {
  Span span = {};
  if (::gettid() == ::getpid()) return span;
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return span;
  void* start = nullptr;
  size_t bytes = 0;
  if (::pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
    span = {reinterpret_cast<uint64_t>(start), reinterpret_cast<uint64_t>(start) + bytes};
  }
  ::pthread_attr_destroy(&attributes);
  return span;
}

// After mlockall(MCL_FUTURE) everything that is mapped is filled, untouched memory too.
bool is_future_memory_locked() {
  void* const page = ::mmap(nullptr, kernel::kPageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return true;
  unsigned char filled = 0;
  const bool known = ::mincore(page, kernel::kPageBytes, &filled) == 0;
  ::munmap(page, kernel::kPageBytes);
  return known && (filled & 1) != 0;
}

uint64_t max_areas() {
  uint64_t limit = 65530;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit;
}

}  // namespace

// The state of one call of share().
struct PageTable::Turn {
  explicit Turn(PageTable* table) : table(table), stack(own_stack()) {}
  ~Turn() {
    if (!fault) return;
    const MutexLock lock(table->mutex_);
    table->passing_fds_.erase(fault->fd());
    fault.reset();
  }
  void open() {
    table->mutex_.assume_held();
    if (fault) return;
    fault.emplace(kernel::kFeatureMove);
    if (fault->fd() >= 0) table->passing_fds_.insert(fault->fd());
  }
  MoverTools tools() const {
    table->mutex_.assume_held();
    return {fault->fd(), table->pagemap_.get(), &table->scratch_, table->fail_};
  }

  PageTable* const table;
  const Span stack;
  std::optional<UserFault> fault;
  // The flags of all areas are read again after areas have changed, which takes long.
  uint32_t looks = 0;
  bool over = false;
};

bool PageTable::share(RangeId id, uint64_t budget) {
  if (auto* const call = at_first_share_.exchange(nullptr)) call();
  note_may_move();
  Turn turn(this);
  uint64_t moved = 0;
  for (;;) {
    const MutexLock lock(mutex_);
    const auto found = ranges_.find(id);
    if (found == ranges_.end() || found->second.done) return true;
    const auto unfinished = next_to_move(found);
    if (unfinished == ranges_.end()) {
      finish(found->second);
      return true;
    }
    const uint64_t cost = step(unfinished->first, unfinished->second, turn);
    moved += cost;
    if (cost == 0 || moved >= budget || turn.over) return false;
  }
}

// The range itself, or another that still moves pages into memory that this one uses: a sealed
// descriptor cannot be mapped for writing. ranges_.end() if all is moved.
PageTable::RangeMap::iterator PageTable::next_to_move(RangeMap::iterator found) {
  const Range& range = found->second;
  if (range.cursor < range.last) return found;
  return std::find_if(ranges_.begin(), ranges_.end(), [&](const auto& other) {
    const auto& [id, mover] = other;
    return mover.cursor < mover.last && mover.memory != nullptr && !mover.memory->sealed() &&
           std::find(range.used.begin(), range.used.end(), mover.memory) != range.used.end();
  });
}

uint64_t PageTable::step(RangeId id, Range& range, Turn& turn) {
  const uint64_t va = range.cursor;
  uint64_t limit = range.last;
  const auto extent = extents_.at_or_after(va);
  if (extent != extents_.end()) {
    if (extent->first <= va) return adopt(id, range, extent);
    limit = std::min(limit, extent->first);
  }
  if (OwnMemory::Block* block = own_.at_or_after(va)) {
    if (block->va <= va) return adopt_own(id, range, *block);
    limit = std::min(limit, block->va);
  }
  if (!in_place_) return refuse(range, limit, URMA_EXT_REASON_OFF);
  if (!memory_map().usable() || !knows_pages()) {
    return refuse(range, limit, URMA_EXT_REASON_KERNEL);
  }
  const auto vma = map_->find(va);
  if (!vma || vma->start > va) {
    if (vma) limit = std::min(limit, vma->start);
    return refuse(range, limit, URMA_EXT_REASON_UNMAPPED);
  }
  limit = std::min(limit, vma->end);
  if (va < turn.stack.end && turn.stack.start < limit) {
    if (turn.stack.start <= va) {
      return refuse(range, std::min(limit, turn.stack.end), URMA_EXT_REASON_STACK);
    }
    limit = turn.stack.start;
  }
  PageAttributes attributes;
  auto reason = judge(range, *vma, &limit, &attributes, turn);
  if (turn.over) return 0;
  if (reason == URMA_EXT_REASON_NONE) reason = get_ready(range, turn);
  if (reason != URMA_EXT_REASON_NONE) return refuse(range, limit, reason);
  return move(id, range, limit, attributes, turn);
}

// Pages that another range has moved already; the program may have mapped others there since.
uint64_t PageTable::adopt(RangeId id, Range& range, ExtentMap::iterator extent) {
  if (!memory_map().usable()) {
    return refuse(range, std::min(extent->second.end, range.last), URMA_EXT_REASON_KERNEL);
  }
  const auto vma = map_->find(range.cursor);
  if (!vma || vma->start > range.cursor || !extent->second.memory->is_mapped_by(*vma)) {
    const uint64_t gone = !vma                        ? extent->second.end
                          : vma->start > range.cursor ? vma->start
                                                      : vma->end;
    forget(range.cursor, std::min({extent->second.end, range.last, gone}));
    return kStepCost;
  }
  const uint64_t end = std::min({extent->second.end, range.last, vma->end});
  if (!(extent->second.audience == range.audience)) {
    return refuse(range, end, URMA_EXT_REASON_OTHER_TOKEN);
  }
  extents_.cut(range.cursor);
  extents_.cut(end);
  Extent& own = extents_.at_or_after(range.cursor)->second;
  own.claims.push_back(id);
  append(range, end, own.memory, URMA_EXT_REASON_NONE);
  return kStepCost;
}

uint64_t PageTable::adopt_own(RangeId id, Range& range, OwnMemory::Block& block) {
  if (block.being_renewed) return 0;
  const uint64_t end = std::min(block.end, range.last);
  if (block.broken) return refuse(range, end, URMA_EXT_REASON_KERNEL);
  if (block.exposed_to && !(*block.exposed_to == range.audience)) {
    return refuse(range, end, URMA_EXT_REASON_OTHER_TOKEN);
  }
  const uint64_t needed = (block.va + block.bytes + page_bytes() - 1) & ~(page_bytes() - 1);
  if (range.first > block.va || range.last < needed) {
    return refuse(range, end, URMA_EXT_REASON_PART);
  }
  auto entry = make_entry(id, range, end, block.memory, {});
  block.exposed_to = range.audience;
  // Without a way back it stays where it is, for this audience.
  static_cast<void>(secure_way_back());
  static_cast<void>(memory_map());
  enter(range, std::move(entry));
  return kStepCost;
}

// Whether the area can be moved, and the attributes to be told again afterwards.
urma_ext_reason_t PageTable::judge(Range& range, const Vma& vma, uint64_t* limit,
                                   PageAttributes* attributes, Turn& turn) {
  const auto by_area = refusal(vma);
  if (by_area != URMA_EXT_REASON_NONE) return by_area;
  std::optional<uint32_t> flags;
  if (range.flags) flags = range.flags->find(range.cursor, *limit);
  if (!flags) {
    turn.over = ++turn.looks > kLooksPerTurn;
    if (turn.over) return URMA_EXT_REASON_KERNEL;
    range.flags.emplace(range.cursor, range.last);
    flags = range.flags->find(range.cursor, *limit);
  }
  if (!flags) return URMA_EXT_REASON_KERNEL;
  attributes->flags = *flags;
  const auto by_flags = refusal(*flags);
  if (by_flags == URMA_EXT_REASON_NONE) read_policy(range.cursor, attributes);
  return by_flags;
}

urma_ext_reason_t PageTable::get_ready(Range& range, Turn& turn) {
  if (near_area_limit()) return URMA_EXT_REASON_LIMIT;
  turn.open();
  if (turn.fault->error() != 0) {
    return turn.fault->error() == EINVAL || turn.fault->error() == ENOSYS
               ? URMA_EXT_REASON_KERNEL
               : URMA_EXT_REASON_NO_FREEZE;
  }
  if (!pagemap_.valid()) pagemap_.reset(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pagemap_.valid()) return URMA_EXT_REASON_KERNEL;
  if (!secure_way_back()) return reason_of(-errno);
  try {
    scratch_.reserve();
  } catch (const std::bad_alloc&) {
    return URMA_EXT_REASON_LIMIT;
  }
  if (range.memory == nullptr && range.memory_refusal == URMA_EXT_REASON_NONE) {
    range.memory = PageMemory::create(range.first, range.last);
    if (range.memory == nullptr) range.memory_refusal = reason_of(-errno);
  }
  return range.memory_refusal;
}

// Near the limit of mappings the program's own mmap would fail, and the way back too.
bool PageTable::near_area_limit() {
  const uint64_t now = monotonic_ns();
  if (areas_ == 0 || areas_added_ >= kAreasPerCount || now - areas_counted_ns_ > kAreaCountNs) {
    areas_ = map_->count();
    areas_added_ = 0;
    areas_counted_ns_ = now;
  }
  static const uint64_t limit = max_areas();
  return areas_ + areas_added_ + kAreaReserve > limit;
}

uint64_t PageTable::move(RangeId id, Range& range, uint64_t limit, const PageAttributes& found,
                         Turn& turn) {
  const MoverTools tools = turn.tools();
  FreezeCalls calls(tools.uffd, tools.pagemap, {});
  PageRegion region = {};
  uint64_t next = 0;
  const long regions = calls.scan(Pages::kThere, range.cursor, limit, &region, 1, &next);
  if (regions < 0) return refuse(range, limit, URMA_EXT_REASON_KERNEL);
  const uint64_t contents = regions == 0 ? limit : region.start;
  const uint64_t block = contents & ~kHugeMask;
  if (regions == 0 || block > range.cursor) {
    return move_gap(id, range, found, regions == 0 ? limit : block, turn);
  }
  PageAttributes attributes = found;
  const uint64_t end = std::min(limit, (range.cursor & ~kHugeMask) + kHugePageBytes);
  attributes.huge =
      (region.categories & kernel::kPageHuge) != 0 && end - range.cursor == kHugePageBytes;
  return move_chunk(id, range, attributes, end, turn);
}

uint64_t PageTable::move_gap(RangeId id, Range& range, const PageAttributes& found, uint64_t end,
                             Turn& turn) {
  const Chunk chunk = {range.cursor, end - range.cursor, range.memory->fd(),
                       range.memory->offset(range.cursor)};
  if (chunk.len > kHugePageBytes && is_future_memory_locked()) {
    return refuse(range, end, URMA_EXT_REASON_LIMIT);
  }
  auto entry = make_entry(id, range, end, range.memory, found);
  const long result = share_gap(turn.tools(), chunk);
  // Contents have appeared meanwhile: the next step finds them.
  if (result == -EAGAIN) return kStepCost;
  if (result != 0) return refuse(range, end, reason_of(result));
  found.apply(chunk.va, chunk.len);
  found.lock(chunk.va, chunk.len);
  enter(range, std::move(entry));
  return kStepCost;
}

uint64_t PageTable::move_chunk(RangeId id, Range& range, const PageAttributes& found, uint64_t end,
                               Turn& turn) {
  const Chunk chunk = {range.cursor, end - range.cursor, range.memory->fd(),
                       range.memory->offset(range.cursor)};
  const bool locked = (found.flags & kVmLocked) != 0;
  auto entry = make_entry(id, range, end, range.memory, found);
  // Pages move only between two locked areas or two unlocked ones.
  if (locked) ::munlock(reinterpret_cast<void*>(chunk.va), chunk.len);
  if (found.huge) make_huge(turn.tools(), chunk);
  long result = share_chunk(turn.tools(), chunk);
  for (int i = 0; result == -EBUSY && i < kCopyTries; ++i) {
    break_copy_on_write(turn.tools(), chunk.va, chunk.len);
    result = share_chunk(turn.tools(), chunk);
  }
  if (result == 0) found.apply(chunk.va, chunk.len);
  if (result == 0 || locked) found.lock(chunk.va, chunk.len);
  if (result != 0) {
    ::fallocate(chunk.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(chunk.offset), static_cast<off_t>(chunk.len));
    if (result == -EBUSY && may_wait(range)) return 0;
    return refuse(range, end, reason_of(result));
  }
  enter(range, std::move(entry));
  return chunk.len;
}

bool PageTable::may_wait(Range& range) const {
  const uint64_t now = monotonic_ns();
  if (range.busy_until_ns == 0) range.busy_until_ns = now + kBusyNs;
  return now < range.busy_until_ns;
}

uint64_t PageTable::refuse(Range& range, uint64_t end, urma_ext_reason_t reason) {
  append(range, end, nullptr, reason);
  ++areas_added_;
  return kStepCost;
}

void PageTable::append(Range& range, uint64_t end, const std::shared_ptr<PageMemory>& memory,
                       urma_ext_reason_t reason) {
  SharedPart part = {range.cursor, end - range.cursor, -1, 0, reason};
  if (memory != nullptr) {
    part.fd = memory->fd();
    part.offset = memory->offset(range.cursor);
    if (std::find(range.used.begin(), range.used.end(), memory) == range.used.end()) {
      range.used.push_back(memory);
    }
  }
  range.cursor = end;
  if (!range.parts.empty()) {
    SharedPart& last = range.parts.back();
    if (last.fd == part.fd && last.reason == part.reason &&
        (part.fd < 0 || last.offset + last.len == part.offset)) {
      last.len += part.len;
      return;
    }
  }
  range.parts.push_back(part);
}

Extents::Map::node_type PageTable::make_entry(RangeId id, Range& range, uint64_t end,
                                              const std::shared_ptr<PageMemory>& memory,
                                              const PageAttributes& attributes) {
  if (range.parts.size() == range.parts.capacity()) range.parts.reserve(2 * range.parts.size() + 4);
  if (range.used.size() == range.used.capacity()) range.used.reserve(2 * range.used.size() + 4);
  return Extents::make(range.cursor, {end, memory, range.audience, attributes, {id}});
}

void PageTable::enter(Range& range, ExtentMap::node_type entry) {
  const uint64_t end = entry.mapped().end;
  const std::shared_ptr<PageMemory> memory = entry.mapped().memory;
  extents_.insert(std::move(entry));
  append(range, end, memory, URMA_EXT_REASON_NONE);
}

// Memory that could not be sealed is not handed out; it becomes private at the end of the range.
void PageTable::withhold(Range& range, const PageMemory& memory) {
  for (SharedPart& part : range.parts) {
    if (part.fd == memory.fd()) part = {part.va, part.len, -1, 0, URMA_EXT_REASON_KERNEL};
  }
}

// Seals the used memory.
void PageTable::finish(Range& range) {
  for (const auto& memory : range.used) {
    if (!memory->sealed() && !memory->seal(range.audience)) withhold(range, *memory);
  }
  range.done = true;
  forbid_growth(range);
  range.flags.reset();
  if (std::find(range.used.begin(), range.used.end(), range.memory) == range.used.end()) {
    range.memory.reset();
  }
}

}  // namespace urma
