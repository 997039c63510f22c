// SPDX-License-Identifier: MIT
#include "tools/perftest/clock.h"

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace perftest {
namespace {

bool counter_is_invariant() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  constexpr unsigned kInvariant = 1U << 8;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
#else
  return false;
#endif
}

double calibrate() {
  if (!kInvariantCounter) return 1000;
  const uint64_t ns = monotonic_ns();
  const uint64_t start = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const uint64_t ns_end = monotonic_ns();
  return static_cast<double>(ticks() - start) * 1000 / static_cast<double>(ns_end - ns);
}

}  // namespace

const bool kInvariantCounter = counter_is_invariant();

double ticks_per_us() {
  static const double value = calibrate();
  return value;
}

}  // namespace perftest
