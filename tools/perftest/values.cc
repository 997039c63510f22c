// SPDX-License-Identifier: MIT

#include "tools/perftest/values.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>

namespace perftest {
namespace {

std::optional<uint64_t> read_number(const std::string& text) {
  // strtoul would skip blanks and turn a minus sign into a huge number.
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return std::nullopt;
  errno = 0;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (errno != 0 || *end != '\0') return std::nullopt;
  return value;
}

std::optional<double> read_fraction(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

UsageError refusal(const std::string& given, const std::string& allowed,
                   const std::string& example) {
  std::string line = "given " + given + "; allowed: " + allowed + "; example: " + example;
  // Keeps any input on one line.
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return UsageError(line);
}

uint64_t parse_number(const std::string& option, const std::string& text, uint64_t min,
                      uint64_t max, const std::string& example) {
  const std::optional<uint64_t> value = read_number(text);
  if (value && *value >= min && *value <= max) return *value;
  throw refusal(option + " '" + text + "'",
                "a number from " + std::to_string(min) + " to " + std::to_string(max),
                option + " " + example);
}

int parse_timeout(const std::string& option, const std::string& text) {
  if (text == "-1") return kWaitForever;
  const std::optional<uint64_t> value = read_number(text);
  if (value && *value <= INT32_MAX) return static_cast<int>(*value);
  throw refusal(option + " '" + text + "'", "milliseconds, 0 to poll, -1 for no limit",
                option + " 1000");
}

double parse_positive(const std::string& option, const std::string& text,
                      const std::string& example) {
  const std::optional<double> value = read_fraction(text);
  if (value && *value > 0) return *value;
  throw refusal(option + " '" + text + "'", "a number above 0, with a decimal point or without",
                option + " " + example);
}

std::vector<double> parse_percentiles(const std::string& option, const std::string& text) {
  std::vector<double> percents;
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    const std::optional<double> value = read_fraction(item);
    if (!value || *value <= 0 || *value > 100) {
      percents.clear();
      break;
    }
    percents.push_back(*value);
  }
  if (!percents.empty() && text.back() != ',') return percents;
  throw refusal(option + " '" + text + "'",
                "percentages above 0 and up to 100, with commas between", option + " 50,99,99.9");
}

}  // namespace perftest
