// SPDX-License-Identifier: MIT

#include "tools/perftest/columns.h"

#include <cstdio>

namespace perftest {
namespace {

void add_latency(const Config& config, const Row& row, std::vector<Column>& columns) {
  const LatencySummary& latency = row.latency;
  if (config.ends_by != EndsBy::kIterations) {
    columns.push_back({"t_avg[us]", "avg_us", latency.avg_us, 2});
    columns.push_back({"pps", "pps", row.pps, 2});
    return;
  }
  columns.push_back({"t_min[us]", "min_us", latency.min_us, 2});
  columns.push_back({"t_max[us]", "max_us", latency.max_us, 2});
  columns.push_back({"t_median[us]", "median_us", latency.median_us, 2});
  columns.push_back({"t_avg[us]", "avg_us", latency.avg_us, 2});
  columns.push_back({"t_stdev[us]", "stdev_us", latency.stdev_us, 2});
  for (size_t i = 0; i < config.percentiles.size(); i++) {
    const std::string name = percent_name(config.percentiles[i]);
    const double value = i < latency.percentiles.size() ? latency.percentiles[i].second : 0;
    columns.push_back({name + "%[us]", "p" + name + "_us", value, 2});
  }
}

void add_bandwidth(const Config& config, const Row& row, std::vector<Column>& columns) {
  std::string unit = "MB/sec";
  double factor = 1;
  if (config.bw_unit == BwUnit::kKilobytes) {
    unit = "KB/sec";
    factor = 1024;
  } else if (config.bw_unit == BwUnit::kGigabytes) {
    unit = "GB/sec";
    factor = 1.0 / 1024;
  }
  // CSV is for programs: one unit, regardless of --bw_unit.
  if (config.format != Format::kText) factor = 1;
  const Bandwidth& bandwidth = row.bandwidth;
  columns.push_back({"BW peak[" + unit + "]", "bw_peak_mbs", bandwidth.peak_mbs * factor, 2});
  columns.push_back({"BW average[" + unit + "]", "bw_avg_mbs", bandwidth.avg_mbs * factor, 2});
  columns.push_back({"MsgRate[Mpps]", "msg_rate_mpps", bandwidth.msg_rate_mpps, 6});
}

}  // namespace

std::vector<Column> columns_of(const Config& config, const Row& row) {
  std::vector<Column> columns = {
      {"bytes", "size", static_cast<double>(row.size), 0},
      {"iterations", "iterations", static_cast<double>(row.iterations), 0},
  };
  if (config.latency()) {
    add_latency(config, row, columns);
  } else {
    add_bandwidth(config, row, columns);
  }
  return columns;
}

std::string format_number(double value, int digits, bool thousands) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
  std::string text = buffer;
  if (!thousands) return text;
  const size_t point = text.find('.');
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t at = point == std::string::npos ? text.size() : point; at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string percent_name(double percent) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.10g", percent);
  return buffer;
}

const char* mode_name(urma_transport_mode_t mode) {
  switch (mode) {
    case URMA_TM_RM:
      return "URMA_TM_RM";
    case URMA_TM_RC:
      return "URMA_TM_RC";
    case URMA_TM_UM:
      return "URMA_TM_UM";
  }
  return "unknown";
}

}  // namespace perftest
