// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_COMMAND_LINE_H_
#define TOOLS_ADMIN_COMMAND_LINE_H_

#include <string>

#include "tools/admin/commands.h"
#include "tools/admin/options.h"

namespace admin {

// The parsed command line.
struct Request {
  const Command* command = nullptr;
  Options options;
  std::string answer;  // help or version, if requested instead
};

// Throws UsageError, with the whole line for the user.
Request parse_command_line(int argc, const char* const* argv);

// The usage of a command.
std::string usage_of(const Command& command);

// The error for an argument that `command` does not accept.
std::string complaint(const std::string& reason, int argc, const char* const* argv,
                      const Command& command);

}  // namespace admin

#endif  // TOOLS_ADMIN_COMMAND_LINE_H_
