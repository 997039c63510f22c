// SPDX-License-Identifier: MIT
//
// Runs the tools as a user does: started by name, with arguments and an environment, and judged by
// what they print and how they end. Nothing here waits without a deadline; what a wait was for and
// what the tool has printed is in the exception that ends it.
#ifndef TEST_TOOLS_TOOL_PROCESS_H_
#define TEST_TOOLS_TOOL_PROCESS_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "test/process/harness.h"

namespace urma_test {

// The path of a program among the `data` of a test, whose BUILD file gives it in an environment
// variable: env = {"URMA_PING": "$(rootpath //tools/ping:urma_ping)"}.
std::string program_path(const char* variable);

struct ToolOptions {
  // "NAME=value" sets a variable beside those that the test itself has, "NAME" removes it.
  std::vector<std::string> environment;
  bool terminal = false;  // stdout is a terminal
};

// A running tool, killed with all that it has started when the object ends. All tools of a test
// belong to one thread: a wait for one reads what the others print, so that none of them blocks.
class Tool {
 public:
  enum Stream { kOut, kErr };

  Tool(const std::string& program, const std::vector<std::string>& arguments,
       const ToolOptions& options = {});
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  ~Tool();

  // Waits for a complete line in which the regular expression (ECMAScript) is found, behind the
  // line that the last call for this stream has found. Gives the line, then what its groups took.
  std::vector<std::string> wait_for_line(const std::string& pattern, Stream stream = kOut,
                                         milliseconds limit = seconds(20));
  // Waits for the end, and gives the exit status, or 128 and the signal as a shell does.
  int wait(milliseconds limit = seconds(40));
  // Reads what was printed up to now; whether the tool has not ended.
  bool running();

  void signal(int number);  // SIGSTOP: returns when all of its threads stand still
  pid_t pid() const { return pid_; }
  // All that was printed, as far as a wait has read it: everything after wait().
  const std::string& out() const { return streams_[kOut].text; }
  const std::string& err() const { return streams_[kErr].text; }

 private:
  struct Captured {
    int fd = -1;
    std::string text;
    size_t searched = 0;
  };

  [[noreturn]] void start(const std::string& program, const std::vector<std::string>& arguments,
                          const ToolOptions& options, const int (&ends)[2], pid_t parent);
  bool step(Clock::time_point deadline);
  void read(Captured& captured);
  void note_end();
  [[noreturn]] void give_up(const std::string& why) const;

  std::string command_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  bool ended_ = false;
  int status_ = 0;
  Captured streams_[2];
};

// How a tool that ran to its end has ended, and what it has printed.
struct ToolResult {
  int status;
  std::string out;
  std::string err;
};
ToolResult run_tool(const std::string& program, const std::vector<std::string>& arguments,
                    const ToolOptions& options = {}, milliseconds limit = seconds(40));

// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);
// Whether the regular expression is found in one line of the text.
bool has_line(const std::string& text, const std::string& pattern);

// A TCP port, the first of `count` in a row, on which nobody listens. No other call of this
// function gives it, in any process, until the calling process ends.
uint16_t free_port(uint16_t count = 1);

// A test of tools: URMA_RUNTIME_DIR names a directory of its own, also for the tools.
using ToolTest = ProcessTest;

}  // namespace urma_test

#endif  // TEST_TOOLS_TOOL_PROCESS_H_
