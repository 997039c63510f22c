// SPDX-License-Identifier: MIT
#include "test/tools/perftest_party.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace urma_test {
namespace {

const std::string kLatencyHeader =
    " bytes   iterations  t_min[us]  t_max[us]  t_median[us]  t_avg[us]  t_stdev[us]  99%[us]  "
    "99.9%[us]  99.99%[us]  99.999%[us]";
const std::string kDurationHeader = " bytes   iterations  t_avg[us]  pps";
const std::string kBandwidthHeader =
    " bytes   iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]";

std::vector<double> numbers_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<double> numbers;
  for (double number; text >> number;) numbers.push_back(number);
  return text.eof() ? numbers : std::vector<double>{};
}

// The line that the documented formats produce for these numbers.
std::string format_row(const std::vector<double>& row) {
  const auto size = static_cast<unsigned>(row[0]);
  const auto iterations = static_cast<unsigned long>(row[1]);
  char line[256] = "";
  if (row.size() == 11) {
    std::snprintf(line, sizeof(line),
                  " %-7u %-10lu  %-7.2lf    %-7.2lf    %-7.2lf       %-7.2lf    %-7.2lf      "
                  "%-7.2lf  %-7.2lf    %-7.2lf     %-7.2lf",
                  size, iterations, row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9],
                  row[10]);
  } else if (row.size() == 4) {
    std::snprintf(line, sizeof(line), " %-7u %-10lu  %-7.2f    %-7.2f", size, iterations, row[2],
                  row[3]);
  } else if (row.size() == 5) {
    std::snprintf(line, sizeof(line), " %-7u %-10lu  %-7.2lf          %-7.2lf             %-7.6lf",
                  size, iterations, row[2], row[3], row[4]);
  }
  return line;
}

size_t columns_of(const std::string& header) {
  if (header == kLatencyHeader) return 11;
  if (header == kDurationHeader) return 4;
  if (header == kBandwidthHeader) return 5;
  return 0;
}

// The value of the first of the two settings that is set.
std::string chosen(const char* first, const char* second, const char* otherwise) {
  for (const char* setting : {first, second}) {
    if (setting == nullptr) continue;
    if (const char* value = std::getenv(setting)) return value;
  }
  return otherwise;
}

}  // namespace

std::string perftest_program() { return program_path("URMA_PERFTEST"); }

Arguments perftest_arguments(const std::string& test, uint16_t port, const Arguments& options,
                             Side side) {
  const bool client = side == Side::kClient;
  Arguments arguments = {test,
                         "-d",
                         chosen(client ? "URMA_PEER_DEVICE" : nullptr, "URMA_DEVICE", "urma_shm0"),
                         "-P",
                         std::to_string(port),
                         "--eid_idx",
                         chosen(client ? "URMA_PEER_EID_INDEX" : nullptr, "URMA_EID_INDEX", "0")};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

bool uses_shared_memory() {
  return std::string(chosen(nullptr, "URMA_DEVICE", "urma_shm0")).rfind("urma_shm", 0) == 0;
}

std::string PerftestResult::text() const {
  return "--- server, exit status " + std::to_string(server.status) + "\n" + server.out +
         server.err + "--- client, exit status " + std::to_string(client.status) + "\n" +
         client.out + client.err;
}

PerftestPair::PerftestPair(const std::string& test, const Arguments& options,
                           const Arguments& server_options, const Arguments& client_options,
                           const ToolOptions& client_environment)
    : port_(free_port(16)),
      server_(perftest_program(), perftest_arguments(test, port_, joined(options, server_options))),
      client_((server_.wait_for_line(kWaiting), perftest_program()),
              perftest_arguments(test, port_, joined(options, client_options, {"-S", "127.0.0.1"}),
                                 Side::kClient),
              client_environment) {}

Arguments PerftestPair::joined(Arguments a, const Arguments& b, const Arguments& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

PerftestResult run_perftest(const std::string& test, const Arguments& options,
                            const Arguments& server_options, const Arguments& client_options) {
  PerftestPair pair(test, options, server_options, client_options);
  const int client = pair.client().wait();
  const int server = pair.server().wait();
  return {{server, pair.server().out(), pair.server().err()},
          {client, pair.client().out(), pair.client().err()}};
}

std::vector<std::vector<double>> parse_rows(const std::string& out) {
  std::vector<std::vector<double>> rows;
  size_t columns = 0;
  for (std::string line : lines_of(out)) {
    // What a terminal has shown and erased again.
    if (const size_t wiped = line.rfind("\033[K"); wiped != std::string::npos) {
      line.erase(0, wiped + 3);
    }
    if (columns == 0) {
      columns = columns_of(line);
      continue;
    }
    const std::vector<double> row = numbers_of(line);
    if (row.size() != columns) break;
    EXPECT_EQ(line, format_row(row));
    rows.push_back(row);
  }
  return rows;
}

}  // namespace urma_test
