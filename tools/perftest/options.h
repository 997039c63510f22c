// SPDX-License-Identifier: MIT
//
// The command line. Documented in docs/reference/tools.md.
#ifndef TOOLS_PERFTEST_OPTIONS_H_
#define TOOLS_PERFTEST_OPTIONS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/perftest/config.h"

namespace perftest {

// The result of the command line: a run, or a text to print (help, version).
struct Parsed {
  std::optional<Config> config;
  std::string text;
};

// `arguments` are those after the program's name: the test's name first. Throws UsageError.
Parsed parse_options(const std::vector<std::string>& arguments);

// The runs of a command line with batch files: one Config for each combination of a line of every
// file, in the order of the lines, the last file's changing fastest; `config` alone if it names no
// file. Throws UsageError.
std::vector<Config> expand_batches(const Config& config, const std::vector<std::string>& arguments);

// The device if -d is missing: the only one, not counting aggregated ones. Throws UsageError if
// there are several, or none. urma_init must have been called.
void default_device(Config& config);

// A Config under construction: with the given options, by their long names.
struct Draft {
  Config config;
  std::set<std::string> given;

  bool has(const char* name) const { return given.contains(name); }
};

// Decodes a test's name into the Config. Throws UsageError.
void set_test(Config& config, const std::string& name);

// Sets the defaults of the test and rejects conflicts. Throws UsageError.
void resolve(Draft& draft);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_OPTIONS_H_
