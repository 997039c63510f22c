// SPDX-License-Identifier: MIT
#include "urma/base/short_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace urma {
namespace {

// A plain counter: any overlap of two holders loses counts, and the thread sanitizer reports a
// race.
TEST(ShortMutexTest, ExcludesManyThreads) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 200000;
  ShortMutex mutex;
  long counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const MutexLock lock(mutex);
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, kThreads * kRounds);
}

TEST(ShortMutexTest, ATryFailsWhileItIsHeld) {
  ShortMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  std::thread([&] { EXPECT_FALSE(mutex.try_lock()); }).join();
  mutex.unlock();
  ASSERT_TRUE(mutex.try_lock());
  mutex.unlock();
}

// Held long enough for the waiters to sleep; all of them must be woken.
TEST(ShortMutexTest, WakesAllThatSleep) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 50;
  for (int turn = 0; turn < kTurns; ++turn) {
    ShortMutex mutex;
    std::latch begun(kThreads + 1);
    std::vector<std::thread> threads;
    mutex.lock();
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        begun.count_down();
        const MutexLock lock(mutex);
      });
    }
    begun.arrive_and_wait();
    for (int i = 0; i < kThreads; ++i) std::this_thread::yield();
    mutex.unlock();
    for (std::thread& thread : threads) thread.join();
  }
}

// However often it was handed over, it is free when nobody waits for it.
TEST(ShortMutexTest, ATrySucceedsOnceNobodyWaits) {
  constexpr int kTurns = 100;
  ShortMutex mutex;
  for (int turn = 0; turn < kTurns; ++turn) {
    std::latch begun(2);
    mutex.lock();
    std::thread waiter([&] {
      begun.arrive_and_wait();
      const MutexLock lock(mutex);
    });
    begun.arrive_and_wait();
    // Longer than the other thread spins.
    pause_for(100 * kLastPauses);
    mutex.unlock();
    waiter.join();
    ASSERT_TRUE(mutex.try_lock()) << turn;
    mutex.unlock();
  }
}

// Two threads that hold it nearly always do not starve a third one.
TEST(ShortMutexTest, NoThreadWaitsIndefinitely) {
  constexpr int kTurns = 20;
  ShortMutex mutex;
  std::atomic<bool> done{false};
  std::vector<std::thread> greedy;
  for (int i = 0; i < 2; ++i) {
    greedy.emplace_back([&] {
      while (!done.load()) {
        const MutexLock lock(mutex);
        pause_for(20);
      }
    });
  }
  for (int turn = 0; turn < kTurns; ++turn) const MutexLock lock(mutex);
  done = true;
  for (std::thread& thread : greedy) thread.join();
}

}  // namespace
}  // namespace urma
