// SPDX-License-Identifier: MIT
//
// urma_admin: shows the devices of this machine and what the processes of this user do with them.
#include <exception>
#include <iostream>

#include "tools/admin/command_line.h"
#include "tools/admin/report.h"

namespace admin {
namespace {

constexpr int kFailed = 1;
constexpr int kRefused = 2;

int fail(const std::string& reason, bool json) {
  if (json) std::cout << Json{{"error", reason}}.dump(2) << '\n';
  std::cerr << "urma_admin: " << reason << "\nFailed to execute command.\n";
  return kFailed;
}

int run(int argc, const char* const* argv) {
  const Request request = parse_command_line(argc, argv);
  if (request.command == nullptr) {
    print(request.answer);
    return 0;
  }
  const Command& command = *request.command;
  if (*command.instead != '\0') {
    std::cerr << "urma_admin: warning: " << command.words
              << " is obsolete; use: " << command.instead << '\n';
  }
  try {
    print(command.action(request.options), request.options.json);
    return 0;
  } catch (const UsageError& error) {
    throw UsageError(complaint(error.what(), argc, argv, command));
  } catch (const std::exception& error) {
    return fail(error.what(), request.options.json);
  }
}

}  // namespace
}  // namespace admin

int main(int argc, char** argv) {
  try {
    return admin::run(argc, argv);
  } catch (const admin::Failure& error) {
    return admin::fail(error.what(), /*json=*/false);
  } catch (const std::exception& error) {
    std::cerr << "urma_admin: " << error.what() << '\n';
    return admin::kRefused;
  }
}
