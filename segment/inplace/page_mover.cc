// SPDX-License-Identifier: MIT
#include "segment/inplace/page_mover.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

namespace urma {
namespace {

using kernel::kHugeMask;
using kernel::kHugePageBytes;
using kernel::kPageBytes;
using kernel::PageRegion;

constexpr uint64_t kReservation = 4 * kHugePageBytes;
constexpr uint32_t kRegions = 64;

bool failed(long result) { return result < 0 && result > -4096; }

// Empties it, and unlocks it, whatever mlockall() has done. An access to it must sleep, not bring
// in a page of its own.
void empty(uint64_t va, uint64_t len) {
  raw_syscall(SYS_munlock, va, len);
  raw_syscall(SYS_madvise, va, len, MADV_DONTNEED);
}

bool map_scratch(uint64_t va, uint64_t len) {
  const long result = raw_syscall(SYS_mmap, va, len, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  // The kernel must not make a huge page of what is there briefly: pages that nobody put there
  // would remain.
  raw_syscall(SYS_madvise, va, len, MADV_NOHUGEPAGE);
  return !failed(result);
}

// Moves the mapping itself, if the kernel puts back neither the page nor a copy of it.
void put_page_back(uint64_t to, uint64_t from) {
  const long result =
      raw_syscall(SYS_mremap, from, kPageBytes, kPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
  if (!failed(result)) map_scratch(from, kPageBytes);
}

// Returns the bytes that are back. A fork while pages are aside gives them to the child too, so
// that they can only be copied, not moved. Neither works across the border of two areas, which any
// thread may create meanwhile.
uint64_t put_some_back(FreezeCalls& calls, int uffd, uint64_t to, uint64_t from, uint64_t len) {
  for (;;) {
    uint64_t moved = 0;
    calls.move_pages(FreezeStep::kUndo, to, from, len, &moved);
    if (moved > 0) return moved;
    uffdio_copy request = {to, from, len, UFFDIO_COPY_MODE_DONTWAKE, 0};
    const long result = calls.call(FreezeStep::kUndo, SYS_ioctl, uffd, UFFDIO_COPY, &request);
    if (request.copy > 0) return static_cast<uint64_t>(request.copy);
    // Out of memory: tries again, since what is not copied would be lost.
    if (result == -EAGAIN || result == -ENOMEM) continue;
    if (len > kPageBytes) {
      len = (len / 2) & ~(kPageBytes - 1);
      continue;
    }
    // Something other than the program's old memory is there now.
    if (result != -ENOENT) put_page_back(to, from);
    return len;
  }
}

// Puts back the pages of [from, from + len) that have contents, one region after the other.
void put_rest_back(FreezeCalls& calls, int uffd, uint64_t to, uint64_t from, uint64_t len) {
  PageRegion regions[kRegions];
  const uint64_t end = from + len;
  for (uint64_t at = from; at < end;) {
    uint64_t next = at;
    const long found = calls.scan(Pages::kWithContents, at, end, regions, kRegions, &next);
    // If the contents cannot be looked up, everything is put back.
    if (found < 0) {
      regions[0] = {at, end, 0};
      next = end;
    }
    for (long i = 0; i < (found < 0 ? 1 : found); ++i) {
      for (uint64_t page = regions[i].start; page < regions[i].end;) {
        page += put_some_back(calls, uffd, to + (page - from), page, regions[i].end - page);
      }
    }
    if (next <= at) return;
    at = next;
  }
}

void move_back(FreezeCalls& calls, int uffd, const Chunk& chunk, uint64_t scratch, uint64_t moved) {
  uint64_t back = 0;
  calls.move_pages(FreezeStep::kUndo, chunk.va, scratch, moved, &back);
  if (back < moved) {
    put_rest_back(calls, uffd, chunk.va + back, scratch + back, moved - back);
    // The thaw does not thaw pages that got another mapping.
    calls.wake(chunk.va, chunk.len);
  }
  empty(scratch, chunk.len);
}

}  // namespace

// [guard | pages | parking | guard], so that no area of the program merges with one of these.
void Scratch::reserve() {
  if (start_ != 0) return;
  void* const data =
      ::mmap(nullptr, kReservation, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  const auto start = reinterpret_cast<uint64_t>(data);
  const uint64_t aligned = (start + kHugePageBytes) & ~kHugeMask;
  if (!map_scratch(aligned, kHugePageBytes)) {
    ::munmap(data, kReservation);
    throw std::bad_alloc();
  }
  start_ = start;
  aligned_ = aligned;
}

Scratch::~Scratch() {
  if (start_ != 0) ::munmap(reinterpret_cast<void*>(start_), kReservation);
}

uint64_t Scratch::pages(uint64_t va) const { return aligned_ + (va & kHugeMask); }

uint64_t Scratch::parking(uint64_t va) const { return pages(va) + kHugePageBytes; }

long share_chunk(const MoverTools& tools, const Chunk& given) {
  const Chunk chunk = given;
  const uint64_t scratch = tools.scratch->pages(chunk.va);
  FreezeCalls calls(tools.uffd, tools.pagemap, tools.fail);
  // Maps one area again, whatever parts of it were registered before: Linux 6.12 moves no pages
  // across the border of two, and does not always join them.
  map_scratch(scratch & ~kHugeMask, kHugePageBytes);
  long result = calls.freeze_absent(FreezeStep::kRegisterScratch, scratch, chunk.len);
  if (result < 0) return result;
  empty(scratch, chunk.len);
  result = calls.freeze_absent(FreezeStep::kRegister, chunk.va, chunk.len);
  if (result < 0) {
    calls.thaw(scratch, chunk.len);
    return result == -EBUSY ? -EEXIST : result;
  }
  // Frozen until the wake or the thaw.
  uint64_t moved = 0;
  result = calls.move_pages(FreezeStep::kMove, scratch, chunk.va, chunk.len, &moved);
  calls.thaw(scratch, chunk.len);
  if (result == 0) result = calls.write_contents(scratch, chunk.len, chunk.fd, chunk.offset);
  if (result == 0) {
    result = calls.call(FreezeStep::kMap, SYS_mmap, chunk.va, chunk.len, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, chunk.fd, chunk.offset);
  }
  if (failed(result)) {
    move_back(calls, tools.uffd, chunk, scratch, moved);
    calls.thaw(chunk.va, chunk.len);
    return result;
  }
  calls.wake(chunk.va, chunk.len);
  empty(scratch, chunk.len);
  return 0;
}

long share_gap(const MoverTools& tools, const Chunk& given) {
  const Chunk chunk = given;
  FreezeCalls calls(tools.uffd, tools.pagemap, tools.fail);
  long result = calls.freeze_absent(FreezeStep::kRegister, chunk.va, chunk.len);
  if (result < 0) return result == -EBUSY ? -EEXIST : result;
  PageRegion region;
  uint64_t next = 0;
  result = calls.scan(Pages::kThere, chunk.va, chunk.va + chunk.len, &region, 1, &next);
  if (result > 0) result = -EAGAIN;
  if (result == 0) {
    result = calls.call(FreezeStep::kMap, SYS_mmap, chunk.va, chunk.len, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, chunk.fd, chunk.offset);
  }
  if (failed(result)) {
    calls.thaw(chunk.va, chunk.len);
    return result;
  }
  calls.wake(chunk.va, chunk.len);
  return 0;
}

// A huge page can be made from one small page. It is made beforehand, so that the contents are
// copied once, and not while they are frozen.
void make_huge(const MoverTools& tools, const Chunk& chunk) {
  const uint64_t at = tools.scratch->parking(chunk.va);
  raw_syscall(SYS_mmap, at, chunk.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, chunk.fd,
              chunk.offset);
  raw_syscall(SYS_madvise, at, kernel::kPageBytes, kernel::kPopulateWrite);
  raw_syscall(SYS_madvise, at, chunk.len, kernel::kCollapse);
  raw_syscall(SYS_mmap, at, chunk.len, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void break_copy_on_write(const MoverTools& tools, uint64_t va, uint64_t len) {
  FreezeCalls calls(tools.uffd, tools.pagemap, {});
  PageRegion regions[kRegions];
  for (uint64_t at = va; at < va + len;) {
    uint64_t next = at;
    const long found = calls.scan(Pages::kWithContents, at, va + len, regions, kRegions, &next);
    for (long i = 0; i < found; ++i) {
      raw_syscall(SYS_madvise, regions[i].start, regions[i].end - regions[i].start,
                  kernel::kPopulateWrite);
    }
    if (found < 0 || next <= at) return;
    at = next;
  }
}

}  // namespace urma
