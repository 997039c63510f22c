// SPDX-License-Identifier: MIT
//
// The cost of a copy of GPU memory, without the runtime that makes it, in instructions, counted by
// callgrind: budgets that hold on any machine under any load.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <map>
#include <string>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

// The measured values, plus a margin for other versions of the C library.
const std::map<std::string, double> kBudgets = {
    {"post", 3000}, {"post of a read", 3000}, {"poll", 700}, {"empty poll", 310}};

TEST(RocmCost, APostAndAPollKeepTheirBudgets) {
  const CountedRun run = count_program({::getenv("COST_PROGRAM")});
  if (!run.cannot.empty()) GTEST_SKIP() << run.cannot;
  for (const Counted& counted : run.dumps) {
    const int calls = run.calls.at(counted.name);
    const double cost = (counted.without("cost_program") - counted.of("libfake_hsa.so")) / calls;
    double library = 0;
    for (const auto& [object, instructions] : counted.executed) {
      if (object.starts_with("liburma")) library += counted.of(object);
    }
    std::printf("%-15s %7.1f of %.0f instructions, %.1f of them the library's own\n",
                counted.name.c_str(), cost, kBudgets.at(counted.name), library / calls);
    EXPECT_GT(library, 10) << counted.name
                           << ": fewer instructions than possible; the count is wrong";
    EXPECT_LE(cost, kBudgets.at(counted.name)) << counted.name;
  }
  EXPECT_EQ(run.dumps.size(), kBudgets.size());
}

}  // namespace
}  // namespace urma_test
