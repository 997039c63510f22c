// SPDX-License-Identifier: MIT
//
// Private memory that is moved into shared memory in place, and back.
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

// Shares everything, and returns the number of steps.
int steps_to_share(PageTable& table, SharedPages::RangeId range) {
  int steps = 1;
  while (!table.share(range, /*budget=*/1)) ++steps;
  return steps;
}

TEST(InPlace, SharesAndUnsharesWholePages) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 8 * kMiB;
  FilledMemory memory(bytes);
  const auto range = table.add(address(memory.get()) + 100, bytes - 200, kWriters);
  EXPECT_EQ(table.parts(range)[1].reason, URMA_EXT_REASON_NOT_IMPORTED);
  int turns = 1;
  while (!table.share(range, kMiB)) ++turns;
  EXPECT_GE(turns, 4);
  const auto parts = table.parts(range);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_RAGGED);
  EXPECT_EQ(parts[0].len, kPage - 100);
  ASSERT_EQ(parts[1].reason, URMA_EXT_REASON_NONE);
  EXPECT_EQ(parts[1].va, address(memory.get()) + kPage);
  EXPECT_EQ(parts[1].len, bytes - 2 * kPage);
  EXPECT_EQ(parts[2].reason, URMA_EXT_REASON_RAGGED);
  EXPECT_EQ(parts[1].va % (2 * kMiB), parts[1].offset % (2 * kMiB));
  PeerMapping peer(parts[1]);
  ASSERT_TRUE(peer.mapped());
  EXPECT_EQ(std::memcmp(peer.get(), memory.get() + kPage, parts[1].len), 0);
  peer.get()[5] = 99;
  EXPECT_EQ(memory.get()[kPage + 5], 99);
  table.remove(range);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
  EXPECT_EQ(memory.get()[kPage + 5], 99);
}

TEST(InPlace, FormerImporterSeesNoLaterData) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(3 * kMiB);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), 3 * kMiB, &range);
  PeerMapping peer(parts[0]);
  table.remove(range);
  for (uint64_t at = 0; at < 3 * kMiB; at += kPage) memory.get()[at] = 55;
  for (uint64_t at = 0; at < 3 * kMiB; at += kPage) ASSERT_EQ(peer.get()[at], 0);
}

TEST(InPlace, TheDescriptorIsSealedAndHoldsNothingElse) {
  SKIP_UNLESS_IN_PLACE();
  for (const Audience& audience : {kWriters, kReaders}) {
    PageTable table;
    FilledMemory memory(16 * kPage);
    SharedPages::RangeId range;
    const auto parts = shared_parts(table, memory.get() + kPage, 8 * kPage, &range, audience);
    ASSERT_EQ(parts.size(), 1u);
    const bool writers = audience == kWriters;
    EXPECT_EQ(::fcntl(parts[0].fd, F_GET_SEALS),
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (writers ? 0 : F_SEAL_FUTURE_WRITE));
    struct stat status;
    ASSERT_EQ(::fstat(parts[0].fd, &status), 0);
    EXPECT_EQ(static_cast<uint64_t>(status.st_size), parts[0].offset + 8 * kPage);
    EXPECT_EQ(PeerMapping(parts[0]).mapped(), writers);
    PeerMapping reader(parts[0], PROT_READ);
    ASSERT_TRUE(reader.mapped());
    memory.get()[kPage] = 77;  // the owner can still write
    EXPECT_EQ(reader.get()[0], 77);
    table.remove(range);
    EXPECT_EQ(memory.get()[kPage], 77);
    memory.get()[kPage] = 2;
    EXPECT_TRUE(is_filled(memory.get(), 16 * kPage));
    // Memory that no one may write to cannot be emptied either.
    EXPECT_EQ(reader.get()[0], writers ? 0 : 77);
  }
}

