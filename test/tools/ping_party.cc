// SPDX-License-Identifier: MIT
#include "test/tools/ping_party.h"

#include <gtest/gtest.h>

#include <regex>

namespace urma_test {

PingSummary parse_summary(const std::string& out) {
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

ToolResult ping(std::vector<std::string> options, const std::string& eid) {
  options.push_back(eid);
  return run_tool(ping_program(), options);
}

void expect_answers(const std::string& eid, unsigned count, const std::string& size) {
  const ToolResult result =
      ping({"-c", std::to_string(count), "-i", "0", "-W", "20", "-q", "-s", size}, eid);
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(parse_summary(result.out).received, count) << result.out << result.err;
}

}  // namespace urma_test
