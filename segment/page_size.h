// SPDX-License-Identifier: MIT
//
// The size of an ordinary page, which is the kernel's choice: on aarch64 4, 16 or 64 KiB.
#ifndef SEGMENT_PAGE_SIZE_H_
#define SEGMENT_PAGE_SIZE_H_

#include <unistd.h>

#include <cstdint>

namespace urma {

inline uint64_t page_bytes() {
  static const auto bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace urma

#endif  // SEGMENT_PAGE_SIZE_H_
