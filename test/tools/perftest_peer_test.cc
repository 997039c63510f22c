// SPDX-License-Identifier: MIT
//
// urma_perftest and a program that speaks its exchange as observed in UMDK's tool: the contents of
// the memory, and the effect of options.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tools/perftest_party.h"
#include "test/tools/perftest_raw.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

constexpr double kMegabyte = 1 << 20;
constexpr uint64_t kImmediate = 0x20230416;
constexpr uint8_t kUntouched = 0x5A;

// Waits until the other side has written something.
void await(const std::function<bool()>& written) {
  const auto deadline = Clock::now() + patience(seconds(20));
  while (!written()) {
    if (Clock::now() > deadline) throw std::runtime_error("the other side wrote nothing");
    std::this_thread::yield();
  }
}

// The tool as server and as client, in both modes.
class PerftestPeer : public PerftestTest, public ::testing::WithParamInterface<bool> {
 protected:
  static RawRun run(const Arguments& options, uint64_t iters = 20) {
    RawRun run;
    run.simplex = GetParam();
    run.iters = iters;
    run.options = options;
    if (run.simplex) run.options.emplace_back("-b");
    return run;
  }
  static RawRun sized(const Arguments& options) {
    RawRun sized = run(options);
    sized.options.insert(sized.options.end(), {"-n", "20", "-s", "64"});
    return sized;
  }
  static RawRun sending(RawRun run) {
    run.order = 12;
    return run;
  }

  static void serve_and_call(const std::string& test, const RawRun& run, const RawWork& work) {
    (void)serve_raw(test, run, work);
    (void)call_raw(test, run, work);
  }
};

void receive_one(RawSide& side, uint32_t size) {
  const urma_cr_t record = wait_for(side.endpoint().receive_jfc);
  EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  if (side.run().immediate) return;
  EXPECT_EQ(record.completion_len, size);
}

// A message, or a WRITE_IMM to the address that the other side expects.
void send_one(RawSide& side, uint32_t size, uint32_t lane = 0) {
  urma_sge_t here = side.here(RawSide::kSlot * side.run().jettys, size);
  urma_sge_t there = side.there(RawSide::kSlot * lane, size);
  urma_target_jetty_t* const target = side.target(lane);
  side.post(side.run().immediate ? write_imm_request(target, &here, &there, kImmediate)
                                 : send_request(target, &here),
            lane);
}

void post_receives(RawSide& side) {
  for (uint64_t i = 0; i < side.run().iters; ++i) side.post_receive();
}

// One size of a latency test. The client begins.
void ping_pong(RawSide& side, uint32_t size) {
  post_receives(side);
  side.channel().sync_time("send_lat_post_recv");
  for (uint64_t i = 0; i < side.run().iters; ++i) {
    if (!side.run().server) send_one(side, size);
    receive_one(side, size);
    if (side.run().server) send_one(side, size);
  }
}

// One size of a bandwidth test.
void stream(RawSide& side, uint32_t size) {
  if (side.run().server) post_receives(side);
  side.channel().sync_time("send_bw_post_recv");
  for (uint64_t i = 0; i < side.run().iters; ++i) {
    side.run().server ? receive_one(side, size) : send_one(side, size);
  }
}

// --- write_lat -----------------------------------------------------------------------------------

// The last byte of a message shows that it has arrived.
uint8_t mark(uint64_t i) { return static_cast<uint8_t>(i + 1); }

void write_one(RawSide& side, uint64_t i) {
  const uint32_t size = side.run().size;
  side.memory()[RawSide::kSlot + size - 1] = mark(i);
  urma_sge_t here = side.here(RawSide::kSlot, size);
  urma_sge_t there = side.there(0, size);
  side.post(write_request(side.target(), &here, &there));
}

void write_in_turn(RawSide& side) {
  const uint32_t size = side.run().size;
  const volatile uint8_t* const last = side.memory().data() + size - 1;
  for (uint64_t i = 0; i < side.run().iters; ++i) {
    if (side.run().server) write_one(side, i);
    await([&] { return *last == mark(i); });
    if (!side.run().server) write_one(side, i);
  }
  // The other side sends from the area after the one for arrivals.
  urma_sge_t here = side.here(2 * RawSide::kSlot, size);
  urma_sge_t there = side.there(RawSide::kSlot, size);
  side.post(read_request(side.target(), &here, &there));
  EXPECT_EQ(side.memory()[2 * RawSide::kSlot + size - 1], mark(side.run().iters - 1));
}

TEST_P(PerftestPeer, ServerWritesFirst) {
  serve_and_call("write_lat", sized({}), write_in_turn);
  serve_and_call("write_lat", sized({"--seg_pre_jetty"}), write_in_turn);
}

// --- messages ------------------------------------------------------------------------------------