TEST(InPlace, MemoryThatWasNeverTouchedIsNotTouched) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "no 64 GiB of address space beside the sanitizer's";
  const uint64_t bytes = uint64_t{64} << 30;
  PageTable table;
  PrivateMemory memory(bytes, MAP_NORESERVE);
  keep_pages_small(memory, bytes);
  auto range = table.add(address(memory.get()), bytes, kWriters);
  EXPECT_LE(steps_to_share(table, range), 4);
  auto parts = table.parts(range);
  ASSERT_EQ(parts.size(), 1u);
  struct stat status;
  ::fstat(parts[0].fd, &status);
  EXPECT_EQ(status.st_blocks, 0);
  table.remove(range);

  for (uint64_t i = 0; i < 1024; ++i) memory.get()[i * (bytes / 1024) + 3 * kPage] = 1 + i % 100;
  range = table.add(address(memory.get()), bytes, kWriters);
  EXPECT_LE(steps_to_share(table, range), 2 * 1024 + 4);  // to each page, and of it
  parts = table.parts(range);
  ASSERT_EQ(parts.size(), 1u);
  ::fstat(parts[0].fd, &status);
  EXPECT_EQ(status.st_blocks, 1024 * 8);
  table.remove(range);
  for (uint64_t i = 0; i < 1024; ++i) {
    ASSERT_EQ(memory.get()[i * (bytes / 1024) + 3 * kPage], static_cast<char>(1 + i % 100));
  }
}

// The mappings are as before, so that the C library can grow the memory without a copy.
TEST(InPlace, MappingsAreMergedAgain) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 16 * kMiB;
  FilledMemory memory(bytes);
  const uint64_t start = address(memory.get());
  ASSERT_EQ(areas(start, start + bytes).size(), 1u);
  SharedPages::RangeId range;
  shared_parts(table, memory.get() + kPage, bytes - 4 * kPage, &range);
  // The last page is a separate mapping, so that mremap() cannot grow it.
  EXPECT_EQ(areas(start, start + bytes).size(), 4u);
  table.remove(range);
  EXPECT_EQ(areas(start, start + bytes).size(), 1u);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

TEST(InPlace, AdviceIsRestored) {
  SKIP_UNLESS_IN_PLACE();
  const int advice[] = {MADV_DONTFORK,   MADV_DONTDUMP, MADV_NOHUGEPAGE,
                        MADV_SEQUENTIAL, MADV_RANDOM,   MADV_HUGEPAGE};
  for (const int told : advice) {
    PageTable table;
    PrivateMemory memory(4 * kMiB);
    if (::madvise(memory.get(), 4 * kMiB, told) != 0) continue;
    fill(memory.get(), 4 * kMiB);
    const auto before = smaps_line(memory.get(), "VmFlags");
    SharedPages::RangeId range;
    const auto parts = shared_parts(table, memory.get(), 4 * kMiB, &range);
    ASSERT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
    table.remove(range);
    EXPECT_EQ(smaps_line(memory.get(), "VmFlags"), before) << "advice " << told;
    EXPECT_TRUE(is_filled(memory.get(), 4 * kMiB));
    EXPECT_EQ(areas(address(memory.get()), address(memory.get()) + 4 * kMiB).size(), 1u);
  }
}

TEST(InPlace, LocksAndPoliciesAreRestored) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers make mlock do nothing";
  PageTable table;
  FilledMemory memory(kMiB);
  if (::mlock(memory.get(), kMiB) != 0) GTEST_SKIP() << "RLIMIT_MEMLOCK is below 1 MiB";
  const unsigned long node = 1;
  const bool bound = ::syscall(SYS_mbind, memory.get(), kMiB, MPOL_BIND, &node, 64, 0) == 0;
  const auto locked = [&] {
    return smaps_line(memory.get(), "VmFlags").find(" lo") != std::string::npos;
  };
  const auto policy = [&] {
    int mode = -1;
    ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, memory.get(), MPOL_F_ADDR);
    return mode;
  };
  ASSERT_TRUE(locked());
  SharedPages::RangeId range;
  EXPECT_EQ(shared_parts(table, memory.get(), kMiB, &range)[0].reason, URMA_EXT_REASON_NONE);
  EXPECT_TRUE(locked());
  EXPECT_TRUE(!bound || policy() == MPOL_BIND);
  table.remove(range);
  EXPECT_TRUE(locked());
  EXPECT_TRUE(!bound || policy() == MPOL_BIND);
  EXPECT_TRUE(is_filled(memory.get(), kMiB));
}

