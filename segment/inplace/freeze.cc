// SPDX-License-Identifier: MIT
#include "segment/inplace/freeze.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include <cerrno>

namespace urma {
namespace {

using kernel::kPageBytes;
using kernel::PageRegion;

constexpr uint32_t kRegionsPerScan = 64;
constexpr uint32_t kAgainLimit = 10000;

}  // namespace

long FreezeCalls::freeze_absent(FreezeStep step, uint64_t va, uint64_t len) {
  uffdio_register request = {};
  request.range = {va, len};
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  return call(step, SYS_ioctl, uffd_, UFFDIO_REGISTER, &request);
}

void FreezeCalls::thaw(uint64_t va, uint64_t len) {
  uffdio_range range = {va, len};
  if (raw_syscall(SYS_ioctl, uffd_, UFFDIO_UNREGISTER, &range) == 0 || len <= kPageBytes) return;
  // Any thread may unmap memory beside the program's pages, and map there what cannot be frozen:
  // the kernel then refuses all of it.
  const uint64_t half = len / 2 / kPageBytes * kPageBytes;
  thaw(va, half);
  thaw(va + half, len - half);
}

void FreezeCalls::wake(uint64_t va, uint64_t len) {
  uffdio_range range = {va, len};
  raw_syscall(SYS_ioctl, uffd_, UFFDIO_WAKE, &range);
}

long FreezeCalls::move_pages(FreezeStep step, uint64_t dst, uint64_t src, uint64_t len,
                             uint64_t* moved) {
  uint64_t done = 0;
  uint32_t again = 0;
  long result = 0;
  while (done < len) {
    kernel::UffdMove request = {dst + done, src + done, len - done,
                                kernel::kMoveDontWake | kernel::kMoveAllowHoles, 0};
    result = call(step, SYS_ioctl, uffd_, kernel::kUffdioMove, &request);
    if (request.move > 0) {
      done += static_cast<uint64_t>(request.move);
      again = 0;
      continue;
    }
    if (result != -EAGAIN || ++again == kAgainLimit) break;
  }
  *moved = done;
  return done >= len ? 0 : result;
}

long FreezeCalls::scan(Pages which, uint64_t va, uint64_t end, PageRegion* regions, uint32_t count,
                       uint64_t* next) {
  kernel::PagemapScan request = {};
  request.size = sizeof request;
  request.start = va;
  request.end = end;
  request.vec = reinterpret_cast<uint64_t>(regions);
  request.vec_len = count;
  // A caller that asks for one region needs to know where it begins, not where it ends.
  request.max_pages = count == 1 ? 1 : 0;
  if (which == Pages::kWithContents) {
    request.category_inverted = kernel::kPageZero;
    request.category_mask = kernel::kPageZero;
  }
  request.category_anyof_mask = kernel::kPagePresent | kernel::kPageSwapped;
  request.return_mask = kernel::kPageHuge;
  const long found = call(FreezeStep::kScan, SYS_ioctl, pagemap_, kernel::kPagemapScan, &request);
  *next = request.walk_end;
  return found;
}

long FreezeCalls::write_contents(uint64_t va, uint64_t len, int fd, uint64_t offset) {
  PageRegion regions[kRegionsPerScan];
  for (uint64_t at = va; at < va + len;) {
    uint64_t next = at;
    const long found = scan(Pages::kWithContents, at, va + len, regions, kRegionsPerScan, &next);
    if (found < 0) return found;
    for (long i = 0; i < found; ++i) {
      for (uint64_t from = regions[i].start; from < regions[i].end;) {
        const long written = call(FreezeStep::kWrite, SYS_pwrite64, fd, from, regions[i].end - from,
                                  offset + (from - va));
        if (written <= 0) return written == 0 ? -EIO : written;
        from += static_cast<uint64_t>(written);
      }
    }
    if (next <= at) return -EIO;
    at = next;
  }
  return 0;
}

UserFault::UserFault(uint64_t features) {
  fd_.reset(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  if (!fd_.valid()) {
    error_ = errno;
    const Fd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
    if (!device.valid()) return;
    fd_.reset(::ioctl(device.get(), kernel::kUserfaultNew, O_CLOEXEC | O_NONBLOCK));
    if (!fd_.valid()) return;
  }
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = features;
  error_ = ::ioctl(fd_.get(), UFFDIO_API, &api) == 0 ? 0 : errno;
  if (error_ != 0) fd_.reset();
}

}  // namespace urma
