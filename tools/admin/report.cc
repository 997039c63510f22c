// SPDX-License-Identifier: MIT
#include "tools/admin/report.h"

#include <iostream>

namespace admin {
namespace {

constexpr int kIndent = 2;
constexpr int kOneLine = -1;

void print(const Report& report, bool json, int indent) {
  if (report.json.is_null()) return;
  if (json) {
    // Names may come from other processes, and need not be UTF-8.
    std::cout << report.json.dump(indent, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    std::cout << report.text;
  }
  std::cout.flush();
  if (!std::cout) throw Failure("cannot write to stdout");
}

}  // namespace

void print(const Report& report, bool json) { print(report, json, kIndent); }

void print_one_of_many(const Report& report, bool json) { print(report, json, kOneLine); }

}  // namespace admin
