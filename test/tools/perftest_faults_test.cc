// SPDX-License-Identifier: MIT
//
// The messages of urma_perftest when its peer vanishes, wants something else, or is absent, and
// when it is interrupted.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

// Two seconds are promised; the rest is for busy machines.
constexpr seconds kVanished{2 + 3};

bool is_bandwidth(const std::string& test) { return test.find("_bw") != std::string::npos; }

// A run that does not end by itself.
Arguments endless(const std::string& test) {
  if (is_bandwidth(test)) return {"-y", "--inf_period_ms", "50"};
  return {"-n", "100000000"};
}

// Shows that the client measures: rows, or its progress, which it prints on terminals only.
ToolOptions on_terminal() {
  ToolOptions options;
  options.terminal = true;
  return options;
}

// Both sides measure.
void wait_until_busy(const std::string& test, PerftestPair* pair) {
  if (is_bandwidth(test)) {
    pair->client().wait_for_line("^ [0-9]+ +[0-9]+ ");
  } else {
    pair->client().wait_for_line("[1-9][0-9]* of 100000000");
  }
}

class PerftestPeer : public PerftestTest, public ::testing::WithParamInterface<std::string> {
 protected:
  static Arguments options() { return endless(GetParam()); }
};

void expect_gone(Tool* survivor) {
  EXPECT_EQ(survivor->wait(kVanished), 1) << survivor->out() << survivor->err();
  EXPECT_TRUE(has_line(survivor->err(), "^urma_perftest: ")) << survivor->err();
}

TEST_P(PerftestPeer, KilledServer) {
  PerftestPair pair(GetParam(), options(), {}, {}, on_terminal());
  wait_until_busy(GetParam(), &pair);
  pair.server().signal(SIGKILL);
  expect_gone(&pair.client());
}

TEST_P(PerftestPeer, KilledClient) {
  PerftestPair pair(GetParam(), options(), {}, {}, on_terminal());
  wait_until_busy(GetParam(), &pair);
  pair.client().signal(SIGKILL);
  expect_gone(&pair.server());
}

TEST_P(PerftestPeer, KilledServerOfASleepingClient) {
  if (GetParam().rfind("write", 0) == 0) GTEST_SKIP() << "write tests have no event mode";
  Arguments options = PerftestPeer::options();
  options.insert(options.end(), {"-e", "--wait_jfc_timeout", "-1"});
  PerftestPair pair(GetParam(), options, {}, {}, on_terminal());
  wait_until_busy(GetParam(), &pair);
  pair.server().signal(SIGKILL);
  expect_gone(&pair.client());
}

// Both sides end, and the client has reported what was measured.
void expect_partial_results(PerftestPair* pair) {
  EXPECT_EQ(pair->client().wait(), 0) << pair->client().err();
  EXPECT_EQ(pair->server().wait(), 0) << pair->server().err();
  EXPECT_FALSE(parse_rows(pair->client().out()).empty()) << pair->client().out();
}

TEST_P(PerftestPeer, InterruptedClientReportsPartialResults) {
  PerftestPair pair(GetParam(), options(), {}, {}, on_terminal());
  wait_until_busy(GetParam(), &pair);
  pair.client().signal(SIGINT);
  expect_partial_results(&pair);
}

TEST_P(PerftestPeer, InterruptedSizeIsTheLast) {
  if (GetParam().rfind("atomic", 0) == 0) GTEST_SKIP() << "atomics have one size";
  PerftestPair pair(GetParam(), {"-a", "-n", "100000000"}, {}, {}, on_terminal());
  pair.client().wait_for_line("[1-9][0-9]* of 100000000");
  pair.client().signal(SIGINT);
  expect_partial_results(&pair);
  constexpr size_t kSizes = 12;  // at least
  EXPECT_LT(parse_rows(pair.client().out()).size(), kSizes) << pair.client().out();
}

