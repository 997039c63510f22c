// SPDX-License-Identifier: MIT
//
// Gives a removed range its private pages back.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "segment/inplace/held_pages.h"
#include "segment/inplace/page_table.h"
#include "segment/inplace/remap_drain.h"
#include "segment/inplace/restore_thread.h"
#include "segment/kernel_abi.h"
#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma {
namespace {

using kernel::kHugeMask;
using kernel::kHugePageBytes;
using kernel::kPageBytes;

constexpr uint64_t kSmallestChunk = 64 * 1024;
// Other threads may change the mapping between a look at it and its use.
constexpr int kTries = 16;

// The end of a chunk at `va`: that of its huge page if this has contents, else the start of the
// next huge page with contents.
uint64_t chunk_end(const PageMemory& memory, uint64_t va, uint64_t end) {
  const auto offset = static_cast<off_t>(memory.offset(va));
  const off_t data = ::lseek(memory.fd(), offset, SEEK_DATA);
  if (data < 0 && errno == ENXIO) return end;
  const uint64_t contents = data < 0 ? va : va + static_cast<uint64_t>(data - offset);
  const uint64_t block = contents & ~kHugeMask;
  return std::min(end, block > va ? block : (va & ~kHugeMask) + kHugePageBytes);
}

// The number of bytes of this memory that the program has moved away by mremap().
uint64_t moved_bytes(const PageMemory& memory) {
  uint64_t bytes = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Vma vma = {};
    char rights[5];
    unsigned major;
    unsigned minor;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
                    &vma.start, &vma.end, rights, &vma.offset, &major, &minor, &vma.inode) < 7) {
      continue;
    }
    vma.shared = rights[3] == 's';
    vma.device = makedev(major, minor);
    if (memory.is_mapped_by(vma)) continue;
    vma.offset = memory.offset(vma.start);
    if (memory.is_mapped_by(vma)) bytes += vma.end - vma.start;
  }
  return bytes;
}

std::string describe(long result) {
  if (result == -EEXIST) return "the program watches them with a userfaultfd";
  return std::strerror(static_cast<int>(-result));
}

}  // namespace

// The state of one call of remove_some().
struct PageTable::Removal {
  Removal(PageTable* table, RangeId id, Range* range)
      : table(table), id(id), range(range), left(range->leaving) {}
  // The range may be destroyed with it.
  ~Removal() {
    const MutexLock lock(table->mutex_);
    left.busy = false;
    if (way != nullptr) {
      restorer.reset();
      drain.reset();
      table->return_way_back(std::move(way));
    }
    if (!over) return;
    table->going_.erase(id);
    table->settle();
  }
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  // True while others have the only way back; they will return it.
  bool must_wait() {
    table->mutex_.assume_held();
    if (way == nullptr) way = table->borrow_way_back();
    return way == nullptr && errno == EAGAIN;
  }

