// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_REPORT_H_
#define TOOLS_ADMIN_REPORT_H_

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace admin {

using Json = nlohmann::ordered_json;

// The result of a command, in both forms. The text includes its newlines. If the JSON is null,
// nothing is printed.
struct Report {
  Json json;
  std::string text;
};

// Prints on stdout. Throws Failure.
void print(const std::string& text);
// One form.
void print(const Report& report, bool json);
// The same for one of several reports: the JSON takes one line.
void print_one_of_many(const Report& report, bool json);

// Words or values that a command does not accept. The message is one line that names them.
class UsageError : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

// A failed operation. The message is one line with the reason.
class Failure : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

}  // namespace admin

#endif  // TOOLS_ADMIN_REPORT_H_
