// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_REPORT_H_
#define TOOLS_ADMIN_REPORT_H_

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace admin {

using Json = nlohmann::ordered_json;

// What a command has found out, in both forms. The text has its line ends. Nothing is printed where
// the JSON is null.
struct Report {
  Json json;
  std::string text;
};

// Prints one of the forms on stdout. Throws Failure.
void print(const Report& report, bool json);
// The same where others follow: the JSON takes one line.
void print_one_of_many(const Report& report, bool json);

// Words or values that a command does not take. The message is one line that says which.
class UsageError : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

// Something that could not be done. The message is one line that says why.
class Failure : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

}  // namespace admin

#endif  // TOOLS_ADMIN_REPORT_H_
