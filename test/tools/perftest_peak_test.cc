// SPDX-License-Identifier: MIT
//
// The peak that tests of bandwidth report.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tools/perftest/bandwidth_loop.h"

namespace perftest {
namespace {

constexpr uint64_t kMessages = 100;  // of a batch

// When batches were posted and completed, and how many messages had completed by then.
struct Times {
  std::vector<uint64_t> posted, completed, until;

  void add(uint64_t posted_at, uint64_t completed_at) {
    posted.push_back(posted_at);
    completed.push_back(completed_at);
    until.push_back(until.size() * kMessages + kMessages);
  }
  double peak() const { return best_rate(posted, completed, until); }
  double average() const {
    return static_cast<double>(until.back()) /
           static_cast<double>(completed.back() - posted.front());
  }
};

// Each batch takes as long, so that the whole run is the best part of it.
TEST(PerftestPeak, IsNotBelowTheAverage) {
  for (uint64_t batches = 1; batches < 70; ++batches) {
    Times times;
    for (uint64_t i = 0; i < batches; ++i) times.add(i * 10, i * 10 + 500);
    EXPECT_GE(times.peak(), times.average()) << batches;
  }
}

TEST(PerftestPeak, IsTheRateOfTheFastestBatches) {
  Times times;
  for (uint64_t i = 0; i < 16; ++i) times.add(i * 100, i * 100 + 100);
  for (uint64_t i = 0; i < 4; ++i) times.add(1600 + i * 10, 1610 + i * 10);
  for (uint64_t i = 0; i < 16; ++i) times.add(1640 + i * 100, 1740 + i * 100);
  EXPECT_DOUBLE_EQ(times.peak(), 10.0);
}

TEST(PerftestPeak, NothingCompletedHasNone) { EXPECT_EQ(Times().peak(), 0); }

}  // namespace
}  // namespace perftest
