// SPDX-License-Identifier: MIT
//
// The cost of urma_perftest itself per message, in instructions, counted by callgrind: it must
// measure the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "test/process/callgrind.h"
#include "test/process/harness.h"
#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

constexpr double kBudget = 10;
constexpr uint32_t kMessages = 400000;

class PerftestCost : public PerftestTest, public ::testing::WithParamInterface<const char*> {};

// The client runs under callgrind, the server does not. Only instructions executed at least once
// for every second message count: not the code around the loop, and no waiting.
double cost_of(const std::string& test, const std::string& valgrind) {
  const ScratchDir scratch;
  const uint16_t port = free_port(16);
  const Arguments options = {"-s", "8", "-n", std::to_string(kMessages)};
  Tool server(perftest_program(), perftest_arguments(test, port, options));
  server.wait_for_line(kWaiting);
  std::vector<std::string> command = callgrind_command(valgrind, scratch.path());
  const std::string program = command.front();
  command.erase(command.begin());
  // Otherwise the thread that polls can keep the library's own one from running for seconds.
  command.push_back("--fair-sched=try");
  command.push_back(perftest_program());
  const Arguments arguments = perftest_arguments(test, port, options);
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"-S", "127.0.0.1"});
  Tool client(program, command);
  EXPECT_EQ(client.wait(seconds(120)), 0) << client.out() << client.err();
  EXPECT_EQ(server.wait(), 0) << server.out() << server.err();
  double instructions = 0;
  for (const Counted& counted : read_callgrind(scratch.path())) {
    instructions += counted.often("urma_perftest", kMessages / 2.0);
  }
  return instructions / kMessages;
}

// If the memory of the owner is mapped late, the client has more empty polls than messages, which
// are counted too: the cheapest run shows the cost of a message.
TEST_P(PerftestCost, AMessageTakesAFewInstructions) {
  const std::string valgrind = find_valgrind();
  if (valgrind.empty()) GTEST_SKIP() << "valgrind is not installed; run ./dev setup";
  double cost = cost_of(GetParam(), valgrind);
  for (int again = 0; again < 5 && cost >= kBudget; ++again) {
    cost = std::min(cost, cost_of(GetParam(), valgrind));
  }
  std::printf("%s: %.2f of %.0f instructions\n", GetParam(), cost, kBudget);
  EXPECT_GT(cost, 1) << "fewer instructions than possible; the count is wrong";
  EXPECT_LT(cost, kBudget);
}

INSTANTIATE_TEST_SUITE_P(Loops, PerftestCost, testing::Values("write_bw", "read_bw"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace urma_test
