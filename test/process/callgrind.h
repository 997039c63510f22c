// SPDX-License-Identifier: MIT
//
// Instructions, as valgrind's callgrind counts them: the same on any machine, however busy it is.
#ifndef TEST_PROCESS_CALLGRIND_H_
#define TEST_PROCESS_CALLGRIND_H_

#include <map>
#include <string>
#include <vector>

namespace urma_test {

// The path of valgrind; empty where it is not installed.
std::string find_valgrind();

// What a program has to be started with: valgrind with its options, for results in `folder`.
std::vector<std::string> callgrind_command(const std::string& valgrind, const std::string& folder);

// One dump of a program.
struct Counted {
  std::string name;  // as the program has named it, or ""
  // How often each instruction was executed: by the name of its library or program, and its
  // address.
  std::map<std::string, std::map<std::string, double>> executed;

  // Of all files but the one that has this name.
  double without(const std::string& file) const;
  // Of one file alone.
  double of(const std::string& file) const { return often(file, 0); }
  // Of one file, and of it what was executed at least so often: what a loop does each time.
  double often(const std::string& file, double least) const;
};

// All dumps in a folder.
std::vector<Counted> read_callgrind(const std::string& folder);

// What a program of counting.h has counted.
struct CountedRun {
  std::string cannot;  // why it has not; else empty
  std::map<std::string, int> calls;
  std::vector<Counted> dumps;  // of these names

  // Instructions a call, without those of the program itself.
  std::map<std::string, double> costs(const std::string& program) const;
};

// Runs it under callgrind; it has to end well, unless the library does not start there.
CountedRun count_program(const std::vector<std::string>& program);

}  // namespace urma_test

#endif  // TEST_PROCESS_CALLGRIND_H_
