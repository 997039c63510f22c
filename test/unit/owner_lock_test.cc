// SPDX-License-Identifier: MIT
#include "jetty/owner_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <latch>
#include <thread>
#include <vector>

#include "test/process/refusal.h"

namespace urma {
namespace {

constexpr int kOwnerRounds = 300000;
constexpr int kForeignRounds = 300;

// A plain counter: any overlap of two holders loses counts, and the thread sanitizer reports a
// race.
struct Guarded {
  OwnerLock lock;
  long counter = 0;

  void use(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      OwnerScope scope(lock);
      ++counter;
    }
  }
  void use_as_foreigner(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      ForeignScope scope(lock);
      ++counter;
    }
  }
};

bool enters_at_once(OwnerLock* lock) {
  if (!lock->enter_at_once()) return false;
  lock->leave();
  return true;
}

bool another_enters_at_once(OwnerLock* lock) {
  bool enters = false;
  std::thread([&] { enters = enters_at_once(lock); }).join();
  return enters;
}

TEST(OwnerLockTest, ExcludesOwnerAndOtherThreads) {
  Guarded guarded;
  std::vector<std::thread> foreigners;
  for (int i = 0; i < 2; ++i) {
    foreigners.emplace_back([&] { guarded.use_as_foreigner(kForeignRounds); });
  }
  guarded.use(kOwnerRounds);
  for (std::thread& thread : foreigners) thread.join();
  EXPECT_EQ(guarded.counter, kOwnerRounds + 2 * kForeignRounds);
}

// One thread posts, others poll.
TEST(OwnerLockTest, ExcludesManyOwners) {
  constexpr int kOthers = 3;
  Guarded guarded;
  std::vector<std::thread> others;
  for (int i = 0; i < kOthers; ++i) others.emplace_back([&] { guarded.use(kOwnerRounds); });
  std::thread foreigner([&] { guarded.use_as_foreigner(kForeignRounds); });
  guarded.use(kOwnerRounds);
  for (std::thread& thread : others) thread.join();
  foreigner.join();
  EXPECT_EQ(guarded.counter, (1 + kOthers) * kOwnerRounds + kForeignRounds);
}

// Each time at a different moment of the owner's work.
TEST(OwnerLockTest, ExcludesTheOwnerWhileItsBiasEnds) {
  constexpr int kLocks = 200;
  constexpr int kRounds = 1000;
  std::vector<Guarded> all(kLocks);
  std::latch begun(2);
  std::thread second([&] {
    begun.arrive_and_wait();
    for (Guarded& guarded : all) guarded.use(kRounds);
  });
  begun.arrive_and_wait();
  for (Guarded& guarded : all) guarded.use(kRounds);
  second.join();
  for (const Guarded& guarded : all) ASSERT_EQ(guarded.counter, 2 * kRounds);
}

TEST(OwnerLockTest, OnlyItsOwnerEntersAtOnceWhileItIsBiased) {
  OwnerLock lock;
  { OwnerScope scope(lock); }
  EXPECT_TRUE(enters_at_once(&lock));
  EXPECT_FALSE(another_enters_at_once(&lock));
  std::thread([&] { ForeignScope scope(lock); }).join();
  EXPECT_FALSE(another_enters_at_once(&lock));
  EXPECT_TRUE(enters_at_once(&lock));
}

TEST(OwnerLockTest, EveryThreadEntersAtOnceAfterTheBias) {
  OwnerLock lock;
  { OwnerScope scope(lock); }
  std::thread([&] { OwnerScope scope(lock); }).join();
  EXPECT_TRUE(another_enters_at_once(&lock));
  EXPECT_TRUE(enters_at_once(&lock));
  OwnerScope scope(lock);
  EXPECT_FALSE(another_enters_at_once(&lock));
}

// Like a seccomp filter that a program installs later.
TEST(OwnerLockTest, TheBiasEndsWhereTheKernelRefusesBarriers) {
  SKIP_UNLESS_CALLS_CAN_BE_REFUSED();
  constexpr int kRounds = 100;
  Guarded guarded;
  guarded.use(kRounds);
  std::thread second([&] {
    urma_test::refuse(SYS_membarrier, EPERM);
    guarded.use(kRounds);
  });
  guarded.use(kRounds);
  second.join();
  EXPECT_EQ(guarded.counter, 3 * kRounds);
  EXPECT_TRUE(another_enters_at_once(&guarded.lock));
}

// A failed enter_at_once() is undone: its caller may find nothing to wait for.
TEST(OwnerLockTest, AFailedEntryBlocksNoOther) {
  OwnerLock lock;
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
  EXPECT_FALSE(enters_at_once(&lock));
  tried.count_down();
  foreigner.join();
}

TEST(OwnerLockTest, AwaitsTheThreadInside) {
  OwnerLock lock;
  std::latch inside(1);
  std::atomic<bool> left{false};
  std::thread owner([&] {
    OwnerScope scope(lock);
    inside.count_down();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    left = true;
  });
  inside.wait();
  OwnerBarrier barrier;
  lock.await_others(&barrier);
  EXPECT_TRUE(left);
  owner.join();
}

// What a program does rarely, it may do in the thread that has the bias.
TEST(OwnerLockTest, ItsOwnerMayEnterAsAnotherThread) {
  Guarded guarded;
  guarded.use_as_foreigner(1);
  guarded.use(1);
  guarded.use_as_foreigner(1);
  EXPECT_TRUE(enters_at_once(&guarded.lock));
  EXPECT_FALSE(another_enters_at_once(&guarded.lock));
  EXPECT_EQ(guarded.counter, 3);
}

}  // namespace
}  // namespace urma
