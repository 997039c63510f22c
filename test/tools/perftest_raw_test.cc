// SPDX-License-Identifier: MIT
//
// urma_perftest and a program that knows only the description of its exchange.

#include "test/tools/perftest_raw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

// What the raw side does between "Start test" and "End test".
using Work = std::function<void(RawSide&)>;

std::vector<std::string> options(const RawRun& run) {
  std::vector<std::string> options = {"-n", std::to_string(run.iters), "-s",
                                      std::to_string(run.size)};
  if (run.simplex) options.emplace_back("-b");
  return options;
}

void work(RawChannel channel, const RawRun& run, const Work& work) {
  RawSide side(std::move(channel), run);
  side.introduce();
  work(side);
  side.end();
}

class PerftestRaw : public PerftestTest, public ::testing::WithParamInterface<bool> {
 protected:
  RawRun run() const {
    RawRun run;
    run.simplex = GetParam();
    return run;
  }

  // The tool as the server of a raw client.
  void serve(const std::string& test, const RawRun& run, const Work& body) {
    const uint16_t port = free_port();
    Tool server(perftest_program(), perftest_arguments(test, port, options(run)));
    server.wait_for_line(kWaiting);
    run_one([&](Channel&) { work(RawChannel::connect(port), run, body); });
    EXPECT_EQ(server.wait(), 0) << server.out() << server.err();
  }

  // The tool as the client of a raw server.
  void call(const std::string& test, RawRun run, const Work& body) {
    run.server = true;
    Child raw("server", [&](Channel& channel) {
      RawListener listener;
      channel.send(listener.port());
      work(listener.accept(), run, body);
    });
    const auto port = raw.channel().receive<uint16_t>();
    std::vector<std::string> arguments = perftest_arguments(test, port, options(run));
    arguments.insert(arguments.end(), {"-S", "127.0.0.1"});
    const ToolResult result = run_tool(perftest_program(), arguments);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_EQ(parse_rows(result.out).size(), 1u) << result.out;
    raw.expect_success();
  }
};

void fill(RawSide& side, uint8_t value) {
  std::fill(side.memory().begin(), side.memory().end(), value);
}

// Posts every request of a test, and waits for each.
void post_each(RawSide& side, const std::function<urma_jfs_wr_t()>& request) {
  for (uint64_t i = 0; i < side.run().iters; ++i) {
    side.endpoint().post(request());
    wait_for_success(side.endpoint().send_jfc, 0);
  }
}

void bandwidth(RawSide& side, const std::string& name, const std::function<void()>& body) {
  side.channel().sync_time("before_" + name);
  body();
  side.channel().sync_time("after_" + name);
  side.report();
}

void write_all(RawSide& side) {
  fill(side, 0x5A);
  urma_sge_t here = side.here(0, side.run().size);
  urma_sge_t there = side.there(0, side.run().size);
  post_each(side, [&] { return write_request(side.target(), &here, &there); });
}

void read_all(RawSide& side) {
  urma_sge_t here = side.here(0, side.run().size);
  urma_sge_t there = side.there(0, side.run().size);
  post_each(side, [&] { return read_request(side.target(), &here, &there); });
}

void swap_all(RawSide& side) {
  urma_sge_t old = side.here(0, 8);
  urma_sge_t there = side.there(0, 8);
  post_each(side, [&] { return cas_request(side.target(), &old, &there, 0, 0); });
}

void send_one(RawSide& side) {
  urma_sge_t here = side.here(0, side.run().size);
  side.endpoint().post(send_request(side.target(), &here));
  wait_for_success(side.endpoint().send_jfc, 0);
}

void receive_one(RawSide& side) {
  const urma_cr_t record = wait_for(side.endpoint().receive_jfc);
  EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  EXPECT_EQ(record.completion_len, side.run().size);
}

void ping_pong(RawSide& side) {
  for (uint64_t i = 0; i < side.run().iters; ++i) side.post_receive();
  side.channel().sync_time("send_lat_post_recv");
  for (uint64_t i = 0; i < side.run().iters; ++i) {
    if (!side.run().server) send_one(side);
    receive_one(side);
    if (side.run().server) send_one(side);
  }
}

void stream(RawSide& side) {
  if (side.run().server) {
    for (uint64_t i = 0; i < side.run().iters; ++i) side.post_receive();
  }
  side.channel().sync_time("send_bw_post_recv");
  for (uint64_t i = 0; i < side.run().iters; ++i) {
    if (side.run().server) {
      receive_one(side);
    } else {
      send_one(side);
    }
  }
  side.report();
}

RawRun sending(RawRun run) {
  run.order = 12;
  return run;
}

RawRun atomic(RawRun run) {
  run.size = 8;
  return run;
}

TEST_P(PerftestRaw, ClientWrites) {
  serve("write_bw", run(),
        [](RawSide& side) { bandwidth(side, "write_bw", [&] { write_all(side); }); });
}

TEST_P(PerftestRaw, ClientReads) {
  serve("read_bw", run(),
        [](RawSide& side) { bandwidth(side, "read_bw", [&] { read_all(side); }); });
  serve("read_lat", run(), read_all);
}

TEST_P(PerftestRaw, ClientSwaps) {
  serve("atomic_bw", atomic(run()),
        [](RawSide& side) { bandwidth(side, "atomic_bw", [&] { swap_all(side); }); });
  serve("atomic_lat", atomic(run()), swap_all);
}

TEST_P(PerftestRaw, ClientSends) {
  serve("send_bw", sending(run()), stream);
  serve("send_lat", sending(run()), ping_pong);
}

TEST_P(PerftestRaw, ServerIsWrittenTo) {
  call("write_bw", run(), [](RawSide& side) { bandwidth(side, "write_bw", [] {}); });
}

TEST_P(PerftestRaw, ServerIsRead) {
  call("read_bw", run(), [](RawSide& side) { bandwidth(side, "read_bw", [] {}); });
  call("read_lat", run(), [](RawSide&) {});
}

TEST_P(PerftestRaw, ServerIsSwapped) {
  call("atomic_bw", atomic(run()), [](RawSide& side) { bandwidth(side, "atomic_bw", [] {}); });
  call("atomic_lat", atomic(run()), [](RawSide&) {});
}

TEST_P(PerftestRaw, ServerReceives) {
  call("send_bw", sending(run()), stream);
  call("send_lat", sending(run()), ping_pong);
}

INSTANTIATE_TEST_SUITE_P(Modes, PerftestRaw, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Simplex" : "Duplex"; });

}  // namespace
}  // namespace urma_test
