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
  // Its names, then what stands behind them: in capitals, or as the words to choose from; what may
  // be left out is in brackets.
  const char* words;
  const char* options;  // those that mean something to it
  const char* help;
  const char* example;
  Action action;
  const char* instead = "";  // of a word of old: the one that replaces it
};

// All of them, in the order in which the manual tells of them.
std::span<const Command> commands();

}  // namespace admin

#endif  // TOOLS_ADMIN_COMMANDS_H_
