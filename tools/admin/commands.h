// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_COMMANDS_H_
#define TOOLS_ADMIN_COMMANDS_H_

#include <span>

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

using Action = Report (*)(const Options&);

// A command of the tool.
struct Command {
  // Its names, then its arguments: in capitals, or as the words to choose from; optional ones in
  // brackets.
  const char* words;
  const char* options;  // those that it uses
  const char* help;
  const char* example;
  Action action;
  const char* instead = "";  // replacement of an obsolete word
};

// All commands, in the order of the manual.
std::span<const Command> commands();

}  // namespace admin

#endif  // TOOLS_ADMIN_COMMANDS_H_
