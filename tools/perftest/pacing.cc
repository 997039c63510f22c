// SPDX-License-Identifier: MIT
#include "tools/perftest/pacing.h"

#include <algorithm>

#include "tools/perftest/clock.h"

namespace perftest {
namespace {

double requests_per_second(const Config& config, double bytes) {
  constexpr double kMegabyte = 1 << 20;
  constexpr double kGigabit = 1e9 / 8;
  switch (config.rate_unit) {
    case RateUnit::kMegabytes:
      return config.rate_limit * kMegabyte / bytes;
    case RateUnit::kGigabits:
      return config.rate_limit * kGigabit / bytes;
    case RateUnit::kKilopackets:
      break;
  }
  return config.rate_limit * 1000;
}

}  // namespace

Pacer::Pacer(const Config& config, double bytes)
    : burst_(std::max<uint64_t>({config.burst_size, config.jfs_post_list, 1})), next_(ticks()) {
  burst_ -= burst_ % config.jfs_post_list;
  const double seconds = static_cast<double>(burst_) / requests_per_second(config, bytes);
  gap_ = ticks_of_ms(seconds * 1000);
}

}  // namespace perftest
