// SPDX-License-Identifier: MIT
//
// Processes are killed at random instructions, whatever they do. Their peers learn of it within a
// second, leak nothing, and go on with all others and with the next process of the same name.
//
// URMA_SEED repeats the choices of a run. With URMA_SOAK there are 10,000 kills instead of 300.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "test/process/crash_cast.h"
#include "test/process/crash_killer.h"
#include "test/process/harness.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

const char* name_of(Method method) { return method == Method::kTimer ? "timer" : "steps"; }

class CrashTest : public ProcessTest, public ::testing::WithParamInterface<Method> {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("survivors clean up after a killed process");
    wait_long_for_answers();
    if (GetParam() != Method::kSteps) return;
    const std::string why = why_no_steps();
    if (!why.empty()) GTEST_SKIP() << why;
  }

  void begin() {
    random_.seed(announced_seed());
    for (uint64_t i = 0; i < kSurvivors; ++i) {
      survivors_.push_back(std::make_unique<Child>("survivor " + std::to_string(i),
                                                   [i](Channel& channel) { survive(channel, i); }));
    }
    for (auto& survivor : survivors_) {
      offers_.push_back(survivor->channel().receive<CrashOffer>());
    }
    for (auto& survivor : survivors_) {
      for (const CrashOffer& offer : offers_) survivor->channel().send(offer);
    }
    alone_ = runtime_entries();
  }

  void kill_one(uint64_t number) {
    const Role role = kRoles[random_() % kRoles.size()];
    last_ = "kill " + std::to_string(number) + ", a " + name_of(role);
    SCOPED_TRACE(last_);
    Round round = {number, role, false, {}};
    Child child("victim", victim(role, offers_, random_()));
    milliseconds longest(3);
    if (role == Role::kStarter) {
      child.channel().receive<char>();
      longest = milliseconds(8);
    } else {
      round.victim = child.channel().receive<CrashOffer>();
      tell_survivors(round);
      for (auto& survivor : survivors_) survivor->channel().receive<char>();
    }
    const Death death = kill_at_random(child, GetParam(), longest, random_);
    EXPECT_TRUE(WIFSIGNALED(child.wait())) << "ended before it was killed\n" << child.output();
    ++kills_[role];
    expect_entries_gone();
    if (role == Role::kStarter) tell_survivors(round);
    for (size_t i = 0; i < kSurvivors && !HasFailure(); ++i) hear_from(i, death, role);
  }

  void end() {
    if (!HasFailure()) tell_survivors({0, Role::kStarter, true, {}});
    for (auto& survivor : survivors_) survivor->expect_success();
    for (const auto& [role, kills] : kills_) {
      std::printf("%5d %-9s by %s\n", kills, urma_test::name_of(role), name_of(GetParam()));
    }
    if (known_ns_.empty()) return;
    std::sort(known_ns_.begin(), known_ns_.end());
    const auto late = std::upper_bound(known_ns_.begin(), known_ns_.end(), int64_t{1'000'000'000});
    std::printf(
        "all is known after %lld us (median), %lld us (of 1000 deaths 999), %lld us (all); "
        "after more than 1 s: %lld of %zu\n",
        static_cast<long long>(known_ns_[known_ns_.size() / 2] / 1000),
        static_cast<long long>(known_ns_[known_ns_.size() * 999 / 1000] / 1000),
        static_cast<long long>(known_ns_.back() / 1000),
        static_cast<long long>(known_ns_.end() - late), known_ns_.size());
  }

  std::string last_ = "the start";

 private:
  void tell_survivors(const Round& round) {
    for (auto& survivor : survivors_) survivor->channel().send(round);
  }

  void hear_from(size_t index, const Death& death, Role role) {
    const auto report = survivors_[index]->channel().receive<Report>();
    offers_[index] = report.offer;
    if (role == Role::kStarter) return;
    const int64_t limit = std::chrono::nanoseconds(crash_limit()).count();
    EXPECT_GT(report.requests, 0u);
    EXPECT_GE(report.first_error_ns, death.begin_ns) << "a request failed before the kill";
    EXPECT_LT(report.last_error_ns - death.end_ns, limit)
        << "first error after " << report.first_error_ns - death.end_ns << ", longest pause "
        << report.longest_pause_ns;
    known_ns_.push_back(report.last_error_ns - death.begin_ns);
  }

  void expect_entries_gone() {
    const auto deadline = Clock::now() + crash_limit();
    for (;;) {
      const std::vector<std::string> entries = runtime_entries();
      std::vector<std::string> left;
      std::set_difference(entries.begin(), entries.end(), alone_.begin(), alone_.end(),
                          std::back_inserter(left));
      if (left.empty()) return;
      ASSERT_LT(Clock::now(), deadline) << left.size() << " entries are left: " << left[0];
      ::sched_yield();
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Child>> survivors_;
  std::vector<CrashOffer> offers_;
  std::vector<std::string> alone_;  // the entries of the survivors
  std::map<Role, int> kills_;
  std::vector<int64_t> known_ns_;  // from each death to the last error of each survivor
};

TEST_P(CrashTest, SurvivorsContinue) {
  const uint64_t kills = is_soak() ? 5000 : 150;
  try {
    begin();
    for (uint64_t number = 1; number <= kills && !HasFailure(); ++number) kill_one(number);
  } catch (const std::exception& error) {
    ADD_FAILURE() << last_ << ": " << error.what();
  }
  end();
}

INSTANTIATE_TEST_SUITE_P(Killed, CrashTest, ::testing::Values(Method::kTimer, Method::kSteps),
                         [](const auto& info) {
                           return std::string(info.param == Method::kTimer ? "AtAnyMoment"
                                                                           : "AtAnyInstruction");
                         });

}  // namespace
}  // namespace urma_test