TEST_P(PerftestPeer, MessagesThatGoOneWayAreNotReported) {
  const RawRun run = sending(sized({}));
  const RawWork work = [](RawSide& side) { stream(side, side.run().size); };
  for (const ToolResult& result :
       {serve_raw("send_bw", run, work), call_raw("send_bw", run, work)}) {
    const auto rows = parse_rows(result.out);
    ASSERT_EQ(rows.size(), 1u) << result.out;
    EXPECT_EQ(rows[0][1], 20);
    EXPECT_GT(rows[0][4], 0) << "the server counts arrived bytes";
  }
}

TEST_P(PerftestPeer, MessagesThatGoBothWaysAreReported) {
  const RawWork work = [](RawSide& side) {
    post_receives(side);
    side.channel().sync_time("send_bw_post_recv");
    for (uint64_t i = 0; i < side.run().iters; ++i) send_one(side, side.run().size);
    for (uint64_t i = 0; i < side.run().iters; ++i) receive_one(side, side.run().size);
    const RawReport theirs =
        side.report({side.run().size, side.run().iters, 0, 1e6 * kMegabyte, 9});
    EXPECT_EQ(theirs.iterations, side.run().iters);
  };
  const RawRun run = sending(sized({"-B"}));
  for (const ToolResult& result :
       {serve_raw("send_bw", run, work), call_raw("send_bw", run, work)}) {
    const auto rows = parse_rows(result.out);
    ASSERT_EQ(rows.size(), 1u) << result.out;
    EXPECT_GE(rows[0][3], 1e6);
    EXPECT_GT(rows[0][4], 9) << "the sum";
  }
}

// Neither side knows the number: the next thing that the tool reports is its end.
TEST_P(PerftestPeer, MessagesOfADurationAreNotReported) {
  RawRun run = sending(PerftestPeer::run({"-B", "-D", "4", "-s", "64"}, 0));
  run.duration = 4;
  (void)call_raw("send_bw", run, [](RawSide& side) {
    for (int i = 0; i < 256; ++i) side.post_receive();
    side.channel().sync_time("send_bw_post_recv");
    send_one(side, side.run().size);
    urma_cr_t record;
    while (!side.channel().has_data()) {
      if (urma_poll_jfc(side.endpoint().receive_jfc, 1, &record) == 1) side.post_receive();
    }
  });
}

TEST_P(PerftestPeer, WriteWithImmediateFollowsTheMessageProtocol) {
  RawRun run = sized({"--enable_imm"});
  run.immediate = true;
  serve_and_call("write_lat", run, [](RawSide& side) { ping_pong(side, side.run().size); });
  serve_and_call("write_bw", run, [](RawSide& side) { stream(side, side.run().size); });
}

// --- sizes ---------------------------------------------------------------------------------------

TEST_P(PerftestPeer, QueuesAreRecreatedForEachSizeOfMessages) {
  RawRun run = PerftestPeer::run({"-a3", "-n", "20"});
  run.all = true;
  run.order = 3;
  const auto each_size = [](const std::function<void(RawSide&, uint32_t)>& one) {
    return [one](RawSide& side) {
      for (uint32_t bits = 1; bits <= side.run().order; ++bits) {
        if (bits > 1) side.renew_queues();
        one(side, 1u << bits);
      }
    };
  };
  serve_and_call("send_lat", run, each_size(ping_pong));
  serve_and_call("send_bw", run, each_size(stream));
}

TEST_P(PerftestPeer, QueuesStayForEachSizeOfReads) {
  RawRun run = PerftestPeer::run({"-a3", "-n", "20"});
  run.all = true;
  run.order = 3;
  (void)call_raw("read_bw", run, [](RawSide& side) {
    for (uint32_t bits = 1; bits <= side.run().order; ++bits) {
      side.channel().sync_time("before_read_bw");
      side.channel().sync_time("after_read_bw");
      EXPECT_EQ(side.report().size, 1u << bits);
    }
  });
}

// --- reports -------------------------------------------------------------------------------------

TEST_P(PerftestPeer, ReportsCarryBytesPerSecond) {
  (void)call_raw("read_bw", sized({}), [](RawSide& side) {
    side.channel().sync_time("before_read_bw");
    side.channel().sync_time("after_read_bw");
    const RawReport report = side.report();
    const double average = report.messages * 1e6 * side.run().size;
    EXPECT_NEAR(report.average, average, 0.01 * average);
    EXPECT_GE(report.peak, report.average * 0.99);
  });
  const ToolResult result = serve_raw("read_bw", sized({}), [](RawSide& side) {
    side.channel().sync_time("before_read_bw");
    side.channel().sync_time("after_read_bw");
    side.report({side.run().size, side.run().iters, 8 * kMegabyte, 4 * kMegabyte, 2});
  });
  EXPECT_EQ(parse_rows(result.out), (std::vector<std::vector<double>>{{64, 20, 8, 4, 2}}));
}

// --- until the user ends it ----------------------------------------------------------------------

RawRun endless(RawRun run) {
  run.iters = 50000;
  run.options.insert(run.options.end(), {"-y", "-s", "64"});
  return run;
}

