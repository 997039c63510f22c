// SPDX-License-Identifier: MIT
//
// The cost of a post and a poll in instructions, counted by callgrind: budgets that hold on any
// machine under any load.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <map>
#include <string>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

// The goals: for a request in a chain of 16 whose last one leaves a record, for a record in a poll
// of 16, and for calls with one request or one record.
constexpr double kAim = 150;

struct Budget {
  const char* call;  // or the end of its name
  double instructions;
};

// Costs that are counted.
constexpr size_t kCounted = 29;
constexpr size_t kCountedInOneJfc = 4;

// What an ordinary queue may cost beyond a lock_free one; and one that several threads have used,
// whose locks are atomics.
constexpr double kMoreWhereOrdinary = 15;
constexpr double kMoreWhereShared = 20;

// The first match counts. A budget above the goal keeps what was reached.
constexpr Budget kBudgets[] = {
    {"-chain-post", kAim},
    {"-chain-poll", kAim},
    // A message has an entry, a slot in a ring, a posted receive and two records.
    {"send-post", 220},
    {"send-inline-post", 205},
    {"receive-post", 115},
    {"receive-poll", 225},
    {"send-poll", 235},
    // An atomic is distinguished from six others before it runs.
    {"add-post", 195},
    {"cas-post", 195},
    {"-post", 175},
    // Includes the end of the import. The grant is kept from the previous one.
    {"import", 1650},
    {"empty-receive-poll", 160},
    // A poll of a JFC for sends and receives looks at both queues; a message takes two.
    {"one-jfc-empty-poll", 255},
    {"one-jfc-write-poll", 305},
    {"one-jfc-first-poll", 350},
    {"one-jfc-second-poll", 325},
    {"empty-send-poll", kAim},
    {"-poll", kAim},
};

class InstructionsTest : public ProcessTest, public testing::WithParamInterface<const char*> {
 protected:
  static double budget_of(const std::string& name) {
    const std::string queues = GetParam();
    const double more = queues == "ordinary" ? kMoreWhereOrdinary
                        : queues == "shared" ? kMoreWhereShared
                                             : 0;
    for (const Budget& budget : kBudgets) {
      const std::string call = budget.call;
      if (call[0] == '-' ? name.ends_with(call) : name == call) {
        return budget.instructions + more;
      }
    }
    ADD_FAILURE() << name << " has no budget";
    return 0;
  }
};

TEST_P(InstructionsTest, APostAndAPollKeepTheirBudgets) {
  const CountedRun run = count_program({::getenv("INSTRUCTIONS_PROGRAM"), GetParam()});
  if (!run.cannot.empty()) GTEST_SKIP() << run.cannot;
  const auto costs = run.costs("instructions_program");
  EXPECT_EQ(costs.size(), GetParam() == std::string("one_jfc") ? kCountedInOneJfc : kCounted);
  for (const auto& [name, cost] : costs) {
    std::printf("%-16s %6.1f of %.0f instructions\n", name.c_str(), cost, budget_of(name));
    EXPECT_GT(cost, 20) << name << ": fewer instructions than possible; the count is wrong";
    EXPECT_LE(cost, budget_of(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, InstructionsTest,
                         testing::Values("lock_free", "ordinary", "shared", "one_jfc"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace urma_test
