// SPDX-License-Identifier: MIT
#include "segment/inplace/own_memory.h"

#include <linux/memfd.h>
#include <sys/mman.h>

#include <cerrno>
#include <iterator>

#include "segment/kernel_abi.h"
#include "segment/page_size.h"

namespace urma {
namespace {

using kernel::kHugeMask;
using kernel::kHugePageBytes;

// Address space whose first byte is aligned as offset 0 of a file needs it; 0 with errno.
uint64_t reserve(uint64_t bytes) {
  const uint64_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* const data =
      ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<uint64_t>(data);
  if (slack == 0) return start;
  const uint64_t aligned = (start + kHugeMask) & ~kHugeMask;
  if (aligned > start) ::munmap(data, aligned - start);
  if (aligned < start + slack) {
    ::munmap(reinterpret_cast<void*>(aligned + bytes), start + slack - aligned);
  }
  return aligned;
}

bool map_over(uint64_t va, uint64_t bytes, int fd) {
  return ::mmap(reinterpret_cast<void*>(va), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                fd, 0) != MAP_FAILED;
}

// A huge page is made from a small one, which a read provides.
void make_huge(uint64_t va, uint64_t bytes) {
  ::madvise(reinterpret_cast<void*>(va), bytes, MADV_HUGEPAGE);
  for (uint64_t at = va; at < va + bytes; at += kHugePageBytes) {
    static_cast<void>(*reinterpret_cast<const volatile char*>(at));
  }
  ::madvise(reinterpret_cast<void*>(va), bytes, kernel::kCollapse);
}

std::shared_ptr<PageMemory> make_at(uint64_t va, uint64_t bytes) {
  auto memory = PageMemory::create(va, va + bytes);
  if (memory != nullptr && !map_over(va, bytes, memory->fd())) memory = nullptr;
  return memory;
}

}  // namespace

OwnMemory::Block* OwnMemory::allocate(uint64_t bytes, bool huge) {
  if (bytes > UINT64_MAX / 2) {
    errno = ENOMEM;
    return nullptr;
  }
  const uint64_t unit = huge ? kHugePageBytes : page_bytes();
  const uint64_t whole = (bytes + unit - 1) & ~(unit - 1);
  const uint64_t va = reserve(whole);
  if (va == 0) return nullptr;
  // Not from the pool of huge pages: it can be empty when a page is needed, so importers map
  // nothing of it.
  std::shared_ptr<PageMemory> memory = make_at(va, whole);
  if (huge && memory != nullptr) make_huge(va, whole);
  if (memory == nullptr) {
    ::munmap(reinterpret_cast<void*>(va), whole);
    errno = ENOMEM;
    return nullptr;
  }
  return &map_.emplace(va,
                       Block{va, bytes, va + whole, std::move(memory), nullptr, {}, false, false})
              .first->second;
}

bool OwnMemory::deallocate(uint64_t va) {
  const auto found = map_.find(va);
  if (found == map_.end()) return false;
  ::munmap(reinterpret_cast<void*>(va), found->second.end - va);
  map_.erase(found);
  return true;
}

OwnMemory::Block* OwnMemory::at_or_after(uint64_t va) {
  auto next = map_.upper_bound(va);
  if (next != map_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end > va) return &before->second;
  }
  return next == map_.end() ? nullptr : &next->second;
}

}  // namespace urma
