// SPDX-License-Identifier: MIT
//
// Values of options, and the error line for a wrong one.
#ifndef TOOLS_PERFTEST_VALUES_H_
#define TOOLS_PERFTEST_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/perftest/config.h"

namespace perftest {

// "given X; allowed: Y; example: Z": the form of every error.
UsageError refusal(const std::string& given, const std::string& allowed,
                   const std::string& example);

// Numbers as strtoul reads them with base 0 (decimal, 0x hexadecimal, 0 octal), but digits only.
// `option` is how the user writes the option, for the error.
uint64_t parse_number(const std::string& option, const std::string& text, uint64_t min,
                      uint64_t max, const std::string& example);

// -1, or a number as above.
int parse_timeout(const std::string& option, const std::string& text);

// A decimal fraction above 0.
double parse_positive(const std::string& option, const std::string& text,
                      const std::string& example);

// Percentiles: "50,99,99.9", each above 0 and at most 100.
std::vector<double> parse_percentiles(const std::string& option, const std::string& text);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_VALUES_H_
