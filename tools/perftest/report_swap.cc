// SPDX-License-Identifier: MIT
#include "tools/perftest/report_swap.h"

#include <algorithm>
#include <cmath>

namespace perftest {
namespace {

// UMDK's bw_report_data_t.
struct BandwidthReport {
  uint64_t size;
  uint64_t iterations;
  double peak;     // bytes per second
  double average;  // bytes per second
  double rate_mpps;
};
static_assert(sizeof(BandwidthReport) == 40);

constexpr double kMegabyte = 1 << 20;

double checked(double value) {
  if (!std::isfinite(value) || value < 0) throw RunError("the peer sent a damaged report");
  return value;
}

}  // namespace

bool reports_are_swapped(const Session& session) {
  const Config& config = session.config;
  if (config.ends_by == EndsBy::kUser) return false;
  return !session.two_sided() || (config.bidirectional && config.ends_by == EndsBy::kIterations);
}

Row swap_reports(Session& session, const Row& own) {
  Row sum = own;
  const bool add = session.active();
  if (!add) {
    sum.iterations = 0;
    sum.bandwidth = {};
  }
  // Each pair has one jetty, and the jettys take turns.
  const auto parts = static_cast<double>(session.exchange.pairs());
  const BandwidthReport share = {own.size, own.iterations / session.exchange.pairs(),
                                 own.bandwidth.peak_mbs * kMegabyte / parts,
                                 own.bandwidth.avg_mbs * kMegabyte / parts,
                                 own.bandwidth.msg_rate_mpps / parts};
  for (size_t pair = 0; pair < session.exchange.pairs(); pair++) {
    BandwidthReport report = share;
    session.exchange.sync_data(&report, &report, sizeof(report), pair);
    if (session.client() && !session.config.bidirectional) continue;
    sum.iterations = add ? own.iterations : sum.iterations + report.iterations;
    sum.bandwidth.peak_mbs += checked(report.peak) / kMegabyte;
    sum.bandwidth.avg_mbs += checked(report.average) / kMegabyte;
    sum.bandwidth.msg_rate_mpps += checked(report.rate_mpps);
  }
  return sum;
}

}  // namespace perftest
