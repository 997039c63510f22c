// SPDX-License-Identifier: MIT
//
// Watches of owners, with a finder and a time that the test controls.
#include "jetty/peer_watches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "test/verbs/fake_service.h"

namespace urma {
namespace {

using State = PeerWatches::State;
using Owner = PeerWatches::Owner;
using Targets = std::vector<uint64_t>;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kSecond = 1000 * kMs;
constexpr OwnerKey kOwner = {1, 2, 3, 4};
constexpr OwnerKey kNextOwner = {5, 6, 7, 8};

struct Watcher : PeerWatcher {
  void peer_gone(uint64_t target) override {
    targets.push_back(target);
    if (on_gone) on_gone();
  }
  Targets targets;
  std::function<void()> on_gone;
};

class PeerWatchesTest : public testing::Test {
 protected:
  void watch(Watcher* watcher, uint64_t target = 7) {
    watches_.watch(watcher, IdKind::kJfr, {}, static_cast<uint32_t>(target), target);
  }
  // The answer to the first look that has none.
  void answer(const std::optional<Owner>& owner) {
    ASSERT_FALSE(looks_.empty());
    const PeerWatches::OnFound found = std::exchange(looks_.front(), nullptr);
    looks_.erase(looks_.begin());
    found(owner);
  }
  // Watches that owner, and has found it.
  void watch_found(Watcher* watcher, uint64_t target = 7) {
    watch(watcher, target);
    answer(Owner{kOwner});
  }

