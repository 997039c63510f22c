// SPDX-License-Identifier: MIT
//
// The command line and the output of urma_ping.

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/tools/ping_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

class Ping : public ToolTest {};

TEST_F(Ping, PrintsALineForEachReply) {
  const PingResponder responder;
  const ToolResult result = ping({"-c", "3", "-i", "0", "-W", "20"}, responder.eid());
  EXPECT_EQ(result.status, 0);
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 7u) << result.out;
  EXPECT_EQ(lines[0], "URMA_PING " + responder.eid() + " 4 bytes of data.");
  for (size_t seq = 1; seq <= 3; ++seq) {
    const std::string pattern = "^4 bytes from " + responder.eid() +
                                ": seq=" + std::to_string(seq) + " time=\\d+\\.\\d{3} ms$";
    EXPECT_TRUE(has_line(lines[seq], pattern)) << lines[seq];
  }
  const PingSummary summary = parse_summary(result.out);
  EXPECT_EQ(summary.transmitted, 3u);
  EXPECT_EQ(summary.received, 3u);
  EXPECT_EQ(summary.loss, 0);
}

TEST_F(Ping, RoundTripsAreInOrder) {
  const PingResponder responder;
  const PingSummary summary =
      parse_summary(ping({"-c", "20", "-i", "0", "-W", "20"}, responder.eid()).out);
  ASSERT_TRUE(summary.rtt_ms);
  const std::vector<double>& rtt = *summary.rtt_ms;
  EXPECT_GT(rtt[0], 0);
  EXPECT_LE(rtt[0], rtt[1]);
  EXPECT_LE(rtt[1], rtt[2]);
  EXPECT_LE(rtt[3], rtt[2] - rtt[0] + 0.001);
}

class PingSize : public ToolTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(PingSize, IsSentBack) {
  const PingResponder responder;
  const std::string size = GetParam();
  const ToolResult result = ping({"-c", "2", "-i", "0", "-W", "20", "-s", size}, responder.eid());
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(has_line(result.out, "^URMA_PING \\S+ " + size + " bytes of data\\.$"));
  EXPECT_TRUE(has_line(result.out, "^" + size + " bytes from \\S+ seq=2 ")) << result.out;
}

INSTANTIATE_TEST_SUITE_P(All, PingSize, ::testing::Values("1", "4", "1000", "1001", "4096"));

TEST_F(Ping, QuietPrintsOnlyTheSummary) {
  const PingResponder responder;
  const ToolResult result = ping({"-c", "5", "-i", "0", "-W", "20", "-q"}, responder.eid());
  EXPECT_EQ(lines_of(result.out).size(), 4u) << result.out;
  EXPECT_EQ(parse_summary(result.out).received, 5u);
}

TEST_F(Ping, VerbosePrintsThePath) {
  const PingResponder responder;
  const ToolResult result = ping({"-c", "1", "-W", "20", "-v"}, responder.eid());
  EXPECT_TRUE(has_line(result.out, "^from \\S+, device \\S+, priority \\d+, CTP$")) << result.out;
}

TEST_F(Ping, DeadlineEndsIt) {
  const PingResponder responder;
  const ToolResult result = ping({"-w", "0.3", "-i", "0.01", "-q"}, responder.eid());
  EXPECT_EQ(result.status, 0);
  const PingSummary summary = parse_summary(result.out);
  EXPECT_GE(summary.time_ms, 300);
  EXPECT_GE(summary.transmitted, 1u);
}

TEST_F(Ping, WaitsForTheInterval) {
  const PingResponder responder;
  const ToolResult result = ping({"-c", "3", "-i", "0.1", "-W", "20"}, responder.eid());
  EXPECT_GE(parse_summary(result.out).time_ms, 200);
}

