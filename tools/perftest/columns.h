// SPDX-License-Identifier: MIT
//
// The columns of a report: the same for text and CSV, under other names.
#ifndef TOOLS_PERFTEST_COLUMNS_H_
#define TOOLS_PERFTEST_COLUMNS_H_

#include <string>
#include <vector>

#include "tools/perftest/results.h"

namespace perftest {

struct Column {
  std::string title;  // in text
  std::string key;    // in CSV
  double value = 0;
  int digits = 0;  // after the point
};

// The columns of a row; a row of zeroes gives their names.
std::vector<Column> columns_of(const Config& config, const Row& row);

// "1234.50", or "1,234.50".
std::string format_number(double value, int digits, bool thousands);

// "99.9": the shortest text of a percentage.
std::string percent_name(double percent);

// "URMA_TM_RM", and so on.
const char* mode_name(urma_transport_mode_t mode);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_COLUMNS_H_