// With few iterations, the time between two sizes is most of the run. The peer that is stopped
// keeps the other side from finishing it.
TEST_P(PerftestPeer, InterruptedBetweenTwoSizes) {
  if (GetParam().rfind("atomic", 0) == 0) GTEST_SKIP() << "atomics have one size";
  for (const Side side : {Side::kServer, Side::kClient}) {
    SCOPED_TRACE(side == Side::kServer ? "server" : "client");
    PerftestPair pair(GetParam(), {"-a", "-n", "5"});
    Tool& other = side == Side::kServer ? pair.client() : pair.server();
    pair.client().wait_for_line("^ [0-9]+ +[0-9]+ ");
    other.signal(SIGSTOP);
    (side == Side::kServer ? pair.server() : pair.client()).signal(SIGINT);
    other.signal(SIGCONT);
    expect_partial_results(&pair);
  }
}

TEST_P(PerftestPeer, InterruptedLoopback) {
  if (GetParam().rfind("atomic", 0) == 0) GTEST_SKIP() << "atomics have one size";
  Tool tool(perftest_program(),
            perftest_arguments(GetParam(), free_port(), {"-a", "-n", "5", "--loopback"}));
  tool.wait_for_line("^ [0-9]+ +[0-9]+ ");
  tool.signal(SIGINT);
  EXPECT_EQ(tool.wait(), 0) << tool.out() << tool.err();
}

TEST_P(PerftestPeer, InterruptedSideOfTwoThatMeasure) {
  if (!is_bandwidth(GetParam())) GTEST_SKIP() << "tests of latency have one direction";
  for (const Side side : {Side::kServer, Side::kClient}) {
    PerftestPair pair(GetParam(), {"-B", "-n", "100000000"}, {}, {}, on_terminal());
    pair.client().wait_for_line("[1-9][0-9]* of 100000000");
    (side == Side::kServer ? pair.server() : pair.client()).signal(SIGINT);
    expect_partial_results(&pair);
  }
}

