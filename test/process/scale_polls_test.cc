// SPDX-License-Identifier: MIT
//
// What a poll that finds nothing costs where a thousand peers are silent, beside what it costs
// where one is: in instructions, which are the same on any machine, however busy it is.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "test/process/callgrind.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr double kMost = 2;  // times as much

class PollsTest : public ProcessTest {
 protected:
  // Instructions of a poll, by the name that the program gives them.
  std::map<std::string, double> read_costs(const std::string& output) const {
    std::map<std::string, int> polls;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name;
      int count;
      if (words >> name >> count && words.eof()) polls[name] = count;
    }
    std::map<std::string, double> costs;
    for (const Counted& counted : read_callgrind(scratch_.path())) {
      const auto found = polls.find(counted.name);
      if (found == polls.end()) continue;
      costs[counted.name] = counted.without("scale_polls_program") / found->second;
    }
    return costs;
  }

  ScratchDir scratch_;
};

TEST_F(PollsTest, AThousandSilentPeersCostAtMostTwice) {
  const std::string valgrind = find_valgrind();
  if (valgrind.empty()) GTEST_SKIP() << "valgrind is not installed; run ./dev setup";
  std::vector<std::string> command = callgrind_command(valgrind, scratch_.path());
  command.insert(command.end(), {"--collect-atstart=no", ::getenv("SCALE_POLLS_PROGRAM")});
  Child child("program", command);
  const int status = child.wait();
  constexpr int kCannotStart = 3;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotStart) {
    GTEST_SKIP() << "the library does not start under valgrind: " << child.output();
  }
  ASSERT_EQ(status, 0) << child.output();
  std::map<std::string, double> costs = read_costs(child.output());
  ASSERT_EQ(costs.size(), 6u) << child.output();
  for (const std::string name : {"senders-of-a-jfr", "jfs-of-a-jfc", "jfr-of-a-jfc"}) {
    const double one = costs[name + "-1"];
    const double many = costs[name + "-1000"];
    std::printf("%-16s one %6.1f, a thousand %6.1f instructions\n", name.c_str(), one, many);
    EXPECT_GT(one, 20) << name << ": less than it can be";
    EXPECT_LE(many, kMost * one) << name;
  }
}

}  // namespace
}  // namespace urma_test
