// SPDX-License-Identifier: MIT
#include "jetty/owner_lock.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace urma {
namespace {

constexpr int kOwnerRounds = 300000;
constexpr int kForeignRounds = 300;

class OwnerLockTest : public testing::TestWithParam<bool> {};

// A plain counter: any overlap of two holders loses counts, and is a race to the thread sanitizer.
TEST_P(OwnerLockTest, ExcludesOwnerAndForeigners) {
  OwnerLock lock(GetParam());
  long counter = 0;
  std::vector<std::thread> foreigners;
  for (int i = 0; i < 2; ++i) {
    foreigners.emplace_back([&] {
      for (int round = 0; round < kForeignRounds; ++round) {
        ForeignScope scope(lock);
        ++counter;
      }
    });
  }
  for (int round = 0; round < kOwnerRounds; ++round) {
    OwnerScope scope(lock);
    ++counter;
  }
  for (std::thread& thread : foreigners) thread.join();
  EXPECT_EQ(counter, kOwnerRounds + 2 * kForeignRounds);
}

// A lock_free queue whose program posts in one thread and polls in another.
TEST_P(OwnerLockTest, ExcludesASecondOwner) {
  OwnerLock lock(GetParam());
  long counter = 0;
  const auto use = [&] {
    for (int round = 0; round < kOwnerRounds; ++round) {
      OwnerScope scope(lock);
      ++counter;
    }
  };
  std::thread second(use);
  std::thread foreigner([&] {
    for (int round = 0; round < kForeignRounds; ++round) {
      ForeignScope scope(lock);
      ++counter;
    }
  });
  use();
  second.join();
  foreigner.join();
  EXPECT_EQ(counter, 2 * kOwnerRounds + kForeignRounds);
}

TEST_P(OwnerLockTest, TryNeverTakesABiasedLock) {
  const bool lock_free = GetParam();
  OwnerLock lock(lock_free);
  { OwnerScope scope(lock); }
  ASSERT_EQ(lock.try_enter_foreign(), !lock_free);
  if (lock_free) return;
  std::thread([&] { EXPECT_FALSE(lock.try_enter_foreign()); }).join();
  lock.leave_foreign();
}

// What enter_at_once() has tried is undone: its caller may find that there is nothing to wait for.
TEST(OwnerLockAtOnceTest, HoldsNobodyUpWhereItFails) {
  OwnerLock lock(/*lock_free=*/true);
  { OwnerScope scope(lock); }
  std::latch entered(1), tried(1);
  std::thread foreigner([&] {
    {
      ForeignScope scope(lock);
      entered.count_down();
      tried.wait();
    }
    ForeignScope again(lock);  // never returned
  });
  entered.wait();
  if (lock.enter_at_once()) {
    ADD_FAILURE() << "another thread is inside";
    lock.leave_at_once();
  }
  tried.count_down();
  foreigner.join();
}

INSTANTIATE_TEST_SUITE_P(Modes, OwnerLockTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "lock_free" : "locked"; });

}  // namespace
}  // namespace urma