TEST_F(Ping, SignalsEndItWithASummary) {
  PingResponder responder;
  for (const int number : {SIGINT, SIGTERM}) {
    Tool tool(ping_program(), {"-i", "0.01", responder.eid()});
    tool.wait_for_line(" seq=3 ");
    tool.signal(number);
    EXPECT_EQ(tool.wait(), 0);
    EXPECT_GE(parse_summary(tool.out()).received, 3u);
  }
}

TEST_F(Ping, SignalEndsALongSleep) {
  const PingResponder responder;
  Tool tool(ping_program(), {"-i", "1000", responder.eid()});
  tool.wait_for_line(" seq=1 ");
  tool.signal(SIGINT);
  EXPECT_EQ(tool.wait(), 0);
  EXPECT_EQ(parse_summary(tool.out()).transmitted, 1u);
}

TEST_F(Ping, NoResponderReplies) {
  const ToolResult result = ping({"-c", "2", "-i", "0", "-W", "0.1"}, "192.0.2.1");
  EXPECT_EQ(result.status, 1);
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 5u) << result.out;
  for (const size_t seq : {1, 2}) {
    const std::string number = std::to_string(seq);
    EXPECT_TRUE(has_line(lines[seq], "^(Request timeout for seq=" + number + "|From \\S+ seq=" +
                                         number + " cr_status=\\d+ \\([a-z ]+\\))$"))
        << lines[seq];
  }
  const PingSummary summary = parse_summary(result.out);
  EXPECT_EQ(summary.received, 0u);
  EXPECT_EQ(summary.loss, 100);
  EXPECT_FALSE(summary.rtt_ms);
}

TEST_F(Ping, InterruptWithoutRepliesIsNotAFailure) {
  Tool tool(ping_program(), {"-i", "0.01", "-W", "0.01", "192.0.2.1"});
  tool.wait_for_line("seq=2");
  tool.signal(SIGINT);
  EXPECT_EQ(tool.wait(), 0);
  EXPECT_EQ(parse_summary(tool.out()).received, 0u);
}

TEST_F(Ping, JsonIsTheOnlyOutput) {
  const PingResponder responder;
  const ToolResult result =
      ping({"--json", "-v", "-c", "4", "-i", "0", "-W", "20", "-s", "64"}, responder.eid());
  EXPECT_EQ(result.status, 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("destination"), responder.eid());
  EXPECT_EQ(json.at("bytes"), 64);
  EXPECT_EQ(json.at("transmitted"), 4);
  EXPECT_EQ(json.at("received"), 4);
  EXPECT_EQ(json.at("loss_percent"), 0.0);
  EXPECT_EQ(json.at("timeouts"), 0);
  EXPECT_LE(json.at("rtt_ms").at("min"), json.at("rtt_ms").at("max"));
  const ToolResult nobody = ping({"--json", "-c", "1", "-q", "-W", "0.1"}, "192.0.2.1");
  EXPECT_EQ(nobody.status, 1);
  EXPECT_TRUE(nlohmann::json::parse(nobody.out).at("rtt_ms").is_null());
}

TEST_F(Ping, LocalEidIsChosen) {
  std::string first, second;
  {
    PingResponder both;
    first = both.eid();
    second = both.tool().wait_for_line("responder at (\\S+),")[1];
  }
  const PingResponder responder({"-I", second});
  EXPECT_EQ(responder.eid(), second);
  const ToolResult result = ping({"-c", "1", "-v", "-W", "20", "-I", first}, second);
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(has_line(result.out, "^from " + first + ", ")) << result.out;
  EXPECT_EQ(ping({"-c", "1", "-W", "0.1"}, first).status, 1);
}

// Without -I: hosts and devices whose EIDs begin alike reach each other.
TEST_F(Ping, LocalEidIsLikeTheDestination) {
  PingResponder both;
  const std::string first = both.eid();
  const std::string second = both.tool().wait_for_line("responder at (\\S+),")[1];
  for (const std::string& local : {first, second}) {
    std::string near = local;
    near.back() = near.back() == '0' ? '1' : '0';
    const ToolResult result = ping({"-c", "1", "-v", "-W", "0.1"}, near);
    EXPECT_TRUE(has_line(result.out, "^from " + local + ", ")) << result.out;
  }
}

