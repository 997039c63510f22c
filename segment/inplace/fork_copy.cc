// SPDX-License-Identifier: MIT
//
// A fork with shared pages: the child gets a copy of its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "segment/inplace/page_table.h"
#include "segment/page_size.h"

namespace urma {
namespace {

// A part of shared memory.
struct Source {
  int fd;
  off_t start;
  off_t end;
};

Source source_of(const PageMemory& memory, uint64_t start, uint64_t end) {
  return {memory.fd(), static_cast<off_t>(memory.offset(start)),
          static_cast<off_t>(memory.offset(end))};
}

// Returns false if the memory cannot be read.
bool read_contents(const Source& from, char* to) {
  for (off_t at = from.start; at < from.end;) {
    const off_t data = ::lseek(from.fd, at, SEEK_DATA);
    if (data < 0) return errno == ENXIO;
    if (data >= from.end) return true;
    const off_t hole = ::lseek(from.fd, data, SEEK_HOLE);
    if (hole <= data) return false;
    const off_t stop = std::min(from.end, hole);
    for (at = data; at < stop;) {
      const ssize_t length = ::pread(from.fd, to + (at - from.start), stop - at, at);
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0) return false;
      at += length;
    }
  }
  return true;
}

int private_flags(const PageAttributes& attributes) {
  const int lazy = (attributes.flags & kVmNoReserve) != 0 ? MAP_NORESERVE : 0;
  return MAP_PRIVATE | MAP_ANONYMOUS | lazy;
}

bool replace_by_copy(const PageMemory& memory, uint64_t start, uint64_t end, int protection,
                     const PageAttributes& attributes) {
  const uint64_t len = end - start;
  void* const copy = ::mmap(nullptr, len, PROT_READ | PROT_WRITE, private_flags(attributes), -1, 0);
  if (copy == MAP_FAILED) return false;
  attributes.apply(reinterpret_cast<uint64_t>(copy), len);
  if (!read_contents(source_of(memory, start, end), static_cast<char*>(copy)) ||
      ::mprotect(copy, len, protection) != 0 ||
      ::mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, start) == MAP_FAILED) {
    ::munmap(copy, len);
    return false;
  }
  return true;
}

// Without address space for a copy elsewhere. What is read below may lie in these very pages, which
// are empty at first, and so is on the stack. A view of the shared memory would lose what the
// parent makes private later.
bool replace_in_place(const PageMemory& memory, uint64_t start, uint64_t end, int protection,
                      const PageAttributes& attributes) {
  const Source source = source_of(memory, start, end);
  const PageAttributes kept = attributes;
  void* const here = reinterpret_cast<void*>(start);
  if (::mmap(here, end - start, PROT_READ | PROT_WRITE,
             private_flags(kept) | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return false;
  }
  kept.apply(start, end - start);
  return read_contents(source, static_cast<char*>(here)) &&
         ::mprotect(here, end - start, protection) == 0;
}

// Unmaps what cannot be copied: otherwise the child would write into the parent's memory. Returns
// the number of bytes.
uint64_t cut_off(uint64_t start, uint64_t end) {
  if (::munmap(reinterpret_cast<void*>(start), end - start) != 0) ::_exit(127);
  return end - start;
}

uint64_t replace(const PageMemory& memory, uint64_t start, uint64_t end, int protection,
                 const PageAttributes& attributes) {
  if (replace_by_copy(memory, start, end, protection, attributes) ||
      replace_in_place(memory, start, end, protection, attributes)) {
    return 0;
  }
  return cut_off(start, end);
}

// Memory that the program keeps from its children is mapped in the parent only.
bool is_mapped(uint64_t va) {
  unsigned char there;
  return ::mincore(reinterpret_cast<void*>(va), page_bytes(), &there) == 0;
}

}  // namespace

uint64_t PageTable::copy_in_child(uint64_t start, uint64_t end, const PageMemory& memory,
                                  const PageAttributes& attributes, MemoryMap* map) {
  if (map == nullptr) return cut_off(start, end);
  uint64_t lost = 0;
  for (uint64_t va = start; va < end;) {
    const auto vma = map->find(va);
    if (!vma || vma->start >= end) break;
    const uint64_t from = std::max(va, vma->start);
    va = std::min(end, vma->end);
    // Skips what the program has mapped there since.
    if (!memory.is_mapped_by(*vma) || !is_mapped(from)) continue;
    lost += replace(memory, from, va, vma->protection, attributes);
  }
  return lost;
}

uint64_t PageTable::copy_own_in_child(const OwnMemory::Block& block, MemoryMap* map) {
  if (map == nullptr && block.renewed == nullptr) {
    return replace(*block.memory, block.va, block.end, PROT_READ | PROT_WRITE, {});
  }
  uint64_t lost = copy_in_child(block.va, block.end, *block.memory, {}, map);
  if (map != nullptr && block.renewed != nullptr) {
    lost += copy_in_child(block.va, block.end, *block.renewed, {}, map);
  }
  return lost;
}

// The parent's map serves if the child cannot open its own, for lack of descriptors or rights:
// the parent waits, and its mappings are mapped here.
uint64_t PageTable::copy_all_in_child() {
  if (extents_.map().empty() && own_.map().empty()) return 0;
  MemoryMap own_map;
  MemoryMap* map = own_map.usable() ? &own_map : nullptr;
  if (map == nullptr && map_ && map_->find(0)) map = &*map_;
  uint64_t lost = 0;
  for (const auto& [start, extent] : extents_.map()) {
    const auto* block = own_.at_or_after(start);
    if (block == nullptr || block->va > start) {
      lost += copy_in_child(start, extent.end, *extent.memory, extent.attributes, map);
    }
  }
  for (const auto& [start, block] : own_.map()) lost += copy_own_in_child(block, map);
  return lost;
}

void PageTable::before_fork() {
  mutex_.lock_for_fork();
  if (!extents_.map().empty() || !own_.map().empty()) child_copies_.prepare();
}

// The child must not see what this thread writes after the fork, and what this thread unregisters
// must not be punched out of the file before the child has read it.
void PageTable::after_fork_in_parent() {
  child_copies_.wait_in_parent(child_wait_ns_);
  if (!extents_.map().empty()) child_copies_.prepare();
  mutex_.unlock_after_fork();
}

// Closes the numbers and writes to no object: the objects close them once more when the child has
// its copies. No number is reused meanwhile, since this is the child's only thread.
void PageTable::close_in_child() const {
  child_copies_.close_in_child();
  if (pagemap_.valid()) ::close(pagemap_.get());
  for (const int fd : passing_fds_) ::close(fd);
}

// Until the copies are made, the parent sees writes to a shared page: so this writes only to its
// stack, which is never shared.
uint64_t PageTable::after_fork_in_child() {
  close_in_child();
  const uint64_t lost = copy_all_in_child();
  child_copies_.say_in_child();
  for (const auto& [start, extent] : extents_.map()) extent.memory->close();
  for (auto* ranges : {&ranges_, &going_}) {
    for (auto& [id, range] : *ranges) {
      if (range.memory != nullptr) range.memory->close();
      for (const auto& memory : range.used) memory->close();
    }
    ranges->clear();
  }
  for (const auto& [start, block] : own_.map()) {
    block.memory->close();
    if (block.renewed != nullptr) block.renewed->close();
  }
  way_back_.reset();
  ways_lent_ = 0;
  passing_fds_.clear();
  extents_.clear();
  own_.map().clear();
  map_.reset();
  pagemap_.reset();
  mutex_.unlock_after_fork();
  return lost;
}

}  // namespace urma
