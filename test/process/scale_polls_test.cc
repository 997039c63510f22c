// SPDX-License-Identifier: MIT
//
// The cost of a poll without result with a thousand silent peers, compared to one: in instructions,
// which are the same on any machine under any load.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr double kMost = 2;  // times as much
// Instructions that are always allowed: with a very cheap poll, twice the cost is mostly the call.
constexpr double kLittle = 240;

using PollsTest = ProcessTest;

TEST_F(PollsTest, AThousandSilentPeersCostAtMostTwice) {
  const CountedRun run = count_program({::getenv("SCALE_POLLS_PROGRAM")});
  if (!run.cannot.empty()) GTEST_SKIP() << run.cannot;
  std::map<std::string, double> costs = run.costs("scale_polls_program");
  ASSERT_EQ(costs.size(), 6u);
  for (const std::string name : {"senders-of-a-jfr", "jfs-of-a-jfc", "jfr-of-a-jfc"}) {
    const double one = costs[name + "-1"];
    const double many = costs[name + "-1000"];
    std::printf("%-16s one %6.1f, a thousand %6.1f instructions\n", name.c_str(), one, many);
    EXPECT_GT(one, 20) << name << ": fewer instructions than possible; the count is wrong";
    EXPECT_LE(many, std::max(kMost * one, kLittle)) << name;
  }
}

}  // namespace
}  // namespace urma_test