void quit(RawSide& side) { side.channel().send("Q", 1); }

TEST_P(PerftestPeer, EndlessTestsSendIterationsInTheBlock) {
  serve_and_call("write_bw", endless(run({})), [](RawSide& side) {
    side.channel().sync_time("before_write_bw");
    quit(side);
    side.channel().sync_time("after_write_bw");
  });
  (void)serve_raw("send_bw", sending(endless(run({}))), [](RawSide& side) {
    side.channel().sync_time("run_send_bw_infinite");
    send_one(side, side.run().size);
    quit(side);
  });
}

// --- channels and credit -------------------------------------------------------------------------

TEST_P(PerftestPeer, SidesThatKnowTheirChannelsMeetAgain) {
  RawRun run = sized({"--tp_aware"});
  run.channels = true;
  serve_and_call("write_bw", run, [](RawSide& side) {
    side.channel().sync_time("before_write_bw");
    side.channel().sync_time("after_write_bw");
    side.report();
  });
}

// As a receiver the tool reports every 5 messages. As a sender it stops after 15.
void stream_with_credit(RawSide& side) {
  const uint32_t lanes = side.run().jettys, size = side.run().size;
  const uint64_t before = side.run().server ? 15 : 0;
  if (side.run().server) {
    for (uint32_t lane = 0; lane < lanes; ++lane) post_receives(side);
  }
  side.channel().sync_time("send_bw_post_recv");
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (uint64_t i = 0; i < 20 && !side.run().server; ++i) send_one(side, size, lane);
    for (uint64_t i = 0; i < before; ++i) receive_one(side, size);
  }
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (!side.run().server) {
      await([&] { return side.word(lane, 1) == 20; });
      continue;
    }
    auto* const taken = reinterpret_cast<uint64_t*>(side.memory().data() + RawSide::kSlot * 4);
    *taken = 15;
    urma_sge_t here = side.here(RawSide::kSlot * 4, sizeof(*taken));
    urma_sge_t there = side.remote_word(lane, 1);
    side.post(write_request(side.target(lane), &here, &there), lane);
    for (uint64_t i = before; i < 20; ++i) receive_one(side, size);
  }
}

TEST_P(PerftestPeer, CreditIsAWordOf64Bits) {
  RawRun run = sending(sized(
      {"--enable_credit", "-R", "20", "--credit_threshold", "15", "--credit_notify_cnt", "5"}));
  run.credit = true;
  serve_and_call("send_bw", run, stream_with_credit);
}

// --- several jettys ------------------------------------------------------------------------------

RawRun two_jettys(const Arguments& options) {
  RawRun run;
  run.jettys = 2;
  run.options = options;
  run.options.insert(run.options.end(), {"-J", "2", "-n", "20", "-s", "64"});
  return run;
}

// Messages for the second jetty are in the second slot, and nothing else is touched.
void expect_writes_in_slots(RawSide& side) {
  std::fill(side.memory().begin(), side.memory().end(), kUntouched);
  side.channel().sync_time("before_write_bw");
  side.channel().sync_time("after_write_bw");
  const uint32_t size = side.run().size;
  for (size_t i = 0; i < 4 * RawSide::kSlot && side.run().server; ++i) {
    const bool written = i / RawSide::kSlot < 2 && i % RawSide::kSlot < size;
    ASSERT_EQ(side.memory()[i], written ? 0 : kUntouched) << i;
  }
  side.report();
}

class PerftestPeers : public PerftestTest {};

TEST_F(PerftestPeers, SegmentsComeBeforeJettys) {
  (void)serve_raw("write_bw", two_jettys({}), expect_writes_in_slots);
  (void)call_raw("write_bw", two_jettys({}), expect_writes_in_slots);
}

TEST_F(PerftestPeers, EachHasAWordToBeNotified) {
  RawRun run = two_jettys({"--enable_notify"});
  run.notify = true;
  const RawWork work = [](RawSide& side) {
    side.channel().sync_time("before_write_bw");
    side.channel().sync_time("after_write_bw");
    for (uint32_t lane = 0; lane < 2 && side.run().server; ++lane) {
      EXPECT_EQ(side.word(lane, 0), kImmediate);
    }
    side.report();
  };
  (void)serve_raw("write_bw", run, work);
  (void)call_raw("write_bw", run, work);
}

TEST_F(PerftestPeers, EachHasAWordOfCredit) {
  RawRun run = two_jettys(
      {"--enable_credit", "-R", "40", "--credit_threshold", "15", "--credit_notify_cnt", "5"});
  run.credit = true;
  run.order = 12;
  (void)serve_raw("send_bw", run, stream_with_credit);
  (void)call_raw("send_bw", run, stream_with_credit);
}

INSTANTIATE_TEST_SUITE_P(Modes, PerftestPeer, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Simplex" : "Duplex"; });

}  // namespace
}  // namespace urma_test
