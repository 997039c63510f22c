// SPDX-License-Identifier: MIT
//
// urma_run: a program that looks for its devices in /sys/class/ubcore and /dev/uburma finds those
// of the library there.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/run/attend.h"
#include "tools/run/failure.h"
#include "tools/run/keeper.h"
#include "tools/run/options.h"
#include "tools/run/runtime.h"
#include "tools/run/ways.h"

namespace run {
namespace {

// Like env(1) and timeout(1).
constexpr int kOwnFailure = 125, kCannotRun = 126, kNotFound = 127;

void say(const std::string& line) { std::fprintf(stderr, "urma_run: %s\n", line.c_str()); }

void set_environment(const Options& options) {
  if (!options.names.empty()) {
    std::string names = value_of("URMA_DEVICE_ALIAS");
    for (const std::string& name : options.names) names += (names.empty() ? "" : ",") + name;
    ::setenv("URMA_DEVICE_ALIAS", names.c_str(), 1);
  }
  if (options.faults) ::setenv("URMA_FAULT", options.faults->c_str(), 1);
}

Way choose_way(const Options& options, const std::string& view) {
  if (options.way) return *options.way;
  std::string reasons;
  for (const Way way : kWays) {
    const std::string why = why_not(way, view);
    if (why.empty()) return way;
    const std::string reason = std::string(name_of(way)) + ": " + why;
    if (options.verbose) say("not by " + reason);
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  throw Failure("no way works: " + reasons);
}

// Returns only if the program cannot be executed.
int become_program(Way way, const std::string& view, char** program) {
  try {
    enter(way, view);
  } catch (const Failure& failure) {
    say("--way " + std::string(name_of(way)) + ": " + failure.what());
    return kOwnFailure;
  }
  ::execvp(program[0], program);
  const int code = errno;
  say(std::string(program[0]) + ": " + std::strerror(code));
  return code == ENOENT ? kNotFound : kCannotRun;
}

// The wait status of the program. If nothing remains to be done after its end, the program replaces
// this process.
int run(const Options& options) {
  set_environment(options);
  const std::string directory = options.isolated ? make_private_directory() : "";
  const Keeper keeper(options, directory);
  const Way way = choose_way(options, keeper.view());
  if (options.verbose) say("/sys/class/ubcore by " + std::string(about(way)));
  const auto start = [&] { return become_program(way, keeper.view(), options.program); };
  if (options.isolated) return attend(start);
  ::_exit(start());
}

}  // namespace
}  // namespace run

int main(int argc, char** argv) {
  try {
    const auto parsed = run::parse_options(argc, argv);
    if (const int* status = std::get_if<int>(&parsed)) {
      run::check(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "writing to stdout");
      return *status;
    }
    run::end_as(run::run(std::get<run::Options>(parsed)));
  } catch (const std::exception& error) {
    run::say(error.what());
    return run::kOwnFailure;
  }
}
