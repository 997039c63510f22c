// SPDX-License-Identifier: MIT
//
// The grammar of URMA_FAULT, and what it decides.
#include "urma/base/fault_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jetty/faults.h"
#include "urma/base/error.h"

namespace urma {
namespace {

TEST(FaultPlan, EmptyTextIsNoPlan) {
  EXPECT_TRUE(parse_faults("").rules.empty());
  EXPECT_EQ(Faults::parse(""), nullptr);
}

TEST(FaultPlan, TakesEveryKindAndOption) {
  const FaultPlan plan = parse_faults(
      "seed=7;delay:ms=5,op=read,p=12.5,after=1,every=3,count=9;drop;rnr;token:op=write;jfc;queue;"
      "jfr:every=2;port:at=10,for=20;eid:index=1,at=3;fatal:at=4");
  EXPECT_EQ(plan.seed, 7u);
  ASSERT_EQ(plan.rules.size(), 10u);
  const FaultRule& delay = plan.rules[0];
  EXPECT_EQ(delay.kind, FaultKind::kDelay);
  EXPECT_EQ(delay.ms, 5u);
  EXPECT_EQ(delay.ops, uint32_t{kFaultRead});
  EXPECT_EQ(delay.millionths, 125'000u);
  EXPECT_EQ(delay.after, 1u);
  EXPECT_EQ(delay.every, 3u);
  EXPECT_EQ(delay.count, 9u);
  EXPECT_EQ(plan.rules[1].ops, uint32_t{kFaultAny});
  EXPECT_EQ(plan.rules[1].millionths, 1'000'000u);
  EXPECT_EQ(plan.rules[2].ops, uint32_t{kFaultSend});
  EXPECT_EQ(plan.rules[3].ops, uint32_t{kFaultWrite});
  EXPECT_EQ(plan.rules[6].kind, FaultKind::kReceive);
  EXPECT_EQ(plan.rules[7].at_ms, 10u);
  EXPECT_EQ(plan.rules[7].for_ms, 20u);
  EXPECT_EQ(plan.rules[8].index, 1u);
  EXPECT_EQ(plan.rules[9].at_ms, 4u);
}

TEST(FaultPlan, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"slow", "slow: use seed=N"},
      {"delay", "needs ms="},
      {"delay:ms=0", "ms=0: not a number"},
      {"delay:ms=5x", "ms=5x: not a number"},
      {"rnr:op=read", "rnr has no option op"},
      {"drop:ms=4", "drop has no option ms"},
      {"drop:p=0", "p=0: not a percentage"},
      {"drop:p=100.1", "p=100.1: not a percentage"},
      {"drop:p=1.23456", "p=1.23456: use 1 to 4 decimals"},
      {"drop:p=", "p=: not a number"},
      {"drop:op=both", "op=both: use send"},
      {"drop:", ""},
      {"drop:every=0", "every=0: not a number"},
      {"drop:colour=red", "drop has no option colour"},
      {"port:p=4", "port has no option p"},
      {"seed=", "seed=: not a number"},
      {";", ": use seed=N"},
  };
  for (const auto& [text, why] : wrong) {
    try {
      parse_faults(text);
      EXPECT_EQ(why, "") << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), URMA_EINVAL);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      EXPECT_NE(why, "") << text;
    }
  }
}

// Which of `requests` requests are hit.
std::vector<int> hits(const std::string& text, OpKind kind, int requests) {
  const auto faults = Faults::parse(text);
  std::vector<int> hit;
  for (int i = 0; i < requests; ++i) {
    if (faults->of_request(kind)) hit.push_back(i);
  }
  return hit;
}

TEST(Faults, CountCandidates) {
  EXPECT_EQ(hits("drop:after=2,every=3,count=2", OpKind::kRead, 20), (std::vector<int>{2, 5}));
  EXPECT_EQ(hits("drop:op=write", OpKind::kRead, 5), std::vector<int>());
  EXPECT_EQ(hits("drop:op=write,count=1", OpKind::kWriteImm, 5), std::vector<int>{0});
  EXPECT_EQ(hits("rnr:count=1", OpKind::kWriteImm, 5), std::vector<int>{0});
  EXPECT_EQ(hits("rnr", OpKind::kWrite, 5), std::vector<int>());
  EXPECT_EQ(hits("drop", OpKind::kNop, 5), std::vector<int>());
}

TEST(Faults, AreTheSameForTheSameSeed) {
  const std::string rule = "rnr:p=10";
  const auto first = hits("seed=1;" + rule, OpKind::kSend, 10'000);
  EXPECT_EQ(first, hits("seed=1;" + rule, OpKind::kSend, 10'000));
  EXPECT_NE(first, hits("seed=2;" + rule, OpKind::kSend, 10'000));
  // 1000 are expected; eight standard deviations are 240.
  EXPECT_GT(first.size(), 760u);
  EXPECT_LT(first.size(), 1'240u);
}

TEST(Faults, TheFirstRuleThatHitsDecides) {
  const auto faults = Faults::parse("token:count=1;delay:ms=3,count=1;drop");
  EXPECT_EQ(faults->of_request(OpKind::kWrite)->kind, FaultKind::kToken);
  const auto second = faults->of_request(OpKind::kWrite);
  EXPECT_EQ(second->kind, FaultKind::kDelay);
  EXPECT_EQ(second->ms, 3u);
  EXPECT_EQ(faults->of_request(OpKind::kWrite)->kind, FaultKind::kDrop);
}

TEST(Faults, QueuesAndReceiversHaveSeparateRules) {
  const auto faults = Faults::parse("queue:after=1,count=1;jfr:count=1;port:at=5");
  EXPECT_FALSE(faults->of_request(OpKind::kSend));
  EXPECT_FALSE(faults->fails_queue(OpKind::kSend));
  EXPECT_TRUE(faults->fails_queue(OpKind::kSend));
  EXPECT_FALSE(faults->fails_queue(OpKind::kSend));
  EXPECT_TRUE(faults->fails_receiver());
  EXPECT_FALSE(faults->fails_receiver());
  ASSERT_EQ(faults->timed().size(), 1u);
  EXPECT_EQ(faults->timed()[0].at_ms, 5u);
}

}  // namespace
}  // namespace urma
