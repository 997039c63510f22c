// SPDX-License-Identifier: MIT
#ifndef TOOLS_PERFTEST_REPORT_TEXT_H_
#define TOOLS_PERFTEST_REPORT_TEXT_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "tools/perftest/results.h"

namespace perftest {

// "1200 of 50000", overwritten in place; nothing if the stream is not a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(ReportStream& stream) : stream_(stream) {}
  void show(uint64_t done, uint64_t total);
  void clear();

 private:
  ReportStream& stream_;
  bool shown_ = false;
  // Shorter runs need none.
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

// The line of dashes.
std::string rule();

std::unique_ptr<Reporter> make_text_reporter(ReportStream& stream);
std::unique_ptr<Reporter> make_csv_reporter(ReportStream& stream);
std::unique_ptr<Reporter> make_json_reporter(ReportStream& stream);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_REPORT_TEXT_H_
