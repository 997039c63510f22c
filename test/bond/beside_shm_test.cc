// SPDX-License-Identifier: MIT
//
// The cost of posts and polls for near peers beside that of the same program over urma_shm0, in
// instructions, counted by callgrind.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <map>
#include <string>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr double kMore = 5;

class BesideShmTest : public ProcessTest, public testing::WithParamInterface<const char*> {
 protected:
  static CountedRun count_over(const std::string& device) {
    ::setenv("URMA_DEVICE", device.c_str(), 1);
    return count_program({::getenv("INSTRUCTIONS_PROGRAM"), GetParam()});
  }
};

TEST_P(BesideShmTest, APostAndAPollCostHardlyMore) {
  if (!kHasBudgets) GTEST_SKIP() << "the budgets are those of code made by gcc 12";
  const std::string device = ::getenv("URMA_DEVICE");
  const CountedRun shm = count_over("urma_shm0");
  const CountedRun bond = count_over(device);
  for (const CountedRun* run : {&shm, &bond}) {
    if (!run->cannot.empty()) GTEST_SKIP() << run->cannot;
  }
  const std::map<std::string, double> budgets = shm.costs("instructions_program");
  const std::map<std::string, double> costs = bond.costs("instructions_program");
  EXPECT_EQ(costs.size(), budgets.size());
  int compared = 0;
  for (const auto& [name, cost] : costs) {
    if (!name.ends_with("-post") && !name.ends_with("-poll")) continue;
    ++compared;
    const double over_shm = budgets.at(name);
    std::printf("%-18s %6.1f over urma_shm0 %6.1f, %+.1f\n", name.c_str(), cost, over_shm,
                cost - over_shm);
    EXPECT_LE(cost, over_shm + kMore) << name;
  }
  EXPECT_EQ(compared, 28);
}

INSTANTIATE_TEST_SUITE_P(Queues, BesideShmTest, testing::Values("lock_free", "ordinary", "shared"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace urma_test