TEST_F(Ping, HelpAndVersion) {
  for (const char* option : {"-h", "--help"}) {
    const ToolResult result = run_tool(ping_program(), {option});
    EXPECT_EQ(result.status, 0);
    for (const char* text :
         {"-c N", "-I EID", "-i SEC", "-s BYTES", "-w SEC", "-W SEC", "--listen"}) {
      EXPECT_TRUE(has_line(result.out, text)) << text;
    }
  }
  for (const char* option : {"-V", "--version"}) {
    const ToolResult result = run_tool(ping_program(), {option});
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(has_line(result.out, "^urma_ping version 0\\.0\\.1$"));
    EXPECT_TRUE(has_line(result.out, "^liburma [0-9]+\\.[0-9]+\\.[0-9]+$"));
  }
}

struct WrongInput {
  std::vector<std::string> arguments;
  std::string named;  // what the line must contain
};

const std::vector<WrongInput> kWrongInputs = {
    {{}, "no destination"},
    {{""}, "not zero"},
    {{"0"}, "destination 0"},
    {{"::"}, "not zero"},
    {{"0.0.0.0"}, "not zero"},
    {{"host"}, "destination host"},
    {{"300.1.1.1"}, "dotted IPv4"},
    {{"4294967296"}, "32 bits"},
    {{"5x"}, "32 bits"},
    {{"5", "6"}, "6"},
    {{"-c", "0", "5"}, "-c 0: a count of 1 to 4294967295"},
    {{"-c", "4294967296", "5"}, "1 to 4294967295"},
    {{"-c", "-1", "5"}, "-c -1"},
    {{"-c", "x", "5"}, "-c x"},
    {{"-c", "", "5"}, "-c "},
    {{"-c", "1\n2", "5"}, "-c 1 2: a count"},
    {{"5", "-c"}, "-c"},
    {{"-s", "0", "5"}, "-s 0: a size of 1 to 4096"},
    {{"-s", "4097", "5"}, "-s 4097"},
    {{"-i", "-1", "5"}, "-i -1"},
    {{"-i", "nan", "5"}, "-i nan"},
    {{"-w", "1e99", "5"}, "-w 1e99"},
    {{"-W", "soon", "5"}, "-W soon"},
    {{"-I", "0", "5"}, "-I 0"},
    {{"-I", "192.0.2.9", "5"}, "no device has this EID; there are "},
    {{"--bogus", "5"}, "--bogus"},
    {{"-x", "5"}, "-x"},
    {{"--listen", "5"}, "--listen with destination"},
    {{"--listen", "-c", "3"}, "--listen with -c"},
    {{"--listen", "-W", "3"}, "--listen with -W"},
};

TEST_F(Ping, OutputCannotBeWritten) {
  for (const char* words : {" --help", " --version"}) {
    const ToolResult result = run_tool("/bin/sh", {"-c", ping_program() + words + " >/dev/full"});
    EXPECT_EQ(result.status, 1) << words;
    EXPECT_EQ(result.err, "urma_ping: cannot write to stdout\n") << words;
  }
}

TEST_F(Ping, WrongInputPrintsOneLineAndExitsWith2) {
  for (const WrongInput& wrong : kWrongInputs) {
    const ToolResult result = run_tool(ping_program(), wrong.arguments);
    SCOPED_TRACE(result.err);
    EXPECT_EQ(result.status, 2) << wrong.named;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(lines_of(result.err).size(), 1u);
    EXPECT_NE(result.err.find(wrong.named), std::string::npos) << wrong.named;
    EXPECT_TRUE(has_line(result.err, "^urma_ping: .*; for example: urma_ping "));
  }
}

}  // namespace
}  // namespace urma_test
