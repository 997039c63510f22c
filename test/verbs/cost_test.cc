// SPDX-License-Identifier: MIT
//
// The cost of a post and a poll, without the verbs that they call, in instructions, counted by
// callgrind: budgets that hold on any machine under any load.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr char kProgram[] = "cost_program";
constexpr char kDevice[] = "libbare_device.so";

// The goals: for a request or record in a chain of 16, and alone.
constexpr double kAim = 200;

// What an ordinary queue may cost beyond a lock_free one; and one that several threads have used,
// whose locks are atomics.
constexpr double kMoreWhereOrdinary = 15;
constexpr double kMoreWhereShared = 20;

struct Cost {
  double library;
  double device;
  // Libraries other than this one whose code was executed.
  std::string strangers;
};

std::string strangers_in(const Counted& counted) {
  std::string all;
  for (const auto& [object, instructions] : counted.executed) {
    if (object != kProgram && object != kDevice && !object.starts_with("liburma"))
      all += object + " ";
  }
  return all;
}

// Instructions of each kind of call, without those of the calling program.
std::map<std::string, Cost> costs_of(const CountedRun& run) {
  std::map<std::string, Cost> costs;
  for (const Counted& counted : run.dumps) {
    const double device = counted.of(kDevice);
    const int calls = run.calls.at(counted.name);
    costs[counted.name] = {(counted.without(kProgram) - device) / calls, device / calls,
                           strangers_in(counted)};
  }
  return costs;
}

class CostTest : public ProcessTest, public testing::WithParamInterface<const char*> {
 protected:
  CostTest() {
    const std::filesystem::path module = ::getenv("BARE_MODULE");
    ::setenv("URMA_PROVIDER_PATH", module.parent_path().c_str(), 1);
    ::setenv("URMA_DEVICE", "urma_fake0", 1);
  }

  static double budget() {
    const std::string queues = GetParam();
    return kAim + (queues == "ordinary" ? kMoreWhereOrdinary
                   : queues == "shared" ? kMoreWhereShared
                                        : 0);
  }
};

TEST_P(CostTest, APostAndAPollKeepTheirBudgets) {
  if (!kHasBudgets) GTEST_SKIP() << "the budgets are those of code made by gcc 12";
  const CountedRun run = count_program({::getenv("COST_PROGRAM"), GetParam()});
  if (!run.cannot.empty()) GTEST_SKIP() << run.cannot;
  const std::map<std::string, Cost> costs = costs_of(run);
  EXPECT_EQ(costs.size(), 36u);
  for (const auto& [name, cost] : costs) {
    std::printf("%-28s %6.1f of %.0f instructions, and %.1f of the device\n", name.c_str(),
                cost.library, budget(), cost.device);
    EXPECT_GT(cost.library, 10) << name << ": fewer instructions than possible; the count is wrong";
    EXPECT_LE(cost.library, budget()) << name;
    // The C library allocates memory, makes system calls and waits for locks; but it also copies
    // inline data, and an empty poll sometimes looks at other queues.
    if (!name.ends_with("inline post") && !name.starts_with("empty")) {
      EXPECT_EQ(cost.strangers, "") << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, CostTest, testing::Values("lock_free", "ordinary", "shared"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace urma_test