  // Throws Error if pages cannot be held still.
  void open() {
    table->mutex_.assume_held();
    if (drain) return;
    if (way == nullptr) way = table->borrow_way_back();
    if (way == nullptr) fail_errno(URMA_FAIL, "opening a userfaultfd");
    pinned = way->pages_are_pinned();
    if (pinned && !table->pagemap_.valid()) {
      table->pagemap_.reset(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    }
    table->scratch_.reserve();
    restorer.emplace();
    drain.emplace(way->uffd(), way->stop_fd());
  }
  MoverTools tools() const {
    table->mutex_.assume_held();
    return {way->uffd(), table->pagemap_.get(), &table->scratch_, table->fail_};
  }
  // Whether pages at `va` may be held. Call after open().
  bool is_held(const PageMemory& memory, uint64_t va, uint64_t len) {
    table->mutex_.assume_held();
    if (!pinned || !may_be_held(memory, va, len, table->pagemap_.get())) return false;
    left.why =
        "the kernel or a device may hold them (VmPin in /proc/self/status): unregister buffers "
        "with io_uring or others first, segments afterwards";
    return true;
  }

  // Restores *len bytes, or fewer if memory is short.
  long restore(const PageMemory& memory, const Vma& vma, const PageAttributes& attributes,
               uint64_t start, uint64_t* len) {
    table->mutex_.assume_held();
    if (data_end_of != &memory) data_end = 0;
    data_end_of = &memory;
    try {
      open();
    } catch (const std::exception& error) {
      left.why = error.what();
      return -EPERM;
    }
    if (is_held(memory, start, *len)) return -EBUSY;
    for (;;) {
      const Chunk chunk = {start, *len, memory.fd(), memory.offset(start)};
      const long result =
          restorer->restore(tools(), chunk, table->surroundings(chunk, vma, attributes), &data_end);
      if (result != 0) left.why = describe(result);
      if (result != -ENOMEM || *len <= kSmallestChunk) return result;
      *len = (*len / 2 + kPageBytes - 1) & ~(kPageBytes - 1);
    }
  }

  long replace(const Chunk& chunk, int protection, int new_fd) {
    try {
      open();
    } catch (const std::exception& error) {
      left.why = error.what();
      return -EPERM;
    }
    const long result = restorer->replace(tools(), chunk, protection, new_fd, &data_end);
    if (result != 0) left.why = describe(result);
    return result;
  }

  PageTable* const table;
  const RangeId id;
  Range* const range;
  Leaving& left;
  bool over = false;
  bool pinned = false;  // some pages of the process are held
  uint64_t data_end = 0;
  const PageMemory* data_end_of = nullptr;
  std::unique_ptr<WayBack> way;
  std::optional<RestoreThread> restorer;
  std::optional<RemapDrain> drain;  // set last: everything is there
};

void PageTable::remove(RangeId id) {
  // Another thread may be working on it.
  while (!remove_some(id, UINT64_MAX)) std::this_thread::yield();
}

bool PageTable::remove_some(RangeId id, uint64_t budget) {
  Range* range;
  {
    const MutexLock lock(mutex_);
    // A child of a fork must find the descriptors.
    if (auto node = ranges_.extract(id)) {
      node.mapped().leaving.va = node.mapped().first;
      if (node.mapped().done) permit_growth(node.mapped());
      going_.insert(std::move(node));
    }
    const auto going = going_.find(id);
    if (going == going_.end()) return true;
    range = &going->second;
    if (std::exchange(range->leaving.busy, true)) return false;
  }
  Removal removal(this, id, range);
  for (uint64_t done = 0; done < budget;) {
    const MutexLock lock(mutex_);
    const uint64_t before = range->leaving.va;
    if (!release_some(id, *range, removal)) {
      removal.over = true;
      break;
    }
    // Holes cost little, however large they are, and pieces take their time, however small.
    const uint64_t moved = range->leaving.va - before;
    done += moved == 0 ? kHugePageBytes : std::clamp(moved, kSmallestChunk, kHugePageBytes);
  }
  if (removal.over) report_stuck(*range);
  return removal.over;
}

void PageTable::report_stuck(Range& range) {
  Leaving& left = range.leaving;
  if (left.lost != nullptr) {
    if (const uint64_t moved = moved_bytes(*left.lost)) {
      left.stuck += moved;
      left.why = "the program has moved them with mremap";
    }
  }
  if (left.stuck == 0) return;
  URMA_LOG_LIMITED(WARNING,
                   "{} bytes of the segment at {:#x} stay in shared memory that former importers "
                   "may still map: {}",
                   left.stuck, range.va, left.why);
}

// Works on at most one chunk. False once nothing is left.
bool PageTable::release_some(RangeId id, const Range& range, Removal& removal) {
  if (removal.left.renewal) {
    renew_some(removal);
    return true;
  }
  auto extent = extents_.at_or_after(removal.left.va);
  while (extent != extents_.end() && extent->first < range.last) {
    auto& claims = extent->second.claims;
    if (std::find(claims.begin(), claims.end(), id) != claims.end()) break;
    ++extent;
  }
  if (extent == extents_.end() || extent->first >= range.last) return false;
  const uint64_t start = std::max(extent->first, removal.left.va);
  extents_.cut(start);
  extents_.cut(range.last);
  extent = extents_.at_or_after(start);
  removal.left.va = start;
  const auto* block = own_.at_or_after(start);
  if (block != nullptr && block->va <= start) {
    if (!removal.must_wait()) release_own(extent, id, removal);
  } else if (extent->second.claims.size() > 1) {
    std::erase(extent->second.claims, id);
    removal.left.va = extent->second.end;
  } else {
    restore_some(extent, removal);
  }
  return true;
}

void PageTable::restore_some(ExtentMap::iterator extent, Removal& removal) {
  const uint64_t va = extent->first;
  if (!memory_map().usable()) {
    removal.left.why = "/proc/self/maps cannot be read";
    return strand(va, extent->second.end, removal);
  }
  const auto vma = map_->find(va);
  if (!vma || vma->start > va || !extent->second.memory->is_mapped_by(*vma)) {
    // The program has unmapped it, and perhaps mapped something else.
    uint64_t end = extent->second.end;
    if (vma) end = std::min(end, vma->start > va ? vma->start : vma->end);
    removal.left.lost = extent->second.memory;
    forget(va, end);
    removal.left.va = end;
    return;
  }
  if (removal.must_wait()) return;
  const auto memory = extent->second.memory;
  const PageAttributes attributes = extent->second.attributes;
  const uint64_t end = chunk_end(*memory, va, std::min(extent->second.end, vma->end));
  uint64_t len = end - va;
  const long result = removal.restore(*memory, *vma, attributes, va, &len);
  // Some of the pages may be back; the next look tells.
  if (result == -EIO && ++removal.left.tries < kTries) return;
  removal.left.tries = 0;
  removal.left.va = va + len;
  if (result != 0) return strand(va, removal.left.va, removal);
  attributes.lock(va, len);
  forget(va, removal.left.va);
  punch(*memory, va, len);
}

// Only a child that is copying needs the old copy. Memory that is sealed against writing stays
// until it is closed.
void PageTable::punch(const PageMemory& memory, uint64_t va, uint64_t len) {
  if (child_is_copying()) return;
  ::fallocate(memory.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(memory.offset(va)), static_cast<off_t>(len));
}

// The extent stays entered: a child of a fork must get its copy.
void PageTable::strand(uint64_t start, uint64_t end, Removal& removal) {
  removal.left.va = end;
  removal.left.stuck += end - start;
  extents_.cut(end);
  extents_.at_or_after(start)->second.claims.clear();
}

void PageTable::forget(uint64_t start, uint64_t end) {
  extents_.cut(start);
  extents_.cut(end);
  auto extent = extents_.at_or_after(start);
  while (extent != extents_.end() && extent->first < end) extent = extents_.erase(extent);
}

RestoredArea PageTable::surroundings(const Chunk& chunk, const Vma& vma,
                                     const PageAttributes& attributes) {
  RestoredArea area = {vma.protection, &attributes, 0, 0};
  const auto neighbour = [&](uint64_t va) URMA_REQUIRES(mutex_) {
    const auto other = map_->find(va);
    const bool is_private = other && other->start <= va && refusal(*other) == URMA_EXT_REASON_NONE;
    return is_private ? other : std::nullopt;
  };
  const auto amount = [](uint64_t border, uint64_t there) {
    return border % kHugePageBytes == 0 && there >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  };
  const uint64_t end = chunk.va + chunk.len;
  if (const auto before = neighbour(chunk.va - 1)) {
    area.before = amount(chunk.va, chunk.va - before->start);
  }
  if (end != vma.end) return area;
  if (const auto behind = neighbour(end)) area.behind = amount(end, behind->end - end);
  return area;
}

// The allocator's memory moves to a new descriptor once none of it is needed.
void PageTable::release_own(ExtentMap::iterator extent, RangeId id, Removal& removal) {
  OwnMemory::Block& block = *own_.at_or_after(extent->first);
  std::erase(extent->second.claims, id);
  removal.left.va = extent->second.end;
  if (!extent->second.claims.empty()) return;
  extents_.erase(extent);
  if (!is_claimed(block)) begin_renewal(block, removal);
}

void PageTable::begin_renewal(OwnMemory::Block& block, Removal& removal) {
  try {
    removal.open();
  } catch (const std::exception& error) {
    // Stays where it is, for the same audience.
    removal.left.stuck += block.end - block.va;
    removal.left.why = error.what();
    return;
  }
  auto to = PageMemory::create(block.va, block.end);
  if (to == nullptr) {
    removal.left.stuck += block.end - block.va;
    removal.left.why = std::strerror(errno);
    return;
  }
  block.being_renewed = true;
  block.renewed = to;
  removal.left.renewal = Leaving::Renewal{block.va, block.va, block.va, std::move(to)};
  removal.data_end_of = nullptr;
  removal.data_end = 0;
}

void PageTable::renew_some(Removal& removal) {
  if (removal.must_wait()) return;
  auto& renewal = *removal.left.renewal;
  const auto found = own_.map().find(renewal.block);
  if (found == own_.map().end() || !found->second.being_renewed)
    return removal.left.renewal.reset();
  auto& block = found->second;
  if (renewal.free < block.end) return look_for_holders(block, removal);
  const auto vma = memory_map().find(renewal.at);
  uint64_t end = block.end;
  long result = -ENOENT;
  if (vma && vma->start <= renewal.at && block.memory->is_mapped_by(*vma)) {
    // Advice for a part of it has made an area of that part.
    end = chunk_end(*block.memory, renewal.at, std::min(block.end, vma->end));
    const Chunk chunk = {renewal.at, end - renewal.at, block.memory->fd(),
                         block.memory->offset(renewal.at)};
    result = removal.replace(chunk, vma->protection, renewal.to->fd());
  } else {
    removal.left.why = "the program has unmapped or moved them";
  }
  if (result == 0) {
    renewal.at = end;
    if (end < block.end) return;
    block.memory = std::move(block.renewed);
    block.exposed_to.reset();
  } else {
    block.broken = renewal.at > block.va;
    removal.left.stuck += block.end - renewal.at;
  }
  end_renewal(block, removal);
}

// Looks at all of it first: a block in two descriptors is unusable.
void PageTable::look_for_holders(OwnMemory::Block& block, Removal& removal) {
  auto& renewal = *removal.left.renewal;
  const uint64_t end = chunk_end(*block.memory, renewal.free, block.end);
  if (!removal.is_held(*block.memory, renewal.free, end - renewal.free)) {
    renewal.free = removal.pinned ? end : block.end;
    return;
  }
  removal.left.stuck += block.end - block.va;
  end_renewal(block, removal);
}

void PageTable::end_renewal(OwnMemory::Block& block, Removal& removal) {
  if (!block.broken) block.renewed.reset();
  block.being_renewed = false;
  removal.left.renewal.reset();
}

bool PageTable::is_claimed(const OwnMemory::Block& block) {
  const auto extent = extents_.at_or_after(block.va);
  return extent != extents_.end() && extent->first < block.end;
}

// Except what the program has unmapped since, as far as known.
void PageTable::append_left(uint64_t va, const Extent& extent, std::vector<LeftPages>* left) {
  if (!memory_map().usable()) return left->push_back({va, extent.end - va, extent.audience});
  bool adjoins = false;
  while (va < extent.end) {
    const auto vma = memory_map().find(va);
    if (!vma || vma->start >= extent.end) return;
    const uint64_t end = std::min(extent.end, vma->end);
    const uint64_t start = std::max(va, vma->start);
    const bool ours = extent.memory->is_mapped_by(*vma);
    if (ours && adjoins && start == va) {
      left->back().len += end - start;
    } else if (ours) {
      left->push_back({start, end - start, extent.audience});
    }
    adjoins = ours;
    va = end;
  }
}

std::vector<PageTable::LeftPages> PageTable::left_pages() {
  const MutexLock lock(mutex_);
  std::vector<LeftPages> left;
  for (const auto& [va, extent] : extents_.map()) {
    if (extent.claims.empty()) append_left(va, extent, &left);
  }
  for (const auto& [va, block] : own_.map()) {
    if (!block.exposed_to || block.being_renewed || is_claimed(block)) continue;
    left.push_back({va, block.bytes, *block.exposed_to});
  }
  return left;
}

}  // namespace urma
