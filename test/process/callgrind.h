// SPDX-License-Identifier: MIT
//
// Instruction counts of valgrind's callgrind: the same on any machine, whatever its load.
#ifndef TEST_PROCESS_CALLGRIND_H_
#define TEST_PROCESS_CALLGRIND_H_

#include <map>
#include <string>
#include <vector>

namespace urma_test {

// The path of valgrind; empty if not installed.
std::string find_valgrind();

// The command that starts a program: valgrind with its options, for results in `folder`.
std::vector<std::string> callgrind_command(const std::string& valgrind, const std::string& folder);

// One dump of a program.
struct Counted {
  std::string name;  // as the program has named it, or ""
  // How often each instruction was executed, by library or program and address.
  std::map<std::string, std::map<std::string, double>> executed;

  // Of all files except the one with this name.
  double without(const std::string& file) const;
  // Of one file alone.
  double of(const std::string& file) const { return often(file, 0); }
  // Of one file, only instructions executed at least `least` times: what a loop does in each round.
  double often(const std::string& file, double least) const;
};

// All dumps in a folder.
std::vector<Counted> read_callgrind(const std::string& folder);

// Whether this code was made by the compiler that budgets stand for: others make some instructions
// more or less.
inline constexpr bool kHasBudgets =
#if defined(__GNUC__) && !defined(__clang__)
    __GNUC__ == 12;
#else
    false;
#endif

// The counts of a program that uses counting.h.
struct CountedRun {
  std::string cannot;  // why it failed; else empty
  std::map<std::string, int> calls;
  std::vector<Counted> dumps;  // those named in `calls`

  // Instructions per call, without those of the program itself; of counts with the same name, the
  // least: what happened once is not part of a call.
  std::map<std::string, double> costs(const std::string& program) const;
};

// Runs it under callgrind; it must succeed, unless the library does not start there.
CountedRun count_program(const std::vector<std::string>& program);

}  // namespace urma_test

#endif  // TEST_PROCESS_CALLGRIND_H_
