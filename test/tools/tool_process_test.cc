// SPDX-License-Identifier: MIT
#include "test/tools/tool_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace urma_test {
namespace {

const std::string kShell = "/bin/sh";

std::vector<std::string> script(const std::string& text) { return {"-c", text}; }

class ToolProcess : public ToolTest {};

TEST_F(ToolProcess, StreamsAndStatusAreSeparate) {
  const ToolResult result = run_tool(kShell, script("echo one; echo two >&2; exit 3"));
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.out, "one\n");
  EXPECT_EQ(result.err, "two\n");
}

TEST_F(ToolProcess, ArgumentsAndEnvironmentArrive) {
  ToolOptions options;
  options.environment = {"TOOL_TEST=a b", "HOME"};
  const ToolResult result =
      run_tool(kShell, {"-c", "echo \"$0|$1|$TOOL_TEST|${HOME-none}\"", "x y", ""}, options);
  EXPECT_EQ(result.out, "x y||a b|none\n");
}

TEST_F(ToolProcess, RuntimeDirectoryIsPrivate) {
  const ToolResult result = run_tool(kShell, script("stat -c %a \"$URMA_RUNTIME_DIR\""));
  EXPECT_EQ(result.out, "700\n");
}

TEST_F(ToolProcess, LinesAreFoundInOrder) {
  Tool tool(kShell, script("echo port 5; echo port 6; echo done >&2; exec sleep 100"));
  EXPECT_EQ(tool.wait_for_line("port ([0-9]+)"), (std::vector<std::string>{"port 5", "5"}));
  EXPECT_EQ(tool.wait_for_line("port ([0-9]+)")[1], "6");
  EXPECT_EQ(tool.wait_for_line("^done$", Tool::kErr)[0], "done");
  EXPECT_TRUE(tool.running());
  tool.signal(SIGTERM);
  EXPECT_EQ(tool.wait(), 128 + SIGTERM);
}

TEST_F(ToolProcess, MissingLinesAreReported) {
  Tool tool(kShell, script("echo this only"));
  EXPECT_THROW(tool.wait_for_line("another"), std::runtime_error);
  Tool silent(kShell, script("exec sleep 100"));
  EXPECT_THROW(silent.wait_for_line("any", Tool::kOut, milliseconds(1)), std::runtime_error);
  EXPECT_THROW(silent.wait(milliseconds(1)), std::runtime_error);
}

TEST_F(ToolProcess, AToolThatPrintsMuchDoesNotBlockAnother) {
  Tool talker(kShell, script("head -c 1000000 /dev/zero; echo; exit 4"));
  EXPECT_EQ(run_tool(kShell, script("exit 0")).status, 0);
  EXPECT_EQ(talker.wait(), 4);
  EXPECT_EQ(talker.out().size(), 1000001u);
}

TEST_F(ToolProcess, EverythingEndsWithTheObject) {
  pid_t started;
  {
    Tool tool(kShell, script("sleep 100 & echo $!; wait"));
    started = std::stoi(tool.wait_for_line("^[0-9]+$")[0]);
    EXPECT_EQ(::kill(started, 0), 0);
  }
  // It belongs to another parent by now, so it may stay a zombie for a while.
  const std::string state = "awk '/^State/ {print $2}' /proc/" + std::to_string(started) +
                            "/status 2>/dev/null | grep -v Z; true";
  const auto deadline = Clock::now() + patience(seconds(10));
  while (!run_tool(kShell, script(state)).out.empty() && Clock::now() < deadline) {
  }
  EXPECT_EQ(run_tool(kShell, script(state)).out, "");
}

TEST_F(ToolProcess, StdoutCanBeATerminal) {
  const std::string ask = "test -t 1 && echo yes || echo no; test -t 2 && echo yes >&2; true";
  EXPECT_EQ(run_tool(kShell, script(ask)).out, "no\n");
  ToolOptions options;
  options.terminal = true;
  const ToolResult result = run_tool(kShell, script(ask), options);
  EXPECT_EQ(result.out, "yes\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(ToolProcess, PartsOfATerminalLineAreLines) {
  ToolOptions options;
  options.terminal = true;
  Tool tool(kShell, script("printf '10 percent\\r'; exec sleep 100"), options);
  EXPECT_EQ(tool.wait_for_line("([0-9]+) percent")[1], "10");
}

TEST_F(ToolProcess, MissingProgramsAreReported) {
  const ToolResult result = run_tool("/nowhere/tool", {});
  EXPECT_EQ(result.status, 127);
  EXPECT_TRUE(has_line(result.err, "No such file"));
}

TEST_F(ToolProcess, PortsAreNeverGivenTwice) {
  const uint16_t first = free_port(3);
  for (int i = 0; i < 20; ++i) {
    const uint16_t other = free_port();
    EXPECT_TRUE(other < first || other >= first + 3);
  }
}

TEST_F(ToolProcess, LinesOfAText) {
  EXPECT_EQ(lines_of("a\n\nb"), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(lines_of(""), std::vector<std::string>());
}

}  // namespace
}  // namespace urma_test
