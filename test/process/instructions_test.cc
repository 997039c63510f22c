// SPDX-License-Identifier: MIT
//
// What a post and a poll cost, counted in instructions by callgrind: budgets that hold on any
// machine, however busy it is.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "test/process/harness.h"

namespace urma_test {
namespace {

using Costs = std::map<std::string, double>;

// Instructions of a request in a chain of 16, the last of which leaves a record, and of a record
// where as many are polled.
constexpr double kChainBudget = 150;
// The same of an atomic, which is told apart from six others before it is executed.
constexpr double kAtomicChainBudget = 170;
// Of one request in a call of its own, and of a poll that brings one record: what is paid once in a
// call counts in full.
constexpr double kPostBudget = 300;
constexpr double kPollBudget = 260;
// A message has an entry, a slot in a ring, a posted receive and two records.
constexpr double kMessagePostBudget = 440;
constexpr double kMessagePollBudget = 650;
constexpr double kSentPollBudget = 450;
// What queues add that are not lock_free: the mutex of each on the way.
constexpr double kLockBudget = 170;

std::string find_program(const std::string& name) {
  const char* path = ::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

// The calls of each kind, as the program prints them.
std::map<std::string, int> read_calls(const std::string& output) {
  std::map<std::string, int> calls;
  std::istringstream lines(output);
  std::string name;
  int count;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if (words >> name >> count && words.eof()) calls[name] = count;
  }
  return calls;
}

// The instructions that a file of callgrind has counted, and under which name.
void read_total(const std::filesystem::path& path, std::map<std::string, double>* totals) {
  const std::string kName = "desc: Trigger: Client Request: ";
  const std::string kTotal = "totals: ";
  std::ifstream file(path);
  std::string name;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kName)) name = line.substr(kName.size());
    if (line.starts_with(kTotal) && !name.empty()) {
      (*totals)[name] = std::stod(line.substr(kTotal.size()));
    }
  }
}

// Instructions of each kind of call, without what the counting itself costs.
Costs read_costs(const std::string& folder, const std::map<std::string, int>& calls) {
  std::map<std::string, double> totals;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("callgrind.")) {
      read_total(entry.path(), &totals);
    }
  }
  Costs costs;
  for (const auto& [name, count] : calls) {
    if (!totals.contains(name)) ADD_FAILURE() << "callgrind has counted nothing for " << name;
    costs[name] = totals[name] / count;
  }
  // Once in a call, so that a chain has its 16th part of it.
  const double counting = costs["nothing"];
  costs.erase("nothing");
  for (auto& [name, cost] : costs) cost -= counting * calls.at("nothing") / calls.at(name);
  return costs;
}

class InstructionsTest : public ProcessTest, public testing::WithParamInterface<const char*> {
 protected:
  // Valgrind holds up all threads while one sleeps in an io_uring.
  InstructionsTest() { ::setenv("URMA_SERVICE", "epoll", 1); }
  ~InstructionsTest() override { ::unsetenv("URMA_SERVICE"); }

  // Runs the program under callgrind. Empty where it cannot run there; *why says so.
  Costs count(const std::string& valgrind, std::string* why) {
    const std::string out = "--callgrind-out-file=" + scratch_.path() + "/callgrind.%p";
    Child child("program", {valgrind, "--tool=callgrind", "--collect-atstart=no", "-q", out,
                            ::getenv("INSTRUCTIONS_PROGRAM"), GetParam()});
    const int status = child.wait();
    constexpr int kCannotStart = 3;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotStart) {
      *why = "the library does not start under valgrind: " + child.output();
      return {};
    }
    EXPECT_EQ(status, 0) << child.output();
    return read_costs(scratch_.path(), read_calls(child.output()));
  }

  static double budget_of(const std::string& name) {
    if (name == "add-chain-post" || name == "cas-chain-post") return kAtomicChainBudget;
    if (name.find("-chain-") != std::string::npos) return kChainBudget;
    const double lock = std::string(GetParam()) == "locked" ? kLockBudget : 0;
    if (name == "send-post") return kMessagePostBudget + lock;
    if (name == "receive-poll") return kMessagePollBudget + lock;
    if (name == "send-poll") return kSentPollBudget + lock;
    return lock + (name.ends_with("-poll") ? kPollBudget : kPostBudget);
  }

 private:
  ScratchDir scratch_;
};

TEST_P(InstructionsTest, APostAndAPollKeepTheirBudgets) {
  const std::string valgrind = find_program("valgrind");
  if (valgrind.empty()) GTEST_SKIP() << "valgrind is not installed; run ./dev setup";
  std::string why;
  const Costs costs = count(valgrind, &why);
  if (!why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(costs.size(), 20u);
  for (const auto& [name, cost] : costs) {
    std::printf("%-16s %6.1f of %.0f instructions\n", name.c_str(), cost, budget_of(name));
    EXPECT_GT(cost, 20) << name << ": less than it can be";
    EXPECT_LE(cost, budget_of(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, InstructionsTest, testing::Values("lock_free", "locked"),
                         [](const auto& info) {
                           return std::string(info.param) == "locked" ? "Locked" : "LockFree";
                         });

}  // namespace
}  // namespace urma_test
