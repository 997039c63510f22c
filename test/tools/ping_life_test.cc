// SPDX-License-Identifier: MIT
//
// Responders that stop, end and come back, and their clients.

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tools/ping_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

class PingLife : public ToolTest {};

TEST_F(PingLife, ResponderEndsOnASignal) {
  for (const int number : {SIGINT, SIGTERM}) {
    PingResponder responder;
    expect_answers(responder.eid(), 3);
    responder.tool().signal(number);
    EXPECT_EQ(responder.tool().wait(), 0);
    EXPECT_TRUE(has_line(responder.tool().out(), "^3 packets answered, 0 not$"));
    EXPECT_EQ(responder.tool().err(), "");
  }
}

TEST_F(PingLife, ResponderPrintsJson) {
  std::string eid;
  { eid = PingResponder().eid(); }
  Tool responder(ping_program(), {"--listen", "--json"});
  // It prints nothing until its end, so the test asks whether it is there.
  while (ping({"-c", "1", "-q", "-W", "1"}, eid).status != 0) ASSERT_TRUE(responder.running());
  responder.signal(SIGINT);
  EXPECT_EQ(responder.wait(), 0);
  EXPECT_EQ(nlohmann::json::parse(responder.out()).at("answered"), 1);
}

TEST_F(PingLife, OneEidHasOneResponder) {
  const PingResponder responder;
  const ToolResult second = run_tool(ping_program(), {"--listen"});
  EXPECT_EQ(second.status, 1);
  EXPECT_TRUE(has_line(second.err, "^urma_ping: .*another process answers pings there already$"))
      << second.err;
  expect_answers(responder.eid(), 1);
}

TEST_F(PingLife, ManyClientsAtOnce) {
  const PingResponder responder;
  std::list<Tool> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(ping_program(),
                         std::vector<std::string>{"-c", "50", "-i", "0", "-W", "20", "-q", "-s",
                                                  std::to_string(1 + 800 * i), responder.eid()});
  }
  for (Tool& client : clients) {
    EXPECT_EQ(client.wait(), 0);
    EXPECT_EQ(parse_summary(client.out()).received, 50u) << client.out() << client.err();
  }
}

TEST_F(PingLife, MoreClientsThanTheResponderRemembers) {
  const PingResponder responder;
  run_one([&](Channel&) {
    urma_eid_t eid;
    ASSERT_EQ(urma_str_to_eid(responder.eid().c_str(), &eid), 0);
    for (int i = 0; i < 300; ++i) {
      std::vector<char> memory(128);
      OwnedEndpoint endpoint;
      urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
      endpoint.post_receive(segment, memory.data() + 64, 64);
      urma_target_jetty_t* target = endpoint.import(QueueId{eid, 5, kNoToken, true});
      urma_sge_t here = piece(segment, memory.data(), 8);
      endpoint.post(send_imm_request(target, &here, 77));
      EXPECT_EQ(wait_for(endpoint.send_jfc).status, URMA_CR_SUCCESS);
      EXPECT_EQ(wait_for(endpoint.receive_jfc).imm_data, 77u);
    }
  });
  expect_answers(responder.eid(), 1);
}

TEST_F(PingLife, StoppedResponderTimesOut) {
  PingResponder responder;
  responder.tool().signal(SIGSTOP);
  const ToolResult result = ping({"-c", "2", "-i", "0", "-W", "0.1"}, responder.eid());
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has_line(result.out, "^Request timeout for seq=1$")) << result.out;
  EXPECT_TRUE(has_line(result.out, "^Request timeout for seq=2$")) << result.out;
  EXPECT_EQ(parse_summary(result.out).loss, 100);
  responder.tool().signal(SIGCONT);
  expect_answers(responder.eid(), 3);
}