TEST(InPlace, HugePagesAreRestored) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 8 * kMiB;
  PrivateMemory memory(bytes, 0, 2 * kMiB);
  ::madvise(memory.get(), bytes, MADV_HUGEPAGE);
  fill(memory.get(), bytes);
  const auto huge = [&] { return smaps_line(memory.get(), "AnonHugePages"); };
  const auto before = huge();
  if (before.find(" 8192 kB") == std::string::npos) GTEST_SKIP() << "no huge pages: " << before;
  SharedPages::RangeId range;
  shared_parts(table, memory.get(), bytes, &range);
  EXPECT_EQ(huge().find(" 0 kB") != std::string::npos, true);
  table.remove(range);
  EXPECT_EQ(huge(), before);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

TEST(InPlace, NewMappingsOfTheProgramAreNotTouched) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 6 * kMiB;
  FilledMemory memory(bytes);
  SharedPages::RangeId range;
  shared_parts(table, memory.get(), bytes, &range);
  char* middle = memory.get() + 2 * kMiB;
  ASSERT_NE(
      ::mmap(middle, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      MAP_FAILED);
  std::memset(middle, 0x5a, kMiB);
  ::munmap(memory.get() + 4 * kMiB, kMiB);
  table.remove(range);
  for (uint64_t at = 0; at < kMiB; ++at) ASSERT_EQ(middle[at], 0x5a);
  EXPECT_TRUE(areas(address(middle) + 2 * kMiB, address(middle) + 3 * kMiB).empty());
  std::memset(middle, 1, kMiB);
  for (uint64_t at : {uint64_t{0}, 3 * kMiB, 5 * kMiB}) {
    EXPECT_EQ(memory.get()[at], static_cast<char>(1 + (at / kPage) % 127));
  }
}

// The new registration finds pages that an old one has shared.
TEST(InPlace, AStaleRangeDoesNotBlockANewOne) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  PrivateMemory memory(kMiB);
  SharedPages::RangeId stale;
  shared_parts(table, memory.get(), kMiB, &stale);
  ASSERT_NE(::mmap(memory.get(), kMiB, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  fill(memory.get(), kMiB);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kMiB, &range);
  ASSERT_EQ(parts.size(), 1u);
  ASSERT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  table.remove(stale);
  PeerMapping peer(parts[0]);
  memory.get()[1] = 44;
  EXPECT_EQ(peer.get()[1], 44);
  table.remove(range);
  memory.get()[1] = 45;
  EXPECT_NE(peer.get()[1], 45);
  EXPECT_TRUE(is_filled(memory.get(), kMiB));
}

TEST(InPlace, PagesOfTwoRangesStayUntilBothEnd) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 8 * kPage;
  FilledMemory memory(bytes);
  SharedPages::RangeId first;
  SharedPages::RangeId second;
  const auto of_first = shared_parts(table, memory.get(), 5 * kPage, &first);
  const auto of_second = shared_parts(table, memory.get() + 4 * kPage, 4 * kPage, &second);
  ASSERT_EQ(of_second.size(), 2u);
  EXPECT_EQ(of_second[0].fd, of_first[0].fd);
  EXPECT_EQ(of_second[0].offset, of_first[0].offset + 4 * kPage);
  EXPECT_NE(of_second[1].fd, of_first[0].fd);
  PeerMapping peer_of_first(of_first[0]);
  PeerMapping peer_of_second(of_second[0]);
  table.remove(first);
  memory.get()[1] = 55;
  memory.get()[4 * kPage + 1] = 66;
  EXPECT_EQ(peer_of_second.get()[1], 66);
  EXPECT_NE(peer_of_first.get()[1], 55);
  table.remove(second);
  memory.get()[4 * kPage + 1] = 67;
  EXPECT_NE(peer_of_second.get()[1], 67);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

