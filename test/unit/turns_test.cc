// SPDX-License-Identifier: MIT
//
// The order in which a poll looks at many sources.
#include "jetty/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace urma {
namespace {

constexpr int kPlaces = 1000;
constexpr size_t kAtOnce = 4;
constexpr int kPatience = 256;
constexpr int kEager = 64;

struct Place {
  int number;
  uint32_t silence = 0;
};

class TurnsTest : public testing::Test {
 protected:
  TurnsTest() {
    for (int i = 0; i < kPlaces; ++i) places_.push_back({i});
  }
  // The numbers of the sources that one turn looks at; those in `lively` have something, and there
  // is room for the entries of `most` of them.
  std::vector<int> take(const std::vector<int>& lively, size_t most = SIZE_MAX) {
    std::vector<int> seen;
    size_t got = 0;
    turns_.take(
        places_, [](Place& place) -> uint32_t& { return place.silence; },
        [&](const Place& place) {
          seen.push_back(place.number);
          const bool had = has(lively, place.number);
          got += had ? 1 : 0;
          return had;
        },
        [&] { return got >= most; });
    return seen;
  }
  static bool has(const std::vector<int>& numbers, int number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  }
  // Turns until it is looked at.
  int turns_until(int number, const std::vector<int>& lively, size_t most = SIZE_MAX) {
    for (int turn = 1; turn <= kPlaces; ++turn) {
      if (has(take(lively, most), number)) return turn;
    }
    return 0;
  }

  Turns turns_{kAtOnce};
  std::vector<Place> places_;
};

TEST_F(TurnsTest, SilentPlacesArePolledInTurn) {
  std::vector<int> count(kPlaces);
  for (size_t turn = 0; turn < kPlaces; ++turn) {
    const auto seen = take({});
    EXPECT_EQ(seen.size(), kAtOnce);
    for (const int number : seen) ++count[number];
  }
  for (const int times : count) EXPECT_EQ(times, static_cast<int>(kAtOnce));
}

TEST_F(TurnsTest, ActivePlacesArePolledEachTime) {
  const std::vector<int> lively = {3, 500, 999};
  for (const int number : lively) EXPECT_GT(turns_until(number, lively), 0);
  for (int turn = 0; turn < kEager; ++turn) take(lively);
  for (int turn = 0; turn < 100; ++turn) {
    const auto seen = take(lively);
    EXPECT_EQ(seen.size(), kAtOnce + lively.size());
    for (const int number : lively) EXPECT_TRUE(has(seen, number)) << number;
  }
}

// After finding one silent source active, it looks everywhere for the next one.
TEST_F(TurnsTest, AllArePolledForAWhileAfterActivity) {
  EXPECT_GT(turns_until(500, {500}), 1);
  for (const int number : {7, 600, 501, 499}) {
    EXPECT_EQ(turns_until(number, {number}), 1) << number;
    for (int turn = 1; turn < kEager; ++turn) EXPECT_EQ(take({}).size(), size_t{kPlaces});
  }
  take({});
  EXPECT_LT(take({}).size(), size_t{kPlaces});
}

TEST_F(TurnsTest, APlaceThatFallsSilentIsPolledInTurnAgain) {
  EXPECT_GT(turns_until(500, {500}), 0);
  for (int turn = 0; turn < kPatience - 1; ++turn) EXPECT_TRUE(has(take({}), 500));
  take({});
  for (int turn = 0; turn < kPlaces; ++turn) EXPECT_EQ(take({}).size(), kAtOnce);
}

// Each turn goes on where the last one has found enough.
TEST_F(TurnsTest, PlacesUsedInTurnAreFoundAtOnce) {
  for (int number = 0; number < kPlaces; ++number) {
    EXPECT_GT(turns_until(number, {number}, 1), 0) << number;
  }
  size_t looks = 0;
  for (int number = 0; number < kPlaces; ++number) looks += take({number}, 1).size();
  EXPECT_LT(looks, size_t{2 * kPlaces});
}

// Sources that fill each turn starve neither others nor each other.
TEST_F(TurnsTest, NoPlaceStarves) {
  std::vector<int> lively;
  for (int i = 0; i < 40; ++i) lively.push_back(i * 25);
  for (const int number : lively) EXPECT_GT(turns_until(number, lively), 0) << number;
  for (const size_t most : {size_t{1}, size_t{17}, size_t{20}}) {
    for (const int number : {0, 25, 500, 975}) {
      EXPECT_GT(turns_until(number, lively, most), 0) << number << " of " << most;
    }
  }
}

TEST_F(TurnsTest, TheListMayShrink) {
  EXPECT_GT(turns_until(999, {999}), 0);
  std::erase_if(places_, [](const Place& place) { return place.number != 7; });
  turns_.forget();
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(has(take({7}), 7));
  places_.clear();
  turns_.forget();
  EXPECT_TRUE(take({}).empty());
}

// One that could always take everything, and a rhythm of calls that get nothing.
TEST(Alternation, NoRhythmOfCallsPrefersOneOfTwo) {
  Alternation alternation;
  int taken[2] = {};
  int room = 0;
  const auto take = [&](int which) {
    return [&, which] {
      taken[which] += room;
      return std::exchange(room, 0) != 0;
    };
  };
  for (int round = 0; round < 100; ++round) {
    room = 4;
    EXPECT_TRUE(alternation.take(take(0), take(1)));
    EXPECT_FALSE(alternation.take(take(0), take(1)));
  }
  EXPECT_EQ(taken[0], 200);
  EXPECT_EQ(taken[1], 200);
}

}  // namespace
}  // namespace urma