// In mode UM, what has not arrived may be lost, or was not sent.
TEST_P(PerftestPeer, InterruptedSizeOfALossyTestIsTheLast) {
  if (GetParam() != "send_bw") GTEST_SKIP() << "the other tests lose nothing";
  for (const Side side : {Side::kServer, Side::kClient}) {
    for (const Arguments& more : {Arguments{}, Arguments{"-B"}}) {
      SCOPED_TRACE((side == Side::kServer ? "server" : "client") + (more.empty() ? "" : more[0]));
      Arguments options = {"-p", "2", "-a", "-n", "100000000"};
      options.insert(options.end(), more.begin(), more.end());
      PerftestPair pair(GetParam(), options, {}, {}, on_terminal());
      pair.client().wait_for_line("[1-9][0-9]* of 100000000");
      (side == Side::kServer ? pair.server() : pair.client()).signal(SIGINT);
      expect_partial_results(&pair);
      for (Tool* tool : {&pair.client(), &pair.server()}) {
        EXPECT_TRUE(has_line(tool->out() + tool->err(), "^partial: ")) << tool->out();
        EXPECT_FALSE(has_line(tool->err(), "were lost")) << tool->err();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tests, PerftestPeer,
                         ::testing::Values("read_lat", "read_bw", "write_lat", "write_bw",
                                           "send_lat", "send_bw", "atomic_lat", "atomic_bw"),
                         [](const auto& info) { return info.param; });

class PerftestFaults : public PerftestTest {};

struct Difference {
  std::string test;
  Arguments server;
  Arguments client;
  std::string named;  // by both
};

const std::vector<Difference> kDifferences = {
    {"send_lat", {"-s", "8"}, {"-s", "16"}, "size"},
    {"send_lat", {"-n", "10"}, {"-n", "20"}, "iters"},
    {"write_bw", {"-J", "2"}, {}, "jettys"},
    {"write_bw", {}, {"-a"}, "all"},
    {"write_bw", {"-a10"}, {"-a12"}, "order"},
    {"atomic_lat", {"-A", "cas"}, {"-A", "faa"}, "atomic_type"},
    {"write_bw", {"-D", "4"}, {"-D", "5"}, "duration"},
    {"write_bw", {"-y"}, {}, "time_type"},
    {"send_lat", {"-K", "1"}, {}, "token_policy"},
    {"send_lat", {"-b"}, {}, "jetty_mode"},
    {"send_lat", {"-p", "1"}, {}, "trans_mode"},
    {"write_lat", {"-b", "-f"}, {"-b"}, "flat_api"},
    {"send_bw", {"--enable_credit"}, {}, "enable_credit"},
    {"write_bw", {}, {"--seg_pre_jetty"}, "seg_pre_jetty"},
    {"send_bw", {"--enable_imm"}, {}, "enable_imm"},
    {"write_bw", {"-y", "--inf_period_ms", "50"}, {"-y", "--inf_period_ms", "100"}, "inf_period"},
    {"write_bw", {"--enable_err_continue"}, {}, "err_continue"},
    {"send_bw", {"--sge_num", "2"}, {}, "sge_num"},
    {"write_bw", {"--enable_write_dirty", "20"}, {"--enable_write_dirty", "30"}, "write_dirty"},
    {"send_lat", {"--verify"}, {}, "verify"},
    {"write_bw", {"-B"}, {}, "bidirection"},
};

TEST_F(PerftestFaults, DisagreeingSidesNameTheDifference) {
  for (const Difference& difference : kDifferences) {
    SCOPED_TRACE(difference.named);
    const PerftestResult result =
        run_perftest(difference.test, {}, difference.server, difference.client);
    for (const ToolResult& side : {result.server, result.client}) {
      EXPECT_EQ(side.status, 1) << side.out << side.err;
      EXPECT_TRUE(has_line(side.err, "Config inconsistent\\[.*" + difference.named)) << side.err;
    }
  }
}

TEST_F(PerftestFaults, OtherTestsDisagreeToo) {
  const uint16_t port = free_port();
  Tool server(perftest_program(), perftest_arguments("send_bw", port, {}));
  server.wait_for_line(kWaiting);
  const ToolResult client =
      run_tool(perftest_program(), perftest_arguments("send_lat", port, {"-S", "127.0.0.1"}));
  EXPECT_EQ(client.status, 1);
  EXPECT_EQ(server.wait(), 1);
  for (const std::string& err : {client.err, server.err()}) {
    EXPECT_TRUE(has_line(err, "Config inconsistent\\[cmd")) << err;
  }
}

TEST_F(PerftestFaults, UnknownDeviceListsTheDevices) {
  for (const Arguments& more : {Arguments{"--loopback"}, Arguments{}}) {
    Arguments arguments = {"send_lat", "-d", "no_such_device", "-P", std::to_string(free_port())};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ToolResult result = run_tool(perftest_program(), arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_TRUE(has_line(result.err, "no_such_device.*urma_shm0")) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  }
}

TEST_F(PerftestFaults, MissingServerIsReported) {
  const ToolResult result = run_tool(
      perftest_program(), perftest_arguments("send_lat", free_port(), {"-S", "127.0.0.1"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has_line(result.err, "^urma_perftest: .*127\\.0\\.0\\.1")) << result.err;
}

TEST_F(PerftestFaults, WaitingServerIsInterrupted) {
  Tool server(perftest_program(), perftest_arguments("send_lat", free_port(), {}));
  server.wait_for_line(kWaiting);
  server.signal(SIGINT);
  EXPECT_EQ(server.wait(), 130) << server.err();
}

TEST_F(PerftestFaults, InterruptedServerEndsBoth) {
  PerftestPair pair("write_bw", endless("write_bw"), {}, {}, on_terminal());
  wait_until_busy("write_bw", &pair);
  pair.server().signal(SIGINT);
  (void)pair.server().wait();
  (void)pair.client().wait();
}

}  // namespace
}  // namespace urma_test
