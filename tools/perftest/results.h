// SPDX-License-Identifier: MIT
//
// The results of a run, and their output. The engine fills Rows and hands them to a Reporter; the
// reporters (text, CSV, JSON) belong to the front end.
#ifndef TOOLS_PERFTEST_RESULTS_H_
#define TOOLS_PERFTEST_RESULTS_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/perftest/config.h"

namespace perftest {

struct LatencySummary {
  double min_us = 0;
  double max_us = 0;  // the value just past the trimmed range, as in UMDK's tool
  double median_us = 0;
  double avg_us = 0;
  double stdev_us = 0;
  std::vector<std::pair<double, double>> percentiles;  // percent, microseconds
};

// Summarizes the times between consecutive posts. `cycles` is sorted in place. `divisor` is 2 if a
// sample is a whole round trip and half of it is reported (write_lat, send_lat), else 1. The two
// largest only count for the maximum; fewer than three samples are used as they are.
LatencySummary summarize_latency(std::vector<uint64_t>& cycles, double cycles_per_us, int divisor,
                                 const std::vector<double>& percents);

struct Bandwidth {
  double peak_mbs = 0;  // 2^20 bytes per second; 0: not measured
  double avg_mbs = 0;
  double msg_rate_mpps = 0;  // 10^6 messages per second
};

// One line of the report.
struct Row {
  uint32_t size = 0;
  uint64_t iterations = 0;  // of all jettys together
  LatencySummary latency;   // tests of latency that end by iterations
  double pps = 0;           // tests of latency with -D: round trips per second; latency.avg_us too
  Bandwidth bandwidth;      // tests of bandwidth
  bool partial = false;     // cut short by Ctrl-C
  std::vector<Row> jettys;  // --enable_sync_stream: one for each; the row itself is the total
};

struct Outcome {
  bool partial = false;   // Ctrl-C came
  bool verified = false;  // --verify, and every byte was right
};

// Prints a run. main.cc makes it and calls end(); the engine calls the others, from one thread.
class Reporter {
 public:
  virtual ~Reporter() = default;

  // Once, when both sides are connected and the queues exist. `transport`: "UB", "IB", "IP", ...
  virtual void begin(const Config& config, const std::string& transport) = 0;

  // For each size (each period with -y) once its figures are final. The unidirectional server of a
  // bandwidth test reports the client's figures.
  virtual void row(const Config& config, const Row& row) = 0;

  // Reports the progress of a long run. The engine may call it between batches at any rate, but on
  // the measured path at most once per 1000 messages or so: it prints at most twice a second, and
  // only if stdout is a terminal. `total` is 0 if unknown.
  virtual void progress(uint64_t done, uint64_t total) = 0;

  // Once, after run_test has returned.
  virtual void end(const Outcome& outcome) = 0;
};

// The output of all runs of a process.
class ReportStream {
 public:
  // `list`: there are several runs, and the JSON documents form an array.
  ReportStream(FILE* out, bool terminal, bool list) : out_(out), terminal_(terminal), list_(list) {}

  FILE* out() const { return out_; }
  bool terminal() const { return terminal_; }

  // Prints a line at once. Throws RunError if it cannot be written.
  void put(const std::string& line);

  // Whether to print this CSV header: not twice in a row.
  bool is_new_header(const std::string& header);

  void put_document(const std::string& json);

  // Closes the array, if there is one. Throws RunError if anything could not be written.
  void close();

 private:
  void flush();

  FILE* out_;
  bool terminal_;
  bool list_;
  size_t documents_ = 0;
  std::string header_;
};

// In the format that `config` names. `stream` must outlive it.
std::unique_ptr<Reporter> make_reporter(const Config& config, ReportStream& stream);

// Prints nothing: for the server side of --loopback.
std::unique_ptr<Reporter> make_silent_reporter();

}  // namespace perftest

#endif  // TOOLS_PERFTEST_RESULTS_H_
