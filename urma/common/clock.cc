// SPDX-License-Identifier: MIT
#include <time.h>

#include "urma/common/common.h"

namespace {

constexpr uint64_t kMeasuredNs = 20'000'000;
constexpr int kTries = 16;

uint64_t counter() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

uint64_t now_ns() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

struct Moment {
  uint64_t ns;
  uint64_t ticks;
};

// Of several readings, the one that was interrupted least.
Moment moment() {
  Moment best = {};
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = counter();
    const uint64_t ns = now_ns();
    const uint64_t took = counter() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {ns, before + took / 2};
  }
  return best;
}

}  // namespace

double get_cpu_mhz(bool /*warn*/) {
  const Moment first = moment();
  while (now_ns() - first.ns < kMeasuredNs) {
  }
  const Moment last = moment();
  return static_cast<double>(last.ticks - first.ticks) * 1000 /
         static_cast<double>(last.ns - first.ns);
}
