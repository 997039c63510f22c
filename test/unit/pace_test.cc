// SPDX-License-Identifier: MIT
//
// What others ask for, spread over time.
#include "urma/base/pace.h"

#include <gtest/gtest.h>

namespace urma {
namespace {

constexpr uint64_t kBurst = 4;
constexpr uint64_t kInterval = 10;
constexpr uint64_t kNow = 1000;

class PaceTest : public testing::Test {
 protected:
  void use_burst(int64_t asker, uint64_t now) {
    for (uint64_t i = 0; i < kBurst; ++i) EXPECT_EQ(pace_.due(asker, now), now) << i;
  }
  Pace pace_{kBurst, kInterval};
};

TEST_F(PaceTest, ABurstIsDueAtOnceTheRestOnePerInterval) {
  use_burst(1, kNow);
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(pace_.due(1, kNow), kNow + i * kInterval) << i;
}

TEST_F(PaceTest, OneAskerDoesNotDelayAnother) {
  use_burst(1, kNow);
  EXPECT_GT(pace_.due(1, kNow), kNow);
  use_burst(2, kNow);
}

TEST_F(PaceTest, ATurnComesBackPerInterval) {
  use_burst(1, kNow);
  EXPECT_EQ(pace_.due(1, kNow + kInterval), kNow + kInterval);
  EXPECT_EQ(pace_.due(1, kNow + kInterval), kNow + 2 * kInterval);
  // Turns that nobody took add up to one burst.
  const uint64_t later = kNow + 100 * kInterval;
  use_burst(1, later);
  EXPECT_EQ(pace_.due(1, later), later + kInterval);
}

TEST_F(PaceTest, ForgetsThoseThatHaveRested) {
  for (int64_t asker = 0; asker < 100; ++asker) pace_.due(asker, kNow);
  EXPECT_EQ(pace_.askers(), 100U);
  pace_.due(7, kNow + kInterval);
  EXPECT_EQ(pace_.askers(), 1U);
}

// The clock counts from the start of the machine.
TEST_F(PaceTest, ABurstIsDueSoonAfterTheClockBegan) { use_burst(1, 1); }

}  // namespace
}  // namespace urma
