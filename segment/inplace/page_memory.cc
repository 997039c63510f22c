// SPDX-License-Identifier: MIT
#include "segment/inplace/page_memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>

#include "segment/kernel_abi.h"
#include "segment/shared_memory.h"
#include "urma_opcode.h"

namespace urma {
namespace {

// A program at its limit of descriptors fails in places unrelated to this library.
bool would_starve_program(int fd) {
  rlimit limit;
  return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
         static_cast<rlim_t>(fd) >= limit.rlim_cur - limit.rlim_cur / 4;
}

}  // namespace

bool may_write(const Audience& audience) {
  return (audience.access & (URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC)) != 0;
}

PageMemory::PageMemory(Fd fd, uint64_t base, uint64_t bytes)
    : fd_(std::move(fd)), base_(base), bytes_(bytes) {
  struct stat status;
  if (::fstat(fd_.get(), &status) == 0) {
    inode_ = status.st_ino;
    device_ = status.st_dev;
  }
}

std::shared_ptr<PageMemory> PageMemory::create(uint64_t start, uint64_t end) {
  const bool holds_huge_page =
      ((start + kernel::kHugeMask) & ~kernel::kHugeMask) + kernel::kHugePageBytes <= end;
  const uint64_t base = holds_huge_page ? start & ~kernel::kHugeMask : start;
  const uint64_t bytes = end - base;
  if (over_file_limit(bytes)) {
    errno = EFBIG;
    return nullptr;
  }
  Fd fd(::memfd_create("urma-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return nullptr;
  if (would_starve_program(fd.get())) {
    errno = EMFILE;
    return nullptr;
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return nullptr;
  }
  return std::shared_ptr<PageMemory>(new PageMemory(std::move(fd), base, bytes));
}

bool PageMemory::is_mapped_by(const Vma& vma) const {
  return vma.shared && vma.inode == inode_ && vma.device == device_ &&
         vma.offset == offset(vma.start);
}

bool PageMemory::seal(const Audience& audience) {
  if (sealed_) return true;
  const int seals = F_SEAL_SEAL | (may_write(audience) ? 0 : kernel::kSealFutureWrite);
  sealed_ = ::fcntl(fd_.get(), F_ADD_SEALS, seals) == 0;
  return sealed_;
}

}  // namespace urma
