// SPDX-License-Identifier: MIT

#include <algorithm>
#include <cmath>

#include "tools/perftest/results.h"

namespace perftest {
namespace {

constexpr size_t kOutliers = 2;

double median_of(const std::vector<uint64_t>& sorted, size_t count) {
  const auto upper = static_cast<double>(sorted[count / 2]);
  if (count % 2 == 1) return upper;
  return (upper + static_cast<double>(sorted[count / 2 - 1])) / 2;
}

}  // namespace

LatencySummary summarize_latency(std::vector<uint64_t>& cycles, double cycles_per_us, int divisor,
                                 const std::vector<double>& percents) {
  LatencySummary summary;
  if (cycles.empty()) return summary;
  std::sort(cycles.begin(), cycles.end());
  const size_t count = cycles.size() > kOutliers ? cycles.size() - kOutliers : cycles.size();
  const size_t last = std::min(count, cycles.size() - 1);
  const double to_us = 1 / (cycles_per_us * divisor);

  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += static_cast<double>(cycles[i]);
  const double average = sum / static_cast<double>(count);
  double squares = 0;
  for (size_t i = 0; i < count; i++) {
    const double distance = static_cast<double>(cycles[i]) - average;
    squares += distance * distance;
  }

  summary.min_us = static_cast<double>(cycles.front()) * to_us;
  summary.max_us = static_cast<double>(cycles[last]) * to_us;
  summary.median_us = median_of(cycles, count) * to_us;
  summary.avg_us = average * to_us;
  summary.stdev_us = std::sqrt(squares / static_cast<double>(count)) * to_us;
  for (const double percent : percents) {
    const auto index = static_cast<size_t>(std::ceil(static_cast<double>(count) * percent / 100));
    summary.percentiles.emplace_back(percent,
                                     static_cast<double>(cycles[std::min(index, last)]) * to_us);
  }
  return summary;
}

}  // namespace perftest
