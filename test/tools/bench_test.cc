// SPDX-License-Identifier: MIT
//
// urma_bench: that it measures, whatever the figures are.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace urma_test
