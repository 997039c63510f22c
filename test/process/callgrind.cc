// SPDX-License-Identifier: MIT
#include "test/process/callgrind.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr char kFilePrefix[] = "callgrind.";

// The text after `key` in a line that begins with `key`.
bool value_of(const std::string& line, const std::string& key, std::string* value) {
  if (!line.starts_with(key)) return false;
  *value = line.substr(key.size());
  return true;
}

// Lines of costs begin with a position and end with a count. The line after "calls=" has the cost
// of a called function, which is counted in that function.
Counted read_dump(const std::filesystem::path& path) {
  Counted counted;
  std::ifstream file(path);
  std::string object;
  bool called = false;
  for (std::string line; std::getline(file, line);) {
    if (value_of(line, "desc: Trigger: Client Request: ", &counted.name)) continue;
    if (value_of(line, "ob=", &object)) {
      object = std::filesystem::path(object).filename();
    } else if (line.starts_with("calls=")) {
      called = true;
    } else if (!line.empty() && std::isdigit(static_cast<unsigned char>(line[0])) != 0) {
      const std::string address = line.substr(0, line.find(' '));
      if (!called) counted.executed[object][address] += std::stod(line.substr(line.rfind(' ')));
      called = false;
    }
  }
  return counted;
}

}  // namespace

std::string find_valgrind() {
  const char* path = ::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/valgrind";
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::vector<std::string> callgrind_command(const std::string& valgrind, const std::string& folder) {
  return {valgrind,
          "--tool=callgrind",
          "-q",
          "--compress-strings=no",
          "--compress-pos=no",
          "--dump-instr=yes",
          "--callgrind-out-file=" + folder + "/" + kFilePrefix + "%p"};
}

double Counted::without(const std::string& file) const {
  double sum = 0;
  for (const auto& [name, instructions] : executed) {
    if (name == file) continue;
    for (const auto& [address, count] : instructions) sum += count;
  }
  return sum;
}

double Counted::often(const std::string& file, double least) const {
  double sum = 0;
  const auto found = executed.find(file);
  if (found == executed.end()) return 0;
  for (const auto& [address, count] : found->second) sum += count >= least ? count : 0;
  return sum;
}

std::vector<Counted> read_callgrind(const std::string& folder) {
  std::vector<Counted> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kFilePrefix)) {
      all.push_back(read_dump(entry.path()));
    }
  }
  return all;
}

std::map<std::string, double> CountedRun::costs(const std::string& program) const {
  std::map<std::string, double> all;
  for (const Counted& counted : dumps) {
    const double cost = counted.without(program) / calls.at(counted.name);
    const auto [least, first] = all.emplace(counted.name, cost);
    if (!first) least->second = std::min(least->second, cost);
  }
  return all;
}

CountedRun count_program(const std::vector<std::string>& program) {
  const std::string valgrind = find_valgrind();
  if (valgrind.empty()) return {"valgrind is not installed; run ./dev setup", {}, {}};
  const ScratchDir scratch;
  std::vector<std::string> command = callgrind_command(valgrind, scratch.path());
  command.push_back("--collect-atstart=no");
  command.insert(command.end(), program.begin(), program.end());
  Child child("program", command);
  const int status = child.wait();
  constexpr int kCannotStart = 3;  // SYNC(counted-program)
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotStart) {
    return {"the library does not start under valgrind: " + child.output(), {}, {}};
  }
  EXPECT_EQ(status, 0) << child.output();
  CountedRun run;
  std::istringstream lines(child.output());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int count;
    std::string name;
    if (words >> count && std::getline(words >> std::ws, name)) run.calls[name] = count;
  }
  for (Counted& counted : read_callgrind(scratch.path())) {
    if (run.calls.contains(counted.name)) run.dumps.push_back(std::move(counted));
  }
  return run;
}

}  // namespace urma_test
