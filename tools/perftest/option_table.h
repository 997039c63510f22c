// SPDX-License-Identifier: MIT
#ifndef TOOLS_PERFTEST_OPTION_TABLE_H_
#define TOOLS_PERFTEST_OPTION_TABLE_H_

#include <CLI/CLI.hpp>

#include "tools/perftest/config.h"

namespace perftest {

// Stands for the missing value of an option that may have one.
constexpr const char* kNoValue = "default";

// Adds every option to `app`, which writes the values to `config`.
void add_options(CLI::App& app, Config& config);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_OPTION_TABLE_H_
