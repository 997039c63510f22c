// SPDX-License-Identifier: MIT
//
// The way back: shared pages become private, or move to other shared memory.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "segment/inplace/page_mover.h"

namespace urma {
namespace {

using kernel::kHugePageBytes;
using kernel::kPageBytes;

constexpr uint32_t kPutBackTries = 10000;

bool failed(long result) { return result < 0 && result > -4096; }

bool is_huge(const Chunk& chunk, const RestoredArea& area) {
  return area.attributes->huge && chunk.len == kHugePageBytes;
}

// The chunk's own mapping, moved aside: it can be read there, and put back after a failure, even
// when a new mapping could not be written to. The old place still shows the same memory.
struct Parked {
  uint64_t va;
  int protection;  // of the chunk
  bool in_scratch;
};

long park(FreezeCalls& calls, const MoverTools& tools, const Chunk& chunk, int protection,
          Parked* parked) {
  parked->in_scratch = (chunk.va & (kHugePageBytes - 1)) + chunk.len <= kHugePageBytes;
  const int flags =
      MREMAP_MAYMOVE | kernel::kMremapDontUnmap | (parked->in_scratch ? MREMAP_FIXED : 0);
  const long at = calls.call(FreezeStep::kPark, SYS_mremap, chunk.va, chunk.len, chunk.len, flags,
                             parked->in_scratch ? tools.scratch->parking(chunk.va) : 0);
  if (failed(at)) return at;
  parked->va = static_cast<uint64_t>(at);
  parked->protection = protection;
  if ((protection & PROT_READ) == 0) raw_syscall(SYS_mprotect, at, chunk.len, PROT_READ);
  return 0;
}

void unpark(const Parked& parked, uint64_t len) {
  if (parked.in_scratch) {
    raw_syscall(SYS_mmap, parked.va, len, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  } else {
    raw_syscall(SYS_munmap, parked.va, len);
  }
}

// Puts [from, va + len) of the chunk's mapping back; its pages show the shared memory again.
// Retries while the kernel is out of memory: later writes there would be lost.
long put_back(const Chunk& chunk, const Parked& parked, uint64_t from) {
  const uint64_t rest = chunk.va + chunk.len - from;
  const uint64_t at = parked.va + (from - chunk.va);
  if ((parked.protection & PROT_READ) == 0) {
    raw_syscall(SYS_mprotect, at, rest, parked.protection);
  }
  for (uint32_t tries = 0;; ++tries) {
    long result = raw_syscall(SYS_mremap, at, rest, rest, MREMAP_MAYMOVE | MREMAP_FIXED, from);
    if (!failed(result)) break;
    result = raw_syscall(SYS_mmap, from, rest, parked.protection, MAP_SHARED | MAP_FIXED, chunk.fd,
                         chunk.offset + (from - chunk.va));
    if (!failed(result)) break;
    if (tries == kPutBackTries) return result;
    const timespec moment = {0, 1'000'000};
    raw_syscall(SYS_nanosleep, &moment, 0);
  }
  if (parked.in_scratch) {
    raw_syscall(SYS_mmap, at, rest, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  } else {
    raw_syscall(SYS_munmap, at, rest);
  }
  return 0;
}

// Untouched private memory between empty pages, so that it has no history with another area and can
// merge with the chunk's neighbours.
class Spare {
 public:
  long make(FreezeCalls& calls, const Chunk& chunk, const RestoredArea& area) {
    const bool lazy = (area.attributes->flags & kVmNoReserve) != 0;
    // A huge page can be moved only to a place without a table of small pages; a table shared with
    // a neighbour would be in the way.
    const uint64_t border = is_huge(chunk, area) ? kHugePageBytes : kPageBytes;
    len_ = chunk.len;
    whole_ = len_ + 2 * border;
    const long at = calls.call(FreezeStep::kSpare, SYS_mmap, 0, whole_, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | (lazy ? MAP_NORESERVE : 0), -1, 0);
    if (failed(at)) return at;
    start_ = static_cast<uint64_t>(at);
    va_ = (start_ + border) & ~(border - 1);
    // Memory that mlockall(MCL_FUTURE) has locked would be filled at once.
    raw_syscall(SYS_munlock, start_, whole_);
    const long result = raw_syscall(SYS_mprotect, va_, len_, area.protection);
    if (failed(result)) {
      drop();
      return result;
    }
    area.attributes->apply(va_, len_);
    return 0;
  }
  // From now on an access that would fill it sleeps; an access to a page that exists would not.
  long watch(FreezeCalls& calls) {
    long result = calls.freeze_absent(FreezeStep::kRegister, va_, len_);
    if (result != 0) return result;
    raw_syscall(SYS_munlock, va_, len_);
    return raw_syscall(SYS_madvise, va_, len_, MADV_DONTNEED);
  }
  void drop() { raw_syscall(SYS_munmap, start_, whole_); }
  // Call once the middle has been moved away.
  void drop_borders() {
    raw_syscall(SYS_munmap, start_, va_ - start_);
    raw_syscall(SYS_munmap, va_ + len_, start_ + whole_ - va_ - len_);
  }
  uint64_t va() const { return va_; }

 private:
  uint64_t start_ = 0;
  uint64_t whole_ = 0;
  uint64_t va_ = 0;
  uint64_t len_ = 0;
};

// Calls copy(offset, end) for each extent of the file's contents in [from, end).
template <typename Copy>
long each_extent(int fd, uint64_t from, uint64_t end, uint64_t* data_end, Copy copy) {
  while (from < end) {
    const long data = raw_syscall(SYS_lseek, fd, from, SEEK_DATA);
    if (data == -ENXIO || (data >= 0 && static_cast<uint64_t>(data) >= end)) return 0;
    if (data < 0) return data;
    const auto begin = static_cast<uint64_t>(data);
    // Looked up again only after the last hint: the kernel walks to the end of the contents.
    if (*data_end <= begin) {
      const long hole = raw_syscall(SYS_lseek, fd, begin, SEEK_HOLE);
      if (hole < 0) return hole;
      *data_end = static_cast<uint64_t>(hole);
    }
    const uint64_t stop = std::min(*data_end, end);
    const long result = copy(begin, stop);
    if (result != 0) return result;
    from = stop;
  }
  return 0;
}

// Returns 0 or -errno; *done is where it stopped. Any thread may divide the area meanwhile, and
// nothing is copied across a border; a single page that is not found no longer belongs to this
// chunk.
long copy_in(FreezeCalls& calls, int uffd, uint64_t to, uint64_t from, uint64_t len,
             uint64_t* done) {
  uffdio_copy request = {};
  uint64_t piece = len;
  while (len > 0) {
    request = {to, from, std::min(piece, len), 0, 0};
    const long result = calls.call(FreezeStep::kCopy, SYS_ioctl, uffd, UFFDIO_COPY, &request);
    uint64_t copied = request.copy > 0 ? static_cast<uint64_t>(request.copy) : 0;
    if (result == -ENOENT && copied == 0) {
      if (request.len > kPageBytes) {
        piece = (request.len / 2) & ~(kPageBytes - 1);
        continue;
      }
      copied = kPageBytes;
    } else if (result < 0 && result != -EAGAIN && result != -ENOENT) {
      *done = to + copied;
      return result;
    }
    to += copied;
    from += copied;
    len -= copied;
    if (copied != 0) piece = std::min(2 * piece, len);
  }
  *done = to;
  return 0;
}

// One huge page: filled aside, then moved in as a whole; if huge pages have run out, as many
// small ones. Returns the number of bytes in place.
uint64_t move_in(FreezeCalls& calls, const Chunk& chunk, uint64_t scratch) {
  uint64_t moved = 0;
  uint64_t at = 0;
  while (at < chunk.len) {
    const long length = calls.call(FreezeStep::kCopy, SYS_pread64, chunk.fd, scratch + at,
                                   chunk.len - at, chunk.offset + at);
    if (length <= 0) break;
    at += static_cast<uint64_t>(length);
  }
  if (at == chunk.len) {
    calls.move_pages(FreezeStep::kMove, chunk.va, scratch, chunk.len, &moved);
  }
  raw_syscall(SYS_madvise, scratch, chunk.len, MADV_DONTNEED);
  return moved;
}

// The kernel merges equal areas that adjoin, and the chunk's new area is frozen: so its neighbours
// are frozen, too. One that cannot be frozen, since the program watches it, does not count as a
// neighbour.
void freeze_neighbours(FreezeCalls& calls, const Chunk& chunk, RestoredArea* area) {
  if (area->before != 0 &&
      calls.freeze_absent(FreezeStep::kNone, chunk.va - area->before, area->before) != 0) {
    area->before = 0;
  }
  if (area->behind != 0 &&
      calls.freeze_absent(FreezeStep::kNone, chunk.va + chunk.len, area->behind) != 0) {
    area->behind = 0;
  }
}

void thaw_neighbours(FreezeCalls& calls, const Chunk& chunk, const RestoredArea& area) {
  if (area.before != 0) calls.thaw(chunk.va - area.before, area.before);
  if (area.behind != 0) calls.thaw(chunk.va + chunk.len, area.behind);
}

void populate(const Chunk& chunk, const Parked& parked, uint64_t* data_end) {
  each_extent(chunk.fd, chunk.offset, chunk.offset + chunk.len, data_end,
              [&](uint64_t begin, uint64_t end) -> long {
                raw_syscall(SYS_madvise, parked.va + (begin - chunk.offset), end - begin,
                            kernel::kPopulateRead);
                return 0;
              });
}

// -EEXIST for pages that the program itself watches: they cannot be watched twice, and the program
// would wait for events that never come.
long look_for_watcher(FreezeCalls& calls, const Chunk& chunk) {
  const long result = calls.freeze_absent(FreezeStep::kNone, chunk.va, chunk.len);
  if (result == 0) calls.thaw(chunk.va, chunk.len);
  return result == -EBUSY ? -EEXIST : 0;
}

// Prepares what needs no freeze: a place to read from, and memory to put there.
long prepare(FreezeCalls& calls, const MoverTools& tools, const Chunk& chunk,
             const RestoredArea& area, Parked* parked, Spare* spare, uint64_t* data_end) {
  long result = park(calls, tools, chunk, area.protection, parked);
  // The program has changed the mapping since the look-up.
  if (result == -EFAULT || result == -EINVAL) return -EIO;
  if (result != 0) return result;
  result = spare->make(calls, chunk, area);
  if (result == 0) {
    result = spare->watch(calls);
    if (result != 0) spare->drop();
  }
  if (result != 0) {
    unpark(*parked, chunk.len);
    return result;
  }
  if (is_huge(chunk, area)) {
    const uint64_t scratch = tools.scratch->pages(chunk.va);
    raw_syscall(SYS_madvise, scratch, chunk.len, MADV_HUGEPAGE);
    raw_syscall(SYS_madvise, scratch, chunk.len, kernel::kPopulateWrite);
    raw_syscall(SYS_madvise, scratch, chunk.len, MADV_NOHUGEPAGE);
  } else {
    populate(chunk, *parked, data_end);
  }
  return 0;
}

// Afterwards every access to the chunk sleeps.
long swap_in(FreezeCalls& calls, const Chunk& chunk, const Parked& parked, Spare* spare) {
  const long result = calls.call(FreezeStep::kSwap, SYS_mremap, spare->va(), chunk.len, chunk.len,
                                 MREMAP_MAYMOVE | MREMAP_FIXED, chunk.va);
  if (!failed(result)) return 0;
  // The kernel unmaps the old memory before it can fail.
  const long back = put_back(chunk, parked, chunk.va);
  spare->drop();
  return back == 0 ? result : -ENOTRECOVERABLE;
}

}  // namespace

long restore_chunk(const MoverTools& tools, const Chunk& given, const RestoredArea& given_area,
                   uint64_t* data_end) {
  const Chunk chunk = given;
  RestoredArea area = given_area;
  const int uffd = tools.uffd;
  const bool huge = is_huge(chunk, area);
  const uint64_t scratch = tools.scratch->pages(chunk.va);
  FreezeCalls calls(uffd, tools.pagemap, tools.fail);
  Parked parked;
  Spare spare;
  uint64_t hint = *data_end;
  long result = look_for_watcher(calls, chunk);
  if (result == 0) result = prepare(calls, tools, chunk, area, &parked, &spare, &hint);
  if (result != 0) return result;
  freeze_neighbours(calls, chunk, &area);
  result = swap_in(calls, chunk, parked, &spare);
  if (result != 0) {
    thaw_neighbours(calls, chunk, area);
    if (huge) raw_syscall(SYS_madvise, scratch, chunk.len, MADV_DONTNEED);
    return result;
  }
  const uint64_t moved = huge ? move_in(calls, chunk, scratch) : 0;
  uint64_t done = chunk.va + moved;
  // Asked again, now that nobody can write into holes.
  result = each_extent(chunk.fd, chunk.offset + moved, chunk.offset + chunk.len, &hint,
                       [&](uint64_t begin, uint64_t end) {
                         return copy_in(calls, uffd, chunk.va + (begin - chunk.offset),
                                        parked.va + (begin - chunk.offset), end - begin, &done);
                       });
  // The pages up to `done` are private and may have been written again; the others are as shared.
  const uint64_t kept = result == 0 ? chunk.va + chunk.len : done;
  long back = 0;
  if (kept < chunk.va + chunk.len) back = put_back(chunk, parked, kept);
  calls.wake(chunk.va, chunk.len);
  if (kept > chunk.va) {
    calls.thaw(chunk.va, kept - chunk.va);
    unpark(parked, kept - chunk.va);
  }
  thaw_neighbours(calls, chunk, area);
  spare.drop_borders();
  *data_end = hint;
  if (back != 0) return -ENOTRECOVERABLE;
  return result == 0 ? 0 : -EIO;
}

long replace_chunk(const MoverTools& tools, const Chunk& given, int protection, int new_fd,
                   uint64_t* data_end) {
  const Chunk chunk = given;
  const PageAttributes plain;
  const RestoredArea area = {protection, &plain, 0, 0};
  FreezeCalls calls(tools.uffd, tools.pagemap, tools.fail);
  Parked parked;
  Spare spare;
  uint64_t hint = *data_end;
  long result = look_for_watcher(calls, chunk);
  if (result == 0) result = prepare(calls, tools, chunk, area, &parked, &spare, &hint);
  if (result != 0) return result;
  result = swap_in(calls, chunk, parked, &spare);
  if (result != 0) return result;
  result = each_extent(chunk.fd, chunk.offset, chunk.offset + chunk.len, &hint,
                       [&](uint64_t begin, uint64_t end) -> long {
                         while (begin < end) {
                           const long written =
                               calls.call(FreezeStep::kWrite, SYS_pwrite64, new_fd,
                                          parked.va + (begin - chunk.offset), end - begin, begin);
                           if (written <= 0) return written == 0 ? -EIO : written;
                           begin += static_cast<uint64_t>(written);
                         }
                         return 0;
                       });
  if (result == 0) {
    result = calls.call(FreezeStep::kMap, SYS_mmap, chunk.va, chunk.len, protection,
                        MAP_SHARED | MAP_FIXED, new_fd, chunk.offset);
  }
  if (failed(result)) {
    put_back(chunk, parked, chunk.va);
    calls.wake(chunk.va, chunk.len);
  } else {
    calls.wake(chunk.va, chunk.len);
    unpark(parked, chunk.len);
    result = 0;
  }
  spare.drop_borders();
  *data_end = hint;
  return result;
}

}  // namespace urma
