// SPDX-License-Identifier: MIT
//
// What a copy of memory of a GPU costs beside the runtime that makes it, counted in instructions by
// callgrind: budgets that hold on any machine, however busy it is.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

// What was reached, and some more for other versions of the C library.
const std::map<std::string, double> kBudgets = {
    {"post", 3300}, {"post of a read", 3300}, {"poll", 950}, {"empty poll", 330}};

TEST(RocmCost, APostAndAPollKeepTheirBudgets) {
  const std::string valgrind = find_valgrind();
  if (valgrind.empty()) GTEST_SKIP() << "valgrind is not installed; run ./dev setup";
  const ScratchDir scratch;
  std::vector<std::string> command = callgrind_command(valgrind, scratch.path());
  command.insert(command.end(), {"--collect-atstart=no", ::getenv("COST_PROGRAM")});
  Child child("program", command);
  const int status = child.wait();
  constexpr int kCannotStart = 3;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotStart) {
    GTEST_SKIP() << "the library does not start under valgrind: " << child.output();
  }
  ASSERT_EQ(status, 0) << child.output();
  std::map<std::string, int> calls;
  std::istringstream lines(child.output());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int count;
    std::string name;
    if (words >> count && std::getline(words >> std::ws, name)) calls[name] = count;
  }
  size_t found = 0;
  for (const Counted& counted : read_callgrind(scratch.path())) {
    if (!calls.contains(counted.name)) continue;
    ++found;
    const double cost =
        (counted.without("cost_program") - counted.of("libfake_hsa.so")) / calls[counted.name];
    double library = 0;
    for (const auto& [object, instructions] : counted.executed) {
      if (object.starts_with("liburma")) library += counted.of(object);
    }
    std::printf("%-15s %7.1f of %.0f instructions, %.1f of them the library's own\n",
                counted.name.c_str(), cost, kBudgets.at(counted.name),
                library / calls[counted.name]);
    EXPECT_GT(library, 10) << counted.name << ": less than it can be";
    EXPECT_LE(cost, kBudgets.at(counted.name)) << counted.name;
  }
  EXPECT_EQ(found, kBudgets.size());
}

}  // namespace
}  // namespace urma_test
