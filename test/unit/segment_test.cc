// SPDX-License-Identifier: MIT
#include "segment/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <string>
#include <vector>

namespace urma {
namespace {

const urma_eid_t kEid = {{1, 2, 3}};

std::unique_ptr<Segment> make_segment(uint32_t token_id, uint64_t va, uint64_t len, uint32_t token,
                                      uint32_t access) {
  auto segment = std::make_unique<Segment>();
  segment->eid = kEid;
  segment->base = va;
  segment->len = len;
  segment->token_id_value = token_id;
  segment->token_policy = token == 0 ? URMA_TOKEN_NONE : URMA_TOKEN_PLAIN_TEXT;
  segment->token = {token};
  segment->access = access;
  segment->registered = true;
  return segment;
}

TEST(SegmentTable, FindsByTokenIdAndRangeThenComparesTheValue) {
  SegmentTable table;
  auto first = make_segment(7, 0x1000, 0x100, 11, URMA_ACCESS_READ);
  auto second = make_segment(7, 0x2000, 0x100, 22, URMA_ACCESS_READ | URMA_ACCESS_WRITE);
  table.add(first.get());
  table.add(second.get());
  GrantError error;
  const auto grant = table.grant(kEid, 7, 0x2010, 1, {22}, &error);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->base, 0x2000u);
  EXPECT_EQ(grant->len, 0x100u);
  EXPECT_EQ(grant->access, uint32_t{URMA_ACCESS_READ | URMA_ACCESS_WRITE});
  EXPECT_FALSE(table.grant(kEid, 7, 0x1000, 1, {22}, &error).has_value());
  EXPECT_EQ(error, GrantError::kWrongToken);
  EXPECT_FALSE(table.grant(kEid, 7, 0x1000, 1, {0}, &error).has_value());
  EXPECT_FALSE(table.grant(kEid, 7, 0x1101, 1, {11}, &error).has_value());
  EXPECT_EQ(error, GrantError::kNotRegistered);
  EXPECT_FALSE(table.grant(kEid, 8, 0x1000, 1, {11}, &error).has_value());
  EXPECT_FALSE(table.grant(urma_eid_t{{9}}, 7, 0x1000, 1, {11}, &error).has_value());
}

TEST(SegmentTable, NeighboursAndNestedRangesAreDistinguished) {
  SegmentTable table;
  auto first = make_segment(7, 0x1000, 0x100, 0, URMA_ACCESS_READ);
  auto second = make_segment(7, 0x1100, 0x100, 0, URMA_ACCESS_READ);
  auto around = make_segment(7, 0x1000, 0x1000, 0, URMA_ACCESS_READ | URMA_ACCESS_WRITE);
  table.add(first.get());
  table.add(second.get());
  GrantError error;
  EXPECT_EQ(table.grant(kEid, 7, 0x1100, 0x100, {0}, &error)->base, 0x1100u);
  EXPECT_EQ(table.grant(kEid, 7, 0x1000, 0x100, {0}, &error)->base, 0x1000u);
  // Longer than any: the registration in which it begins, with its own bounds.
  EXPECT_EQ(table.grant(kEid, 7, 0x1000, 0x800, {0}, &error)->len, 0x100u);
  table.add(around.get());
  EXPECT_EQ(table.grant(kEid, 7, 0x1000, 0x800, {0}, &error)->len, 0x1000u);
}

TEST(SegmentTable, AnUnregisteredSegmentStaysEnded) {
  SegmentTable table;
  auto segment = make_segment(1, 0x1000, 64, 0, URMA_ACCESS_READ | URMA_ACCESS_WRITE);
  std::vector<SegmentRef> old;
  for (int round = 0; round < 3; ++round) {
    table.add(segment.get());
    EXPECT_TRUE(table.alive(segment->ref));
    old.push_back(segment->ref);
    table.remove(segment.get());
    for (const SegmentRef& ref : old) EXPECT_FALSE(table.alive(ref));
  }
}

TEST(SegmentTable, OnlyTheOwnerKeepsAnInvalidatedSegment) {
  SegmentTable table;
  const auto* words = static_cast<const std::atomic<uint32_t>*>(
      ::mmap(nullptr, SegmentTable::kWordBytes, PROT_READ, MAP_SHARED, table.words_fd(), 0));
  ASSERT_NE(words, MAP_FAILED);
  std::vector<SharedPages::RangeId> taken_back;
  bool stood_when_taken = true;
  auto segment = make_segment(7, 0x1000, 0x100, 11, URMA_ACCESS_READ | URMA_ACCESS_WRITE);
  auto around = make_segment(7, 0x0f00, 0x300, 11, URMA_ACCESS_READ);
  auto secret = make_segment(7, 0x9000, 0x100, 11, 0);
  table.set_take_back([&](SharedPages::RangeId pages) {
    taken_back.push_back(pages);
    stood_when_taken = SegmentTable::alive_in(words, segment->ref);
  });
  segment->pages = 5;
  table.add(around.get());
  table.add(segment.get());
  table.add(secret.get());
  const auto nothing = [] {};
  EXPECT_FALSE(table.invalidate(kEid, 7, 0x1000, 0x100, {12}));
  EXPECT_FALSE(table.invalidate(kEid, 8, 0x1000, 0x100, {11}));
  EXPECT_FALSE(table.invalidate(urma_eid_t{{9}}, 7, 0x1000, 0x100, {11}));
  EXPECT_FALSE(table.invalidate(kEid, 7, 0x9000, 0x100, {11}));
  EXPECT_FALSE(table.invalidate(kEid, 7, 0x9000, 0x100, {11}, segment->ref));
  EXPECT_FALSE(table.invalidate(kEid, 7, 0x1000, 0x100, {12}, segment->ref));
  EXPECT_FALSE(table.invalidate(kEid, 7, 0x1000, 0x100, {11},
                                {segment->ref.index, segment->ref.generation + 2}));
  EXPECT_FALSE(table.invalidate(kEid, 7, 0x1000, 0x100, {11}, {UINT32_MAX, 1}));
  EXPECT_TRUE(SegmentTable::alive_in(words, segment->ref));
  EXPECT_TRUE(table.with_grant(segment->ref, 0x1000, 8, 0, nothing));
  EXPECT_TRUE(taken_back.empty());
  // The one in the descriptor, not one that only covers it.
  EXPECT_TRUE(table.invalidate(kEid, 7, 0x1000, 0x100, {11}));
  EXPECT_EQ(taken_back, std::vector<SharedPages::RangeId>{5});
  EXPECT_FALSE(stood_when_taken);
  // The unregistration removes what is left.
  EXPECT_EQ(segment->pages, 5u);
  EXPECT_FALSE(SegmentTable::alive_in(words, segment->ref));
  EXPECT_FALSE(table.with_grant(segment->ref, 0x1000, 8, 0, nothing));
  EXPECT_TRUE(table.alive(segment->ref));
  EXPECT_TRUE(SegmentTable::alive_in(words, around->ref));
  GrantError error;
  EXPECT_EQ(table.grant(kEid, 7, 0x1000, 0x100, {11}, &error)->base, 0x0f00u);
  table.remove(segment.get());
  EXPECT_FALSE(table.alive(segment->ref));
  table.remove(around.get());
  // A place is reused with another generation.
  const SegmentRef old = segment->ref;
  for (uint32_t i = 0; i < kMaxSegments; ++i) {
    table.add(segment.get());
    EXPECT_TRUE(SegmentTable::alive_in(words, segment->ref));
    EXPECT_FALSE(SegmentTable::alive_in(words, old));
    table.remove(segment.get());
  }
  ::munmap(const_cast<std::atomic<uint32_t>*>(words), SegmentTable::kWordBytes);
}

TEST(SegmentTable, AccessIsCheckedWhenItHappens) {
  SegmentTable table;
  const uint32_t rights = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;
  auto segment = make_segment(1, 0x1000, 64, 0, rights);
  table.add(segment.get());
  int called = 0;
  const auto count = [&] { ++called; };
  EXPECT_TRUE(table.with_grant(segment->ref, 0x1038, 8, URMA_ACCESS_ATOMIC, count));
  EXPECT_FALSE(table.with_grant(segment->ref, 0x1039, 8, URMA_ACCESS_ATOMIC, count));
  EXPECT_FALSE(table.with_grant(segment->ref, 0xff8, 8, URMA_ACCESS_ATOMIC, count));
  EXPECT_FALSE(table.with_grant(segment->ref, UINT64_MAX - 3, 8, URMA_ACCESS_ATOMIC, count));
  EXPECT_FALSE(table.with_grant({kMaxSegments, 1}, 0x1000, 8, URMA_ACCESS_ATOMIC, count));
  EXPECT_FALSE(table.with_grant({segment->ref.index, segment->ref.generation + 2}, 0x1000, 8,
                                URMA_ACCESS_ATOMIC, count));
  EXPECT_EQ(called, 1);
}

TEST(SegmentTable, ImportersCannotWriteTheWords) {
  SegmentTable table;
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, table.words_fd(), 0),
            MAP_FAILED);
  const std::string path = "/proc/self/fd/" + std::to_string(table.words_fd());
  Fd reopened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (reopened.valid()) {
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reopened.get(), 0),
              MAP_FAILED);
  }
  EXPECT_NE(::ftruncate(table.words_fd(), 0), 0);
}

}  // namespace
}  // namespace urma
