// SPDX-License-Identifier: MIT
//
// Allocators that expect pages to be zero after they are released: blocks that were shared, taken
// back and freed behave like any other.
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

struct Allocator {
  const char* name;
  const char* library;  // to be preloaded, one of several; empty for the C library's
  // Releases pages at once, not some seconds later.
  const char* settings;
};

constexpr const char* kJemallocNow = "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0";

const Allocator kAllocators[] = {
    {"glibc", "", "MALLOC_TRIM_THRESHOLD_=0"},
    {"jemalloc", "libjemalloc.so.2", kJemallocNow},
    {"tcmalloc", "libtcmalloc_minimal.so.4", "TCMALLOC_AGGRESSIVE_DECOMMIT=t"},
    {"mimalloc", "libmimalloc.so.2:libmimalloc.so.3",
     "MIMALLOC_RESET_DELAY=0 MIMALLOC_PURGE_DELAY=0"},
};

struct Outcome {
  std::string text;
  int shared = -1;
  int dirty = -1;
};

Outcome run(const Allocator& allocator, const char* what) {
  const std::string library = allocator.library;
  std::string command = std::string(allocator.settings) + " LD_PRELOAD=" + library + " ";
  command += std::getenv("ALLOCATOR_PROGRAM");
  command += std::string(" ") + (library.empty() ? "libc.so" : allocator.name) + " " + what;
  Outcome outcome;
  FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) return outcome;
  char line[200] = "";
  while (std::fgets(line, sizeof line, output) != nullptr) outcome.text += line;
  if (::pclose(output) != 0) outcome.text += "; it failed";
  std::istringstream(outcome.text) >> outcome.shared >> outcome.dirty;
  return outcome;
}

class InPlaceAllocator : public testing::TestWithParam<Allocator> {};

TEST_P(InPlaceAllocator, FreedBlocksAreZeroAgain) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers replace the allocator";
  ASSERT_NE(std::getenv("ALLOCATOR_PROGRAM"), nullptr);
  const Outcome outcome = run(GetParam(), "unregister");
  if (outcome.text == "absent\n") GTEST_SKIP() << GetParam().library << " is not installed";
  EXPECT_EQ(outcome.shared, 64) << outcome.text;
  EXPECT_EQ(outcome.dirty, 0) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(All, InPlaceAllocator, testing::ValuesIn(kAllocators),
                         [](const auto& info) { return std::string(info.param.name); });

// What a program must not do: released pages that are shared keep their contents.
TEST(InPlaceAllocatorRule, BlocksAreTakenBackBeforeTheyAreFreed) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers replace the allocator";
  ASSERT_NE(std::getenv("ALLOCATOR_PROGRAM"), nullptr);
  const Outcome outcome = run(kAllocators[1], "leave");
  if (outcome.text == "absent\n") GTEST_SKIP() << kAllocators[1].library << " is not installed";
  EXPECT_GT(outcome.dirty, 0) << outcome.text;
}

}  // namespace
}  // namespace urma
