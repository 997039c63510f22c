// SPDX-License-Identifier: MIT
//
// Memory that is shareable from the start.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "segment/page_size.h"
#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

TEST(OwnMemory, IsZeroedAlignedAndFreed) {
  PageTable table;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{5000}, 2 * kMiB, 5 * kMiB + 1}) {
    for (const uint32_t flags : {0U, URMA_EXT_ALLOC_HUGE}) {
      auto* const memory = static_cast<char*>(table.allocate(bytes, flags));
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(address(memory) % (bytes >= 2 * kMiB ? 2 * kMiB : page_bytes()), 0u);
      for (uint64_t at = 0; at < bytes; ++at) ASSERT_EQ(memory[at], 0);
      std::memset(memory, 1, bytes);
      EXPECT_FALSE(table.deallocate(memory + 1));
      EXPECT_TRUE(table.deallocate(memory));
      EXPECT_FALSE(table.deallocate(memory));
    }
  }
  EXPECT_EQ(table.allocate(UINT64_MAX, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(OwnMemory, IsHandedOutWithoutMoving) {
  PageTable table;
  table.set_in_place(false);
  const uint64_t bytes = page_bytes() + 904;
  auto* const memory = static_cast<char*>(table.allocate(bytes, 0));
  ASSERT_NE(memory, nullptr);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory, bytes, &range, kReaders);
  ASSERT_EQ(parts.size(), 1u);
  ASSERT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  EXPECT_EQ(parts[0].len, bytes);
  struct stat status;
  ::fstat(parts[0].fd, &status);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), 2 * page_bytes());
  EXPECT_NE(::fcntl(parts[0].fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
  EXPECT_FALSE(PeerMapping(parts[0]).mapped());
  PeerMapping reader(parts[0], PROT_READ);
  memory[bytes - 1] = 7;
  EXPECT_EQ(reader.get()[bytes - 1], 7);
  table.remove(range);
  memory[bytes - 1] = 8;
  EXPECT_EQ(memory[bytes - 1], 8);
  EXPECT_TRUE(table.deallocate(memory));
}

TEST(OwnMemory, APartIsNotHandedOut) {
  PageTable table;
  auto* const memory = static_cast<char*>(table.allocate(4 * page_bytes(), 0));
  SharedPages::RangeId range;
  auto parts = shared_parts(table, memory + page_bytes(), 2 * page_bytes(), &range);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_PART);
  table.remove(range);
  // Except to importers that have the whole already.
  SharedPages::RangeId whole;
  SharedPages::RangeId other;
  shared_parts(table, memory, 4 * page_bytes(), &whole);
  parts = shared_parts(table, memory + page_bytes(), 2 * page_bytes(), &range);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  EXPECT_EQ(parts[0].offset, page_bytes());
  parts = shared_parts(table, memory, 4 * page_bytes(), &other, kReaders);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_OTHER_TOKEN);
  table.remove(whole);
  table.remove(range);
  table.remove(other);
  EXPECT_TRUE(table.deallocate(memory));
}

TEST(OwnMemory, MovesAwayFromFormerImporters) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  constexpr uint64_t kBytes = 5 * kMiB;
  auto* const memory = static_cast<char*>(table.allocate(kBytes, 0));
  for (uint64_t at = 0; at < 3 * kMiB; at += kPage) memory[at] = 1;
  SharedPages::RangeId range;
  auto parts = shared_parts(table, memory, kBytes, &range, kReaders);
  PeerMapping former(parts[0], PROT_READ);
  std::atomic<bool> stop{false};
  uint64_t writes = 0;
  auto* const counter = reinterpret_cast<volatile uint64_t*>(memory + 2 * kMiB + 64);
  std::thread writer([&] {
    while (!stop.load(std::memory_order_relaxed)) *counter = ++writes;
  });
  table.remove(range);
  stop.store(true, std::memory_order_relaxed);
  writer.join();
  EXPECT_EQ(*counter, writes);
  memory[0] = 2;
  memory[4 * kMiB] = 3;
  EXPECT_EQ(former.get()[0], 1);
  EXPECT_EQ(former.get()[4 * kMiB], 0);
  // And can now be given to others.
  parts = shared_parts(table, memory, kBytes, &range, kWriters);
  ASSERT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  PeerMapping peer(parts[0]);
  ASSERT_TRUE(peer.mapped());
  peer.get()[1] = 9;
  EXPECT_EQ(memory[1], 9);
  table.remove(range);
  EXPECT_EQ(memory[kMiB], 1);
  EXPECT_TRUE(table.deallocate(memory));
}

// Advice for a part makes an area of it, and the others.
TEST(OwnMemory, MovesAwayInSeveralAreas) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  constexpr uint64_t kBytes = 5 * kMiB;
  auto* const memory = static_cast<char*>(table.allocate(kBytes, 0));
  fill(memory, kBytes);
  ASSERT_EQ(::madvise(memory + kPage, kPage, MADV_DONTDUMP), 0);
  ASSERT_EQ(::madvise(memory + 3 * kMiB, kPage, MADV_DONTDUMP), 0);
  SharedPages::RangeId range;
  auto parts = shared_parts(table, memory, kBytes, &range, kReaders);
  PeerMapping former(parts[0], PROT_READ);
  table.remove(range);
  EXPECT_TRUE(is_filled(memory, kBytes));
  for (uint64_t at = 0; at < kBytes; at += kPage) memory[at + 1] = 5;
  for (uint64_t at = 0; at < kBytes; at += kPage) ASSERT_EQ(former.get()[at + 1], 0) << at;
  parts = shared_parts(table, memory, kBytes, &range, kWriters);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  table.remove(range);
  EXPECT_TRUE(is_filled(memory, kBytes));
  EXPECT_TRUE(table.deallocate(memory));
}

TEST(OwnMemory, AFailedStepOfTheMoveIsUndone) {
  SKIP_UNLESS_IN_PLACE();
  for (const auto step : {FreezeStep::kPark, FreezeStep::kSpare, FreezeStep::kSwap,
                          FreezeStep::kWrite, FreezeStep::kMap}) {
    for (const auto& audience : {kReaders, kWriters}) {
      PageTable table;
      constexpr uint64_t kBytes = kMiB;
      auto* const memory = static_cast<char*>(table.allocate(kBytes, 0));
      fill(memory, kBytes);
      SharedPages::RangeId range;
      shared_parts(table, memory, kBytes, &range, audience);
      table.fail_at({step, EIO, 0});
      table.remove(range);
      EXPECT_TRUE(is_filled(memory, kBytes));
      memory[1] = 2;
      table.fail_at({});
      // Former importers still have it, so no one else gets it.
      auto parts = shared_parts(table, memory, kBytes, &range, {9, 0, 0, URMA_ACCESS_READ});
      EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_OTHER_TOKEN) << int(step);
      table.remove(range);
      parts = shared_parts(table, memory, kBytes, &range, audience);
      EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
      table.remove(range);
      EXPECT_TRUE(is_filled(memory, kBytes));
      EXPECT_TRUE(table.deallocate(memory));
    }
  }
}

}  // namespace
}  // namespace urma
