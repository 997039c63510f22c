// SPDX-License-Identifier: MIT
//
// Time at the lowest cost: the machine's time stamp counter if its rate never changes, else
// CLOCK_MONOTONIC in nanoseconds.
#ifndef TOOLS_PERFTEST_CLOCK_H_
#define TOOLS_PERFTEST_CLOCK_H_

#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace perftest {

// Whether ticks come from an invariant time stamp counter.
extern const bool kInvariantCounter;

inline uint64_t monotonic_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t ticks() {
#if defined(__x86_64__)
  if (kInvariantCounter) return __rdtsc();
#endif
  return monotonic_ns();
}

// Measured once against CLOCK_MONOTONIC, which takes 20 ms.
double ticks_per_us();

inline uint64_t ticks_of_ms(double ms) { return static_cast<uint64_t>(ms * 1000 * ticks_per_us()); }

}  // namespace perftest

#endif  // TOOLS_PERFTEST_CLOCK_H_