TEST_F(PingLife, LossIsCounted) {
  PingResponder responder;
  Tool client(ping_program(), {"-i", "0.01", "-W", "0.2", responder.eid()});
  client.wait_for_line(" seq=2 time=");
  responder.tool().signal(SIGSTOP);
  client.wait_for_line("^Request timeout for seq=");
  client.wait_for_line("^Request timeout for seq=");
  responder.tool().signal(SIGCONT);
  client.wait_for_line(" time=");
  client.signal(SIGINT);
  EXPECT_EQ(client.wait(), 0);
  const PingSummary summary = parse_summary(client.out());
  EXPECT_LE(summary.received + 2, summary.transmitted);
  const double lost = summary.transmitted - summary.received;
  EXPECT_NEAR(summary.loss, 100 * lost / summary.transmitted, 0.051);
}

TEST_F(PingLife, ZeroTimeoutWaitsIndefinitely) {
  PingResponder responder;
  responder.tool().signal(SIGSTOP);
  Tool client(ping_program(), {"-c", "1", "-W", "0", responder.eid()});
  client.wait_for_line("^URMA_PING ");
  responder.tool().signal(SIGCONT);
  EXPECT_EQ(client.wait(), 0);
  EXPECT_EQ(parse_summary(client.out()).received, 1u);
}

TEST_F(PingLife, RestartedResponderIsFoundAgain) {
  auto responder = std::make_unique<PingResponder>();
  Tool client(ping_program(), {"-i", "0.01", "-W", "0.2", responder->eid()});
  for (int round = 0; round < 3; ++round) {
    client.wait_for_line("^4 bytes from ");
    responder->tool().signal(SIGKILL);
    responder->tool().wait();
    client.wait_for_line("^(From \\S+ seq=\\d+ cr_status=|Request timeout for seq=)");
    responder = std::make_unique<PingResponder>();
  }
  client.wait_for_line("^4 bytes from ");
  client.signal(SIGINT);
  EXPECT_EQ(client.wait(), 0);
}

TEST_F(PingLife, LateResponderIsFound) {
  std::string eid;
  { eid = PingResponder().eid(); }
  Tool client(ping_program(), {"-i", "0.01", "-W", "0.2", eid});
  client.wait_for_line("seq=2");
  const PingResponder responder;
  client.wait_for_line("^4 bytes from ");
}

// A ping stopped with Ctrl-Z must not hold up the replies to others.
TEST_F(PingLife, StoppedClientDelaysNoOther) {
  PingResponder responder;
  Tool stopped(ping_program(), {"-i", "0", "-q", responder.eid()});
  stopped.wait_for_line("^URMA_PING ");
  for (int round = 0; round < 10; ++round) {
    expect_answers(responder.eid(), 1);
    stopped.signal(SIGSTOP);
    expect_answers(responder.eid(), 40, "4096");
    stopped.signal(SIGCONT);
  }
  stopped.signal(SIGSTOP);
  responder.tool().signal(SIGTERM);
  EXPECT_EQ(responder.tool().wait(), 0);
}

TEST_F(PingLife, KilledClientsLeakNothing) {
  const PingResponder responder;
  for (int round = 0; round < 10; ++round) {
    Tool client(ping_program(), {"-i", "0", responder.eid()});
    client.wait_for_line(" seq=" + std::to_string(1 + round * 3) + " ");
  }
  expect_answers(responder.eid(), 300, "4096");
}

// A client that sends anything else gets no answer, and disturbs no one.
TEST_F(PingLife, OtherMessagesAreIgnored) {
  const PingResponder responder;
  run_one([&](Channel&) {
    urma_eid_t eid;
    ASSERT_EQ(urma_str_to_eid(responder.eid().c_str(), &eid), 0);
    std::vector<char> memory(8192);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* target = endpoint.import(QueueId{eid, 5, kNoToken, true});
    urma_sge_t small = piece(segment, memory.data(), 8);
    urma_sge_t large = piece(segment, memory.data(), 5000);
    for (int i = 0; i < 300; ++i) {
      // Too large for its receives; without a number; and three that no one waits for.
      endpoint.post(send_imm_request(target, &large, 1));
      (void)wait_for(endpoint.send_jfc);
      endpoint.post(send_request(target, &small));
      (void)wait_for(endpoint.send_jfc);
      endpoint.post(send_imm_request(target, &small, ~uint64_t{0}));
      (void)wait_for(endpoint.send_jfc);
    }
    EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
  });
  expect_answers(responder.eid(), 300);
}

}  // namespace
}  // namespace urma_test
