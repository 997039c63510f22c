// SPDX-License-Identifier: MIT
#include "segment/inplace/held_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "segment/inplace/freeze.h"
#include "segment/kernel_abi.h"

namespace urma {
namespace {

using kernel::kHugeMask;
using kernel::kHugePageBytes;
using kernel::kPageBytes;

// Others may use a page briefly.
constexpr int kTries = 3;

// A mapping of one huge page's worth of a file, whose size is sealed.
class Window {
 public:
  Window(const PageMemory& memory, uint64_t offset)
      : bytes_(std::min(kHugePageBytes, memory.bytes() - offset)),
        area_(::mmap(nullptr, 2 * kHugePageBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (area_ == MAP_FAILED) return;
    const uint64_t aligned = (reinterpret_cast<uint64_t>(area_) + kHugeMask) & ~kHugeMask;
    void* const there = ::mmap(reinterpret_cast<void*>(aligned), kHugePageBytes, PROT_READ,
                               MAP_SHARED | MAP_FIXED, memory.fd(), static_cast<off_t>(offset));
    if (there != MAP_FAILED) at_ = aligned;
  }
  ~Window() {
    if (area_ != MAP_FAILED) ::munmap(area_, 2 * kHugePageBytes);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  bool mapped() const { return at_ != 0; }
  bool is_mostly_filled() const {
    std::array<unsigned char, kHugePageBytes / kPageBytes> there = {};
    if (::mincore(data(), bytes_, there.data()) != 0) return false;
    const auto filled = std::count_if(there.begin(), there.end(), [](auto c) { return c & 1; });
    return 2 * static_cast<uint64_t>(filled) * kPageBytes >= bytes_;
  }
  // `contents` is the offset of some contents in it.
  bool has_small_pages(uint64_t contents, int pagemap) const {
    const uint64_t page = at_ + contents;
    kernel::PageRegion region = {};
    uint64_t next = 0;
    FreezeCalls calls(-1, pagemap, {});
    return ::madvise(reinterpret_cast<void*>(page), kPageBytes, kernel::kPopulateRead) == 0 &&
           calls.scan(Pages::kThere, page, page + kPageBytes, &region, 1, &next) == 1 &&
           (region.categories & kernel::kPageHuge) == 0;
  }
  bool collapse() const {
    for (int tries = 0; tries < kTries; ++tries) {
      if (::madvise(data(), kHugePageBytes, kernel::kCollapse) == 0) return true;
      if (errno != EAGAIN) return false;
    }
    return false;
  }

 private:
  void* data() const { return reinterpret_cast<void*>(at_); }

  const uint64_t bytes_;
  void* const area_;
  uint64_t at_ = 0;
};

}  // namespace

bool may_be_held(const PageMemory& memory, uint64_t va, uint64_t len, int pagemap) {
  const uint64_t end = memory.offset(va) + len;
  for (uint64_t offset = memory.offset(va) & ~kHugeMask; offset < end; offset += kHugePageBytes) {
    const off_t data = ::lseek(memory.fd(), static_cast<off_t>(offset), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return false;
    if (data < 0) return true;
    // Memory without contents is not held.
    offset = static_cast<uint64_t>(data) & ~kHugeMask;
    if (offset >= end) return false;
    const Window window(memory, offset);
    if (!window.mapped() || !window.is_mostly_filled() ||
        !window.has_small_pages(static_cast<uint64_t>(data) - offset, pagemap) ||
        !window.collapse()) {
      return true;
    }
  }
  return false;
}

}  // namespace urma