  FakeService service_;
  std::vector<PeerWatches::OnFound> looks_;  // without an answer
  uint32_t asked_id_ = 0;
  bool find_throws_ = false;
  bool heed_throws_ = false;
  std::vector<std::pair<OwnerKey, bool>> heeded_;
  PeerWatches watches_{&service_,
                       [this](IdKind, const urma_eid_t&, uint32_t id, PeerWatches::OnFound found) {
                         asked_id_ = id;
                         looks_.push_back(std::move(found));
                         if (find_throws_) throw std::bad_alloc();
                       },
                       [this](const OwnerKey& owner, bool heeded) {
                         if (heed_throws_) throw std::bad_alloc();
                         heeded_.emplace_back(owner, heeded);
                       }};
  Watcher watcher_;
};

using Heeded = std::vector<std::pair<OwnerKey, bool>>;

TEST_F(PeerWatchesTest, ALostOwnerIsReportedOnceToThoseThatWatchIt) {
  Watcher second, elsewhere;
  watch_found(&watcher_, 7);
  watch_found(&second, 8);
  watch(&elsewhere, 9);
  answer(Owner{kNextOwner});
  EXPECT_EQ(asked_id_, 9U);
  EXPECT_EQ(heeded_, (Heeded{{kOwner, true}, {kOwner, true}, {kNextOwner, true}}));
  watches_.lost(kOwner);
  watches_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_EQ(second.targets, Targets{8});
  EXPECT_TRUE(elsewhere.targets.empty());
  EXPECT_EQ(heeded_.size(), 3U);
  EXPECT_EQ(service_.timers(), 0U);
}

TEST_F(PeerWatchesTest, AnAbsentOwnerIsLookedUpAtGrowingIntervals) {
  watch(&watcher_);
  std::vector<uint64_t> delays_ms;
  for (int i = 0; i < 9; ++i) {
    answer(std::nullopt);
    const uint64_t before = service_.now_ns();
    ASSERT_TRUE(service_.run_until([&] { return !looks_.empty(); }, 2 * kSecond));
    delays_ms.push_back((service_.now_ns() - before) / kMs);
  }
  EXPECT_EQ(delays_ms, (std::vector<uint64_t>{10, 20, 40, 80, 160, 320, 640, 1000, 1000}));
  answer(Owner{kOwner});
  EXPECT_EQ(service_.timers(), 0U);
  EXPECT_TRUE(watcher_.targets.empty());
  watches_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

TEST_F(PeerWatchesTest, AnOwnerThatIsGoneWhenFoundIsReportedAtOnce) {
  watch(&watcher_);
  answer(Owner{kOwner, State::kGone});
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_TRUE(heeded_.empty());
  EXPECT_EQ(service_.timers(), 0U);
  watch_found(&watcher_, 8);
  watches_.look_again(kOwner);
  answer(Owner{kNextOwner, State::kGone});
  EXPECT_EQ(watcher_.targets, (Targets{7, 8}));
}

TEST_F(PeerWatchesTest, AnOwnerThatRefusesIsLookedUpAgain) {
  watch(&watcher_);
  answer(Owner{kOwner, State::kRefused});
  EXPECT_TRUE(watcher_.targets.empty() && looks_.empty());
  service_.run_for(10 * kMs);
  answer(Owner{kNextOwner});
  watches_.lost(kOwner);
  EXPECT_TRUE(watcher_.targets.empty());
  watches_.lost(kNextOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

TEST_F(PeerWatchesTest, AnOwnerThatRefusedAndThenIsMissingIsGone) {
  watch(&watcher_);
  answer(Owner{kOwner, State::kRefused});
  service_.run_for(10 * kMs);
  answer(std::nullopt);
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_EQ(service_.timers(), 0U);
}

TEST_F(PeerWatchesTest, LookNowDoesNotWaitForTheNextLook) {
  watch(&watcher_, 7);
  answer(std::nullopt);
  watches_.look_now(IdKind::kJfr, {}, 8);
  watches_.look_now(IdKind::kJetty, {}, 7);
  EXPECT_TRUE(looks_.empty());
  watches_.look_now(IdKind::kJfr, {}, 7);
  EXPECT_EQ(service_.timers(), 0U);
  // It looks already.
  watches_.look_now(IdKind::kJfr, {}, 7);
  ASSERT_EQ(looks_.size(), 1U);
  answer(Owner{kOwner});
  watches_.look_now(IdKind::kJfr, {}, 7);
  EXPECT_TRUE(looks_.empty());
  watches_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

TEST_F(PeerWatchesTest, AnOwnerThatIsNamedIsNotLookedFor) {
  watch(&watcher_, 7);
  answer(std::nullopt);
  watches_.look_now(IdKind::kJfr, {}, 7, Owner{kOwner});
  EXPECT_TRUE(looks_.empty());
  EXPECT_EQ(service_.timers(), 0U);
  watches_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

TEST_F(PeerWatchesTest, AnOwnerIsNamedDuringALook) {
  watch(&watcher_, 7);
  watches_.look_now(IdKind::kJfr, {}, 7, Owner{kOwner});
  answer(std::nullopt);
  EXPECT_EQ(service_.timers(), 0U);
  watches_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

TEST_F(PeerWatchesTest, LookAgainFindsWhoHasTheIdNow) {
  watch_found(&watcher_);
  watches_.look_again(kNextOwner);
  EXPECT_TRUE(looks_.empty());
  watches_.look_again(kOwner);
  watches_.lost(kOwner);
  EXPECT_TRUE(watcher_.targets.empty());
  answer(Owner{kNextOwner});
  watches_.lost(kOwner);
  EXPECT_TRUE(watcher_.targets.empty());
  watches_.look_again(kNextOwner);
  answer(std::nullopt);
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_EQ(service_.timers(), 0U);
}

TEST_F(PeerWatchesTest, AFinderThatThrewMayStillAnswer) {
  find_throws_ = true;
  EXPECT_THROW(watch(&watcher_), std::bad_alloc);
  find_throws_ = false;
  EXPECT_EQ(service_.timers(), 1U);
  answer(Owner{kOwner});
  EXPECT_EQ(service_.timers(), 0U);
  watches_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
  service_.run_for(kSecond);
  EXPECT_TRUE(looks_.empty());
}

TEST_F(PeerWatchesTest, ALossReportedByAFinderThatThrewEndsItsTimer) {
  find_throws_ = true;
  EXPECT_THROW(watch(&watcher_), std::bad_alloc);
  find_throws_ = false;
  answer(Owner{kOwner, State::kGone});
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_EQ(service_.timers(), 0U);
  service_.run_for(kSecond);
  EXPECT_TRUE(looks_.empty());
}

TEST_F(PeerWatchesTest, OneOfTwoAnswersToAWatchCounts) {
  find_throws_ = true;
  EXPECT_THROW(watch(&watcher_), std::bad_alloc);
  find_throws_ = false;
  service_.run_for(10 * kMs);
  ASSERT_EQ(looks_.size(), 2U);
  answer(Owner{kOwner});
  answer(Owner{kNextOwner});
  EXPECT_EQ(heeded_, (Heeded{{kOwner, true}}));
  watches_.lost(kNextOwner);
  EXPECT_TRUE(watcher_.targets.empty());
  watches_.unwatch(&watcher_);
  EXPECT_EQ(heeded_, (Heeded{{kOwner, true}, {kOwner, false}}));
}

TEST_F(PeerWatchesTest, AFinderThatThrowsOnATimerIsAskedAgain) {
  watch(&watcher_);
  answer(std::nullopt);
  find_throws_ = true;
  service_.run_for(10 * kMs);
  looks_.clear();
  find_throws_ = false;
  service_.run_for(20 * kMs);
  answer(Owner{kOwner});
  EXPECT_EQ(heeded_.size(), 1U);
}

TEST_F(PeerWatchesTest, AnOwnerThatCannotBeHeededIsLookedUpAgain) {
  watch(&watcher_);
  heed_throws_ = true;
  EXPECT_THROW(answer(Owner{kOwner}), std::bad_alloc);
  heed_throws_ = false;
  service_.run_for(10 * kMs);
  // It was never heeded, so it may live although it does not answer.
  answer(std::nullopt);
  EXPECT_TRUE(watcher_.targets.empty());
  service_.run_for(20 * kMs);
  answer(Owner{kOwner});
  EXPECT_EQ(heeded_, (Heeded{{kOwner, true}}));
}

TEST_F(PeerWatchesTest, AWatcherWatchesItsLastTarget) {
  watch_found(&watcher_, 7);
  watch(&watcher_, 8);
  EXPECT_EQ(heeded_, (Heeded{{kOwner, true}, {kOwner, false}}));
  watch(&watcher_, 9);
  answer(Owner{kOwner});  // of 8: too late
  EXPECT_EQ(heeded_.size(), 2U);
  answer(Owner{kNextOwner});
  watches_.lost(kOwner);
  EXPECT_TRUE(watcher_.targets.empty());
  watches_.unwatch(&watcher_, 8);
  watches_.lost(kNextOwner);
  EXPECT_EQ(watcher_.targets, Targets{9});
}

TEST_F(PeerWatchesTest, AWatchEndsInEachState) {
  // Before the answer.
  watch(&watcher_);
  watches_.unwatch(&watcher_, 7);
  answer(Owner{kOwner});
  EXPECT_TRUE(heeded_.empty());
  // While it waits to look again.
  watch(&watcher_);
  answer(std::nullopt);
  EXPECT_EQ(service_.timers(), 1U);
  watches_.unwatch(&watcher_);
  EXPECT_EQ(service_.timers(), 0U);
  // With an owner.
  watch_found(&watcher_);
  watches_.unwatch(&watcher_);
  EXPECT_EQ(heeded_, (Heeded{{kOwner, true}, {kOwner, false}}));
  // After the report.
  watch_found(&watcher_);
  watches_.lost(kOwner);
  watches_.unwatch(&watcher_);
  EXPECT_EQ(heeded_.size(), 3U);
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_TRUE(looks_.empty());
}

TEST_F(PeerWatchesTest, ALossTakenForOneCountsEvenBeforeTheOwnerIsFound) {
  Watcher second, elsewhere;
  watch_found(&watcher_, 7);
  watch(&second, 8);
  watch(&elsewhere, 9);
  watches_.take_for_lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_EQ(heeded_, (Heeded{{kOwner, true}, {kOwner, false}}));
  answer(Owner{kOwner});
  EXPECT_EQ(second.targets, Targets{8});
  answer(Owner{kNextOwner});
  EXPECT_TRUE(elsewhere.targets.empty());
}

TEST_F(PeerWatchesTest, AWatchThatEndsDuringAReportIsEndedOnce) {
  Watcher second;
  watch_found(&watcher_, 7);
  watch_found(&second, 8);
  watcher_.on_gone = [&] { watches_.unwatch(&second); };
  second.on_gone = [&] { watches_.unwatch(&watcher_); };
  watches_.take_for_lost(kOwner);
  EXPECT_EQ(watcher_.targets.size() + second.targets.size(), 1U);
  EXPECT_EQ(std::count(heeded_.begin(), heeded_.end(), std::pair(kOwner, false)), 2);
}

TEST_F(PeerWatchesTest, StopEndsAllWatches) {
  Watcher waiting, looking;
  watch_found(&watcher_, 7);
  watch(&waiting, 8);
  answer(std::nullopt);
  watch(&looking, 9);
  watches_.stop();
  EXPECT_EQ(service_.timers(), 0U);
  answer(Owner{kOwner, State::kGone});
  watches_.lost(kOwner);
  watch(&watcher_, 7);
  EXPECT_TRUE(looks_.empty());
  EXPECT_TRUE(watcher_.targets.empty() && waiting.targets.empty() && looking.targets.empty());
}

struct TwoWaysTest : PeerWatchesTest {
  TwoWaysTest() {
    const auto choose = [this](IdKind, const urma_eid_t&, uint32_t) { return chosen_; };
    watches_.choose_by(choose);
    others_.choose_by(choose);
  }
  std::vector<PeerWatches::OnFound> other_looks_;
  PeerWatches others_{&service_,
                      [this](IdKind, const urma_eid_t&, uint32_t id, PeerWatches::OnFound found) {
                        asked_id_ = id;
                        other_looks_.push_back(std::move(found));
                      }};
  PeerWatches* chosen_ = &watches_;
};

TEST_F(TwoWaysTest, AWatchMovesToTheWayByWhichItsOwnerCanBeFound) {
  watch(&watcher_);
  answer(std::nullopt);
  chosen_ = &others_;
  service_.run_for(10 * kMs);
  EXPECT_TRUE(looks_.empty());
  ASSERT_EQ(other_looks_.size(), 1U);
  EXPECT_EQ(asked_id_, 7U);
  other_looks_.front()(Owner{kOwner});
  EXPECT_EQ(service_.timers(), 0U);
  watches_.lost(kOwner);
  EXPECT_TRUE(watcher_.targets.empty());
  others_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

// Its owner may have ended before the look ends.
TEST_F(TwoWaysTest, AWatchMovesWhileItLooks) {
  watch(&watcher_, 7);
  ASSERT_EQ(looks_.size(), 1U);
  chosen_ = &others_;
  watches_.look_now(IdKind::kJfr, {}, 7);
  ASSERT_EQ(other_looks_.size(), 1U);
  other_looks_.back()(Owner{kOwner});
  answer(std::nullopt);
  EXPECT_EQ(service_.timers(), 0U);
  EXPECT_TRUE(watcher_.targets.empty());
  others_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

TEST_F(TwoWaysTest, AWatchedOwnerThatIsFoundByAnotherWayIsGone) {
  watch_found(&watcher_);
  chosen_ = &others_;
  watches_.look_again(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
  EXPECT_TRUE(other_looks_.empty());
  EXPECT_EQ(service_.timers(), 0U);
}

TEST_F(TwoWaysTest, AWatchThatCannotMoveStaysAndTriesAgain) {
  watch(&watcher_);
  answer(std::nullopt);
  watches_.choose_by(
      [](IdKind, const urma_eid_t&, uint32_t) -> PeerWatches* { throw std::bad_alloc(); });
  service_.run_for(10 * kMs);
  EXPECT_TRUE(looks_.empty());
  EXPECT_EQ(service_.timers(), 1U);
  watches_.choose_by([this](IdKind, const urma_eid_t&, uint32_t) { return chosen_; });
  service_.run_for(kSecond);
  answer(Owner{kOwner});
  watches_.lost(kOwner);
  EXPECT_EQ(watcher_.targets, Targets{7});
}

}  // namespace
}  // namespace urma