TEST(InPlace, PagesOfOneTokenAreNotHandedToAnother) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(8 * kPage);
  SharedPages::RangeId first;
  SharedPages::RangeId second;
  shared_parts(table, memory.get(), 5 * kPage, &first);
  const auto parts = shared_parts(table, memory.get() + 4 * kPage, 4 * kPage, &second, kReaders);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_OTHER_TOKEN);
  EXPECT_EQ(parts[0].len, kPage);
  EXPECT_EQ(parts[1].reason, URMA_EXT_REASON_NONE);
  table.remove(first);
  table.remove(second);
  EXPECT_TRUE(is_filled(memory.get(), 8 * kPage));
}

// Two half-moved ranges that need pages of each other.
TEST(InPlace, InterleavedTurnsComplete) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 24 * kMiB;
  FilledMemory memory(bytes);
  const auto first = table.add(address(memory.get()), 16 * kMiB, kReaders);
  const auto second = table.add(address(memory.get()) + 8 * kMiB, 16 * kMiB, kReaders);
  bool first_done = false;
  bool second_done = false;
  int turns = 0;
  while ((!first_done || !second_done) && ++turns < 1000) {
    first_done = table.share(first, 1);
    second_done = table.share(second, 1);
  }
  EXPECT_TRUE(first_done && second_done);
  for (const auto range : {first, second}) {
    for (const auto& part : table.parts(range)) {
      ASSERT_EQ(part.reason, URMA_EXT_REASON_NONE);
      EXPECT_NE(::fcntl(part.fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
    }
  }
  table.remove(first);
  table.remove(second);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

// A range whose pages another one moves ends its turn as others do, however much is left to move.
TEST(InPlace, PagesOfAnotherRangeCountInATurn) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 16 * kMiB;
  FilledMemory memory(bytes, 0, 2 * kMiB);
  const auto large = table.add(address(memory.get()), bytes, kReaders);
  const auto small = table.add(address(memory.get()), kPage, kReaders);
  ASSERT_FALSE(table.share(large, 1));
  ASSERT_FALSE(table.share(small, 1));
  EXPECT_FALSE(table.share(small, 1));
  EXPECT_EQ(table.parts(large).back().reason, URMA_EXT_REASON_NOT_IMPORTED);
  share_all(table, small);
  share_all(table, large);
  table.remove(small);
  table.remove(large);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

TEST(InPlace, ARangeThatIsHalfSharedCanBeRemoved) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  const uint64_t bytes = 64 * kMiB;
  FilledMemory memory(bytes);
  for (int round = 0; round < 4; ++round) {
    const auto range = table.add(address(memory.get()), bytes, kWriters);
    std::thread sharer([&] { share_all(table, range); });
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    table.remove(range);
    sharer.join();
    // A mapping that was partly moved, from its beginning, may stay split in two.
    ASSERT_LE(areas(address(memory.get()), address(memory.get()) + bytes).size(),
              static_cast<size_t>(round) + 2);
    ASSERT_TRUE(is_filled(memory.get(), bytes));
  }
}

TEST(InPlace, DescriptorsAreClosed) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  PrivateMemory memory(kMiB);
  const auto lowest = [] {
    const int fd = ::dup(0);
    ::close(fd);
    return fd;
  };
  SharedPages::RangeId range;
  shared_parts(table, memory.get(), kMiB, &range);
  table.remove(range);
  const int before = lowest();
  for (int i = 0; i < 20; ++i) {
    shared_parts(table, memory.get(), kMiB, &range);
    table.remove(range);
  }
  EXPECT_EQ(lowest(), before);
}

}  // namespace
}  // namespace urma
