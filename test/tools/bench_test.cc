// SPDX-License-Identifier: MIT
//
// urma_bench: that it measures, whatever the figures are.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

using BenchTest = ToolTest;

// With a comparison that is no measurement it would not list any.
TEST_F(BenchTest, EachMeasurementIsComparedWithAnother) {
  const ToolResult list = run_tool(program_path("URMA_BENCH"), {"--list"});
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_TRUE(has_line(list.out, "^bond send latency, far$")) << list.out;
}

TEST_F(BenchTest, TheBondedDeviceIsMeasuredBesideItsMembers) {
  const ToolResult table =
      run_tool(program_path("URMA_BENCH"), {"--rounds", "1", "bond send latency"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_TRUE(has_line(table.out, "bond: send 8 B  .* send latency, RM .*")) << table.out;
  EXPECT_TRUE(has_line(table.out, "bond: send 8 B, far .* net send latency .*")) << table.out;
}

// Says of each queue which kind it is.
ToolResult watch_queues(const std::vector<std::string>& arguments) {
  const std::string library = std::filesystem::absolute(program_path("QUEUE_KINDS"));
  return run_tool(program_path("URMA_BENCH"), arguments, {{"LD_PRELOAD=" + library}});
}

TEST_F(BenchTest, FiguresAreThoseOfOrdinaryQueues) {
  for (const char* const some : {"latency, R", "compare-and-swap", "send rate", "write rate",
                                 "send bandwidth, 64 KiB", "event round trip", "scale"}) {
    const ToolResult table = watch_queues({"--rounds", "1", "--ordinary", some});
    EXPECT_EQ(table.status, 0) << table.err;
    EXPECT_TRUE(has_line(table.err, "^queue: ordinary$")) << some << "\n" << table.err;
    EXPECT_FALSE(has_line(table.err, "^queue: lock_free$")) << some << "\n" << table.out;
  }
}

TEST_F(BenchTest, LockFreeQueuesHaveAColumn) {
  const ToolResult table = watch_queues({"--rounds", "1", "send rate, chains"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_TRUE(has_line(table.err, "^queue: ordinary$")) << table.err;
  EXPECT_TRUE(has_line(table.err, "^queue: lock_free$")) << table.err;
  EXPECT_TRUE(has_line(table.out, "^. figure +. ours +. lock_free ")) << table.out;
  EXPECT_TRUE(
      has_line(table.out, "messages of 8 B, chains of 16 . .* M/s +. .* M/s +. .* ring rate"))
      << table.out;
}

}  // namespace
}  // namespace urma_test
