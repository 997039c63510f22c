// SPDX-License-Identifier: MIT
//
// What urma_perftest --verify reports as wrong: any other byte, message, jetty or size than the
// right one.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/pattern.h"

namespace perftest {
namespace {

constexpr uint64_t kSequence = 1000;
constexpr uint32_t kJetty = 3;

std::vector<uint8_t> filled(size_t size) {
  std::vector<uint8_t> memory(size);
  fill_pattern(memory.data(), size, kSequence, kJetty);
  return memory;
}

TEST(PerftestPattern, CorrectBytesPass) {
  for (const size_t size : {0, 1, 2, 8, 64, 4097}) {
    const auto memory = filled(size);
    EXPECT_EQ(find_difference(memory.data(), size, kSequence, kJetty), std::nullopt) << size;
    EXPECT_NO_THROW(check_pattern(memory.data(), size, kSequence, kJetty, "write")) << size;
  }
}

TEST(PerftestPattern, EachByteCounts) {
  for (const size_t size : {1, 2, 64, 300}) {
    auto memory = filled(size);
    for (size_t i = 0; i < size; i++) {
      memory[i] ^= 1;
      EXPECT_EQ(find_difference(memory.data(), size, kSequence, kJetty), i) << size;
      memory[i] ^= 1;
    }
  }
}

TEST(PerftestPattern, MessagesJettysAndSizesDiffer) {
  const auto memory = filled(64);
  for (uint64_t other = 1; other < 255; other++) {
    EXPECT_TRUE(find_difference(memory.data(), 64, kSequence - other, kJetty)) << other;
  }
  for (uint32_t other = 1; other < 100; other++) {
    EXPECT_TRUE(find_difference(memory.data(), 64, kSequence, kJetty + other)) << other;
  }
  EXPECT_TRUE(find_difference(memory.data(), 63, kSequence, kJetty));
  const std::vector<uint8_t> zeros(64);
  EXPECT_EQ(find_difference(zeros.data(), 1, kSequence, kJetty), 0u);
}

TEST(PerftestPattern, MarkIsNeverZeroAndComesBackLate) {
  for (uint64_t sequence = 0; sequence < 1000; sequence++) {
    EXPECT_NE(pattern_mark(sequence), 0);
    for (uint64_t later = 1; later < 255; later++) {
      EXPECT_NE(pattern_mark(sequence), pattern_mark(sequence + later));
    }
  }
}

TEST(PerftestPattern, ErrorNamesThePlaceAndTheBytes) {
  auto memory = filled(64);
  memory[60] = 0xab;
  try {
    check_pattern(memory.data(), memory.size(), kSequence, kJetty, "write");
    ADD_FAILURE() << "wrong data passed the check";
  } catch (const RunError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("write 1000 of jetty 3, 64 bytes, is wrong at offset 60: ab "),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace perftest
