// SPDX-License-Identifier: MIT
//
// A responder of a test, and what a ping has printed.
#ifndef TEST_TOOLS_PING_PARTY_H_
#define TEST_TOOLS_PING_PARTY_H_

#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "test/tools/tool_process.h"

namespace urma_test {

inline std::string ping_program() { return program_path("URMA_PING"); }

// A responder that answers, until the object ends.
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

// Reads the last lines of a ping; fails the test where they are not there.
inline PingSummary parse_summary(const std::string& out) {
  const std::regex counts(
      "\n--- ping statistics ---\n(\\d+) packets transmitted, (\\d+) received, (\\d+\\.\\d)% "
      "packet loss, time (\\d+)ms\n"
      "(rtt min/avg/max/mdev = ([\\d.]+)/([\\d.]+)/([\\d.]+)/([\\d.]+) ms\n)?$");
  std::smatch match;
  PingSummary summary = {};
  if (!std::regex_search(out, match, counts)) {
    ADD_FAILURE() << "no summary in " << out;
    return summary;
  }
  summary.transmitted = static_cast<unsigned>(std::stoul(match[1]));
  summary.received = static_cast<unsigned>(std::stoul(match[2]));
  summary.loss = std::stod(match[3]);
  summary.time_ms = std::stod(match[4]);
  if (match[5].matched) {
    summary.rtt_ms.emplace();
    for (size_t i = 6; i < 10; ++i) summary.rtt_ms->push_back(std::stod(match[i]));
  }
  return summary;
}

// Pings to the end.
inline ToolResult ping(std::vector<std::string> options, const std::string& eid) {
  options.push_back(eid);
  return run_tool(ping_program(), options);
}

// The same, and every packet has to be answered.
inline void expect_answers(const std::string& eid, unsigned count, const std::string& size = "4") {
  const ToolResult result =
      ping({"-c", std::to_string(count), "-i", "0", "-W", "20", "-q", "-s", size}, eid);
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(parse_summary(result.out).received, count) << result.out << result.err;
}

}  // namespace urma_test

#endif  // TEST_TOOLS_PING_PARTY_H_
