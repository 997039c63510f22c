// SPDX-License-Identifier: MIT
//
// Runs the tools like a user: started by name, with arguments and an environment, and judged by
// their output and exit status. Every wait has a deadline; the exception on timeout shows what it
// waited for and what the tool has printed.
#ifndef TEST_TOOLS_TOOL_PROCESS_H_
#define TEST_TOOLS_TOOL_PROCESS_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "test/process/harness.h"

namespace urma_test {

// The path of a program among the `data` of a test, whose BUILD file passes it in an environment
// variable: env = {"URMA_PING": "$(rootpath //tools/ping:urma_ping)"}.
std::string program_path(const char* variable);

struct ToolOptions {
  // "NAME=value" sets a variable in addition to those of the test, "NAME" removes it.
  std::vector<std::string> environment;
  bool terminal = false;  // stdout is a terminal
};

// A running tool; the destructor kills it with everything that it has started. All tools of a test
// belong to one thread: a wait for one reads the output of the others, so that none of them blocks.
class Tool {
 public:
  enum Stream { kOut, kErr };

  Tool(const std::string& program, const std::vector<std::string>& arguments,
       const ToolOptions& options = {});
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  ~Tool();

  // Waits for a complete line that matches the regular expression (ECMAScript), after the last
  // match in this stream. Returns the line, then its groups.
  std::vector<std::string> wait_for_line(const std::string& pattern, Stream stream = kOut,
                                         milliseconds limit = seconds(20));
  // Waits for the end, and returns the exit status, or 128 plus the signal like a shell.
  int wait(milliseconds limit = seconds(40));
  // Reads the output up to now; returns whether the tool is still running.
  bool running();

  void signal(int number);  // SIGSTOP: returns when all of its threads have stopped
  pid_t pid() const { return pid_; }
  // The output that waits have read so far: all of it after wait().
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

// The exit status of a tool that ran to its end, and its output.
struct ToolResult {
  int status;
  std::string out;
  std::string err;
};
ToolResult run_tool(const std::string& program, const std::vector<std::string>& arguments,
                    const ToolOptions& options = {}, milliseconds limit = seconds(40));

// The lines of a text, without line ends.
std::vector<std::string> lines_of(const std::string& text);
// Whether the regular expression matches in one line of the text.
bool has_line(const std::string& text, const std::string& pattern);

// A free TCP port, the first of `count` in a row. No other call of this function returns it, in any
// process, until the calling process ends.
uint16_t free_port(uint16_t count = 1);

// A test of tools: URMA_RUNTIME_DIR names a private directory, also for the tools.
using ToolTest = ProcessTest;

}  // namespace urma_test

#endif  // TEST_TOOLS_TOOL_PROCESS_H_
