// SPDX-License-Identifier: MIT
#ifndef URMA_BASE_CLOCK_H_
#define URMA_BASE_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace urma {

inline uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace urma

#endif  // URMA_BASE_CLOCK_H_
