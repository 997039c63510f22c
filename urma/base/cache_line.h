// SPDX-License-Identifier: MIT
//
// How far apart two variables must lie that different processors write.
#ifndef URMA_BASE_CACHE_LINE_H_
#define URMA_BASE_CACHE_LINE_H_

#include <cstddef>

namespace urma {

// The longest cache line of this architecture's processors. A part of the layout of shared memory:
// unlike std::hardware_destructive_interference_size it does not depend on compiler options.
#if defined(__aarch64__)
inline constexpr size_t kCacheLine = 128;  // such as the last level of Kunpeng 920
#else
inline constexpr size_t kCacheLine = 64;
#endif

}  // namespace urma

#endif  // URMA_BASE_CACHE_LINE_H_
