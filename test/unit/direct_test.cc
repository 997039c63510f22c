// SPDX-License-Identifier: MIT
#include "urma/providers/shm/direct.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace urma::shm {
namespace {

// The two halves of a whole value always agree.
struct alignas(16) Wide {
  uint64_t count;
  uint64_t inverse;
  bool whole() const { return inverse == ~count; }
};

// The current value, read by an exchange that changes nothing.
Wide look_at(Wide* word) {
  constexpr uint64_t kSame[4] = {};
  Wide seen;
  uint64_t before[2];
  execute_wide(URMA_OPC_CAS, word, sizeof(Wide), kSame, before);
  std::memcpy(&seen, before, sizeof(seen));
  return seen;
}

TEST(Direct, OneWordIsChangedByEveryOpcode) {
  struct Change {
    urma_opcode_t opcode;
    uint64_t first, second, after;
  };
  constexpr uint64_t kBefore = 0xf0f0f0f0fffffff0;
  const Change changes[] = {
      {URMA_OPC_CAS, kBefore, 1, 1},
      {URMA_OPC_CAS, kBefore ^ 1, 1, kBefore},
      {URMA_OPC_SWAP, 9, 1, 1},
      {URMA_OPC_FADD, 0x1f, 0, kBefore + 0x1f},
      {URMA_OPC_FSUB, 0x1f, 0, kBefore - 0x1f},
      {URMA_OPC_FAND, 0xff00ff00ff00ff00, 0, kBefore & 0xff00ff00ff00ff00},
      {URMA_OPC_FOR, 0x0f0000000000000f, 0, kBefore | 0x0f0000000000000f},
      {URMA_OPC_FXOR, 0xffffffffffffffff, 0, ~kBefore},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(static_cast<int>(change.opcode));
    uint64_t words[2] = {kBefore, kBefore};
    EXPECT_EQ(execute_atomic(change.opcode, words, 8, change.first, change.second), kBefore);
    EXPECT_EQ(words[0], change.after);
    EXPECT_EQ(words[1], kBefore);
    // The same in half a word; nothing carries into the other half.
    uint32_t halves[2] = {static_cast<uint32_t>(kBefore), 5};
    EXPECT_EQ(execute_atomic(change.opcode, halves, 4, change.first, change.second),
              static_cast<uint32_t>(kBefore));
    EXPECT_EQ(halves[0], static_cast<uint32_t>(change.after));
    EXPECT_EQ(halves[1], 5u);
  }
}

TEST(Direct, WideComparisonLooksAtBothHalves) {
  if (!kHasWideAtomics) GTEST_SKIP() << "this processor has no atomic access to 16 bytes";
  const uint64_t value[2] = {7, 8};
  for (const bool low : {true, false}) {
    alignas(16) uint64_t word[2] = {7, 8};
    const uint64_t other[4] = {low ? 6U : 7U, low ? 8U : 9U, 1, 2};
    uint64_t before[2];
    execute_wide(URMA_OPC_CAS, word, 16, other, before);
    EXPECT_EQ(std::memcmp(before, value, 16), 0);
    EXPECT_EQ(std::memcmp(word, value, 16), 0);
    const uint64_t same[4] = {7, 8, 1, 2};
    execute_wide(URMA_OPC_CAS, word, 16, same, before);
    EXPECT_EQ(std::memcmp(before, value, 16), 0);
    EXPECT_EQ(word[0], 1u);
    EXPECT_EQ(word[1], 2u);
  }
}

// Until the threads have interfered with each other often enough, or some seconds have passed: they
// only run in parallel if there are processors.
constexpr uint64_t kMeetings = 5000;
constexpr std::chrono::seconds kLongest{2};

TEST(Direct, WideIncrementsAreNotLost) {
  if (!kHasWideAtomics) GTEST_SKIP() << "this processor has no atomic access to 16 bytes";
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  Wide word = {0, ~uint64_t{0}};
  std::atomic<uint64_t> torn{0}, counted{0}, meetings{0};
  const auto count_up = [&] {
    Wide seen = look_at(&word);
    uint64_t mine = 0;
    while (meetings < kMeetings && std::chrono::steady_clock::now() < deadline) {
      for (int i = 0; i < 1000; ++i) {
        const uint64_t operand[4] = {seen.count, seen.inverse, seen.count + 1, ~(seen.count + 1)};
        uint64_t before[2];
        execute_wide(URMA_OPC_CAS, &word, sizeof(word), operand, before);
        const bool done = before[0] == seen.count && before[1] == seen.inverse;
        seen = done ? Wide{operand[2], operand[3]} : Wide{before[0], before[1]};
        if (!seen.whole()) ++torn;
        if (done) {
          ++mine;
        } else {
          ++meetings;
        }
      }
    }
    counted += mine;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(count_up);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(word.count, counted);
  EXPECT_EQ(torn, 0u);
}

TEST(Direct, WholeWritesAreSeenWhole) {
  if (!kHasWideAtomics) GTEST_SKIP() << "this processor has no atomic access to 16 bytes";
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  Wide word = {0, ~uint64_t{0}};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t count = 1; !stop.load(std::memory_order_relaxed); ++count) {
      const Wide value = {count, ~count};
      write_whole(&word, &value, sizeof(value));
    }
  });
  uint64_t torn = 0, meetings = 0;
  while (meetings < kMeetings && std::chrono::steady_clock::now() < deadline) {
    const Wide before = look_at(&word), after = look_at(&word);
    torn += before.whole() && after.whole() ? 0 : 1;
    meetings += before.count != after.count ? 1 : 0;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0u);
}

TEST(Direct, WholeWritesTouchNothingElse) {
  for (const uint64_t bytes : {1, 2, 4, 8, 16}) {
    if (!valid_width(URMA_OPC_WRITE_ATOMIC, bytes)) continue;
    alignas(16) char room[48];
    std::memset(room, 'r', sizeof(room));
    const char value[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    write_whole(room + 16, value, bytes);
    EXPECT_EQ(std::memcmp(room + 16, value, bytes), 0);
    EXPECT_EQ(room[15], 'r');
    EXPECT_EQ(room[16 + bytes], 'r');
  }
}

TEST(Direct, SupportedWidths) {
  EXPECT_EQ(valid_width(URMA_OPC_CAS, 16), kHasWideAtomics);
  EXPECT_EQ(valid_width(URMA_OPC_WRITE_ATOMIC, 16), kHasWideAtomics);
  for (const uint32_t opcode : {URMA_OPC_SWAP, URMA_OPC_FADD, URMA_OPC_FSUB, URMA_OPC_FAND,
                                URMA_OPC_FOR, URMA_OPC_FXOR, URMA_OPC_CAS}) {
    for (uint64_t bytes = 0; bytes < 16; ++bytes) {
      EXPECT_EQ(valid_width(opcode, bytes), bytes == 4 || bytes == 8);
    }
    EXPECT_FALSE(valid_width(opcode, (uint64_t{1} << 32) + 8));
  }
  EXPECT_FALSE(valid_width(URMA_OPC_WRITE, 8));
  EXPECT_FALSE(valid_width(URMA_OPC_SWAP, 16));
}

}  // namespace
}  // namespace urma::shm
