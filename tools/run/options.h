// SPDX-License-Identifier: MIT
//
// The command line of urma_run: options, then the program and its arguments.
#ifndef TOOLS_RUN_OPTIONS_H_
#define TOOLS_RUN_OPTIONS_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tools/run/ways.h"
#include "urma_api.h"

namespace run {

struct Options {
  std::vector<std::string> names;  // "name=device"
  std::vector<urma_eid_t> eids;
  std::optional<std::string> faults;
  std::optional<Way> way;  // else the first one that works
  bool isolated = false;
  bool verbose = false;
  char** program = nullptr;  // in the form of execvp()
};

// The options, or the exit status if nothing remains to be done. Throws Failure.
std::variant<Options, int> parse_options(int argc, char** argv);

}  // namespace run

#endif  // TOOLS_RUN_OPTIONS_H_
