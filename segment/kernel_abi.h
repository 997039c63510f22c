// SPDX-License-Identifier: MIT
//
// Interfaces of kernels that the C library's headers may be too old to name.
#ifndef SEGMENT_KERNEL_ABI_H_
#define SEGMENT_KERNEL_ABI_H_

#include <linux/ioctl.h>
#include <linux/userfaultfd.h>

#include <cstdint>

namespace urma::kernel {

// The only sizes of pages that can be moved. Elsewhere page_bytes() has the kernel's own.
inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kHugePageBytes = 2 << 20;
inline constexpr uint64_t kHugeMask = kHugePageBytes - 1;

// Linux 5.13 and 5.14.
inline constexpr int kMremapDontUnmap = 4;
inline constexpr int kPopulateRead = 22;   // MADV_POPULATE_READ
inline constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
inline constexpr int kCollapse = 25;       // MADV_COLLAPSE, Linux 6.1
inline constexpr int kSealFutureWrite = 0x10;

// Linux 6.7: finds the pages of a range that have contents, without touching them.
struct PageRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};

struct PagemapScan {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t vec;
  uint64_t vec_len;
  uint64_t max_pages;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};

inline constexpr uint64_t kPagePresent = 1 << 3;
inline constexpr uint64_t kPageSwapped = 1 << 4;
inline constexpr uint64_t kPageZero = 1 << 5;
inline constexpr uint64_t kPageHuge = 1 << 6;
inline constexpr unsigned long kPagemapScan = _IOWR('f', 16, PagemapScan);

// Linux 6.8: moves pages to another address, unless they are held elsewhere.
struct UffdMove {
  uint64_t dst;
  uint64_t src;
  uint64_t len;
  uint64_t mode;
  int64_t move;
};

inline constexpr uint64_t kMoveDontWake = 1;
inline constexpr uint64_t kMoveAllowHoles = 2;
inline constexpr uint64_t kFeatureMove = 1 << 16;
inline constexpr unsigned long kUffdioMove = _IOWR(UFFDIO, 0x05, UffdMove);
inline constexpr unsigned long kUserfaultNew = _IO(0xAA, 0x00);

// Linux 6.11: the line of /proc/PID/maps about one address.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};

inline constexpr uint64_t kVmaReadable = 1;
inline constexpr uint64_t kVmaWritable = 2;
inline constexpr uint64_t kVmaExecutable = 4;
inline constexpr uint64_t kVmaShared = 8;
inline constexpr uint64_t kVmaCoveringOrNext = 0x10;
inline constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);

}  // namespace urma::kernel

#endif  // SEGMENT_KERNEL_ABI_H_
