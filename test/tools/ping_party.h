// SPDX-License-Identifier: MIT
//
// A responder of a test, and the output of a ping.
#ifndef TEST_TOOLS_PING_PARTY_H_
#define TEST_TOOLS_PING_PARTY_H_

#include <optional>
#include <string>
#include <vector>

#include "test/tools/tool_process.h"

namespace urma_test {

inline std::string ping_program() { return program_path("URMA_PING"); }

// A responder that answers until its destruction.
class PingResponder {
 public:
  explicit PingResponder(const std::vector<std::string>& more = {})
      : tool_(ping_program(), with_listen(more)) {
    eid_ = tool_.wait_for_line("^URMA_PING responder at (\\S+), device \\S+, jetty 5$")[1];
  }

  Tool& tool() { return tool_; }
  const std::string& eid() const { return eid_; }

 private:
  static std::vector<std::string> with_listen(std::vector<std::string> more) {
    more.insert(more.begin(), "--listen");
    return more;
  }

  Tool tool_;
  std::string eid_;
};

struct PingSummary {
  unsigned transmitted;
  unsigned received;
  double loss;
  double time_ms;
  std::optional<std::vector<double>> rtt_ms;  // min, avg, max, mdev
};

// Parses the last lines of a ping; fails the test if they are missing.
PingSummary parse_summary(const std::string& out);

// Pings to the end.
ToolResult ping(std::vector<std::string> options, const std::string& eid);

// The same; every packet must be answered.
void expect_answers(const std::string& eid, unsigned count, const std::string& size = "4");

}  // namespace urma_test

#endif  // TEST_TOOLS_PING_PARTY_H_
