// SPDX-License-Identifier: MIT
//
// Programs under valgrind's memcheck: they run to their end, and it finds nothing wrong in them or
// in the library.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "test/process/callgrind.h"
#include "test/process/harness.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

constexpr char kFoundErrors[] = "--error-exitcode=99";

class MemcheckTest : public ProcessTest, public testing::WithParamInterface<const char*> {};

TEST_P(MemcheckTest, FindsNoErrorInBothSidesOfAnExample) {
  const std::string valgrind = find_valgrind();
  if (valgrind.empty()) GTEST_SKIP() << "valgrind is not installed; run ./dev setup";
  const auto folder = std::filesystem::path(::getenv("EXAMPLE")).parent_path();
  const std::string program = folder / GetParam();
  Tool server(valgrind, {"-q", "--fair-sched=try", kFoundErrors, program, "server", "0"});
  const std::string port =
      server.wait_for_line("^listening on port ([0-9]+)$", Tool::kOut, seconds(40))[1];
  Tool client(valgrind,
              {"-q", "--fair-sched=try", kFoundErrors, program, "client", "127.0.0.1", port});
  EXPECT_EQ(client.wait(seconds(120)), 0) << client.out() << client.err();
  EXPECT_EQ(server.wait(), 0) << server.out() << server.err();
}

INSTANTIATE_TEST_SUITE_P(Examples, MemcheckTest, testing::Values("segment", "send_recv_event"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace urma_test
