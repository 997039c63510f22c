// SPDX-License-Identifier: MIT
//
// Owners that wait for the writes of others to unregistered memory.
#include "segment/copy_marks.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <thread>

#include "urma/base/clock.h"

namespace urma {
namespace {

// Longer than a test takes.
constexpr uint64_t kLongNs = 60'000'000'000;

TEST(CopyMarksTest, AnOwnerWaitsForAWriteUnderWay) {
  // Stacks are not aligned so far under the address sanitizer.
  const auto marks = std::make_unique<CopyMarks>();
  CopyMarks::Counts given_up = {};
  EXPECT_TRUE(marks->await(0, &given_up));
  auto mark = std::make_unique<CopyMarks::Mark>(marks.get());
  auto other = std::make_unique<CopyMarks::Mark>(marks.get());
  EXPECT_FALSE(marks->await(monotonic_ns(), &given_up));
  // Not twice for the same ones.
  EXPECT_TRUE(marks->await(0, &given_up));
  other.reset();
  mark.reset();
  mark = std::make_unique<CopyMarks::Mark>(marks.get());
  std::jthread writer([&] { mark.reset(); });
  EXPECT_TRUE(marks->await(monotonic_ns() + kLongNs, &given_up));
}

TEST(CopyMarksTest, ThreadsShareThePlaces) {
  const auto marks = std::make_unique<CopyMarks>();
  CopyMarks::Counts given_up = {};
  std::list<CopyMarks::Mark> all;
  for (size_t i = 0; i < CopyMarks::kPlaces; ++i) all.emplace_back(marks.get());
  std::jthread another([&] { const CopyMarks::Mark mark(marks.get()); });
  all.pop_front();
  another.join();
  all.clear();
  EXPECT_TRUE(marks->await(0, &given_up));
}

}  // namespace
}  // namespace urma
