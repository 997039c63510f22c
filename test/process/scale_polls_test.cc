// SPDX-License-Identifier: MIT
//
// The cost of a poll without result with a thousand silent peers, and with one: in instructions,
// which are the same on any machine under any load.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <map>
#include <string>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

// The budget of a poll with a thousand. Each JFR of a JFC takes a lock of its own.
struct Most {
  const char* name;
  double instructions;
};
constexpr Most kMost[] = {{"senders-of-a-jfr", 280}, {"jfs-of-a-jfc", 230}, {"jfr-of-a-jfc", 450}};

using PollsTest = ProcessTest;

TEST_F(PollsTest, AThousandSilentPeersCostLittle) {
  const CountedRun run = count_program({::getenv("SCALE_POLLS_PROGRAM")});
  if (!run.cannot.empty()) GTEST_SKIP() << run.cannot;
  std::map<std::string, double> costs = run.costs("scale_polls_program");
  ASSERT_EQ(costs.size(), 6u);
  for (const auto& [peers, most] : kMost) {
    const std::string name = peers;
    const double one = costs[name + "-1"];
    const double many = costs[name + "-1000"];
    std::printf("%-16s one %6.1f, a thousand %6.1f instructions\n", name.c_str(), one, many);
    EXPECT_GT(one, 20) << name << ": fewer instructions than possible; the count is wrong";
    EXPECT_LE(many, most) << name;
  }
}

}  // namespace
}  // namespace urma_test
