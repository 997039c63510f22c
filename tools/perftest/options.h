// SPDX-License-Identifier: MIT
//
// The command line. What is allowed: docs/reference/tools.md.
#ifndef TOOLS_PERFTEST_OPTIONS_H_
#define TOOLS_PERFTEST_OPTIONS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/perftest/config.h"

namespace perftest {

// What the command line came to: a run, or a text to print (help, version).
struct Parsed {
  std::optional<Config> config;
  std::string text;
};

// `arguments` are those after the program's name: the test's name first. Throws UsageError.
Parsed parse_options(const std::vector<std::string>& arguments);

// What a command line means with its batch files: one Config for each combination of a line of
// every file, in the order of the files' lines, the last file's turning fastest; `config` alone if
// it names no file. Throws UsageError.
std::vector<Config> expand_batches(const Config& config, const std::vector<std::string>& arguments);

// Where -d is missing: the one device there is, aggregated ones left out. Throws UsageError where
// there are several, or none. urma_init must have been called.
void default_device(Config& config);

// A Config under way: with the options that were given, by their long names.
struct Draft {
  Config config;
  std::set<std::string> given;

  bool has(const char* name) const { return given.contains(name); }
};

// Takes the meaning of a test's name into the Config. Throws UsageError.
void set_test(Config& config, const std::string& name);

// Fills in the defaults of the test and refuses what does not go together. Throws UsageError.
void resolve(Draft& draft);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_OPTIONS_H_
