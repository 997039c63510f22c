// SPDX-License-Identifier: MIT
#include "tools/admin/report.h"

#include <iostream>

namespace admin {
namespace {

constexpr int kIndent = 2;
constexpr int kOneLine = -1;

void print(const Report& report, bool json, int indent) {
  if (report.json.is_null()) return;
  // Names may come from other processes, and need not be UTF-8.
  admin::print(json ? report.json.dump(indent, ' ', false, Json::error_handler_t::replace) + '\n'
                    : report.text);
}

}  // namespace

void print(const std::string& text) {
  std::cout << text << std::flush;
  if (!std::cout) throw Failure("cannot write to stdout");
}

void print(const Report& report, bool json) { print(report, json, kIndent); }

void print_one_of_many(const Report& report, bool json) { print(report, json, kOneLine); }

}  // namespace admin
