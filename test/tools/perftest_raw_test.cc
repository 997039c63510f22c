// SPDX-License-Identifier: MIT
//
// urma_perftest and a program that knows only the description of its exchange: every test.
// perftest_peer_test covers the options.

#include "test/tools/perftest_raw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

class PerftestRaw : public PerftestTest, public ::testing::WithParamInterface<bool> {
 protected:
  static RawRun run() {
    RawRun run;
    run.simplex = GetParam();
    return run;
  }

  static RawRun with_options(RawRun run) {
    run.options = {"-n", std::to_string(run.iters), "-s", std::to_string(run.size)};
    if (run.simplex) run.options.emplace_back("-b");
    return run;
  }

  static void serve(const std::string& test, const RawRun& run, const RawWork& work) {
    (void)serve_raw(test, with_options(run), work);
  }

  static void call(const std::string& test, const RawRun& run, const RawWork& work) {
    const ToolResult result = call_raw(test, with_options(run), work);
    EXPECT_EQ(parse_rows(result.out).size(), 1u) << result.out;
  }
};

void fill(RawSide& side, uint8_t value) {
  std::fill(side.memory().begin(), side.memory().end(), value);
}

// Posts every request of a test, and waits for each.
void post_each(RawSide& side, const std::function<urma_jfs_wr_t()>& request) {
  for (uint64_t i = 0; i < side.run().iters; ++i) side.post(request());
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
  side.post(send_request(side.target(), &here));
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

class PerftestRawBonded : public PerftestTest {
 protected:
  PerftestRawBonded() {
    if (const char* const chosen = std::getenv("URMA_DEVICE")) chosen_ = chosen;
    ::setenv("URMA_DEVICE", "bonding_dev_0", 1);
  }
  ~PerftestRawBonded() override {
    ::unsetenv("URMA_DEVICE");
    if (!chosen_.empty()) ::setenv("URMA_DEVICE", chosen_.c_str(), 1);
  }

 private:
  std::string chosen_;  // for the tests after this one
};

// The tool reads nothing behind a descriptor of a peer that promises data for the provider there.
TEST_F(PerftestRawBonded, PeersSendNoDataForTheProvider) {
  RawRun run;
  run.provider_data = true;
  run.options = {"-n", std::to_string(run.iters), "-s", std::to_string(run.size)};
  (void)serve_raw("write_bw", run,
                  [](RawSide& side) { bandwidth(side, "write_bw", [&] { write_all(side); }); });
}

INSTANTIATE_TEST_SUITE_P(Modes, PerftestRaw, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Simplex" : "Duplex"; });

}  // namespace
}  // namespace urma_test
