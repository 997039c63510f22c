// SPDX-License-Identifier: MIT
#ifndef TOOLS_PERFTEST_OPTION_TABLE_H_
#define TOOLS_PERFTEST_OPTION_TABLE_H_

#include <CLI/CLI.hpp>

#include "tools/perftest/config.h"

namespace perftest {

// Stands for the value of an option that may have one and came without.
constexpr const char* kNoValue = "default";

// Makes `app` understand every option, and write what it finds into `config`.
void add_options(CLI::App& app, Config& config);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_OPTION_TABLE_H_
