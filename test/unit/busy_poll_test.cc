// SPDX-License-Identifier: MIT
//
// When a thread that waits looks for events itself.
#include "jetty/busy_poll.h"

#include <gtest/gtest.h>

#include <vector>

namespace urma {
namespace {

constexpr uint64_t kLimit = 20'000;
constexpr uint64_t kStep = 100;  // nanoseconds of one look at all queues

// The looks of one wait whose event comes after `gap` nanoseconds; 0 if it has no look.
int looks_of(BusyPoll* poll, uint64_t gap) {
  if (!poll->is_due()) return 0;
  if (gap == 0) return 1;
  uint64_t now = 0;
  poll->begin(now);
  int looks = 1;
  do {
    ++looks;
    now += kStep;
  } while (now < gap && poll->goes_on(now));
  poll->end(now >= gap);
  return looks;
}

TEST(BusyPollTest, EndsWithTheEvent) {
  BusyPoll poll(kLimit);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(looks_of(&poll, 5 * kStep), 6);
}

TEST(BusyPollTest, EndsWithTheLimit) {
  BusyPoll poll(kLimit);
  EXPECT_EQ(looks_of(&poll, 1'000'000), 1 + static_cast<int>(kLimit / kStep));
}

TEST(BusyPollTest, IsNeverDueWithoutALimit) {
  BusyPoll poll(0);
  EXPECT_EQ(looks_of(&poll, 0), 0);
}

TEST(BusyPollTest, PausesLongerAfterEachLookInVain) {
  BusyPoll poll(kLimit);
  std::vector<int> pauses;
  for (int i = 0, last = -1; pauses.size() < 11; ++i) {
    if (looks_of(&poll, 1'000'000) == 0) continue;
    pauses.push_back(i - last - 1);
    last = i;
  }
  EXPECT_EQ(pauses, std::vector<int>({0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 256}));
}

TEST(BusyPollTest, LooksAtEachWaitAgainOnceALookHasFoundSomething) {
  BusyPoll poll(kLimit);
  for (int i = 0; i < 1000; ++i) looks_of(&poll, 1'000'000);
  int waits = 1;
  while (looks_of(&poll, kStep) == 0) ++waits;
  EXPECT_LE(waits, 257);
  for (int i = 0; i < 100; ++i) EXPECT_NE(looks_of(&poll, kStep), 0);
}

TEST(BusyPollTest, WhatWasThereAlreadyEndsNoPause) {
  BusyPoll poll(kLimit);
  looks_of(&poll, 1'000'000);
  EXPECT_EQ(looks_of(&poll, 1'000'000), 0);
  EXPECT_EQ(looks_of(&poll, 0), 1);
  EXPECT_GT(looks_of(&poll, 1'000'000), 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(looks_of(&poll, 1'000'000), 0);
  EXPECT_GT(looks_of(&poll, 1'000'000), 1);
}

TEST(BusyPollTest, PausesLongIfAnotherThreadHadTheProcessor) {
  BusyPoll poll(kLimit);
  ASSERT_TRUE(poll.is_due());
  poll.begin(0);
  EXPECT_TRUE(poll.goes_on(kStep));
  EXPECT_FALSE(poll.goes_on(600'000));
  poll.end(false);
  int passed = 0;
  while (!poll.is_due()) ++passed;
  EXPECT_EQ(passed, 256);
}

}  // namespace
}  // namespace urma
