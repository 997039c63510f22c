// SPDX-License-Identifier: MIT
//
// How many descriptors and how much time of an owner a peer can take.
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

using GreedyPeerTest = urma_test::ProcessTest;

constexpr size_t kMostConnections = 16;  // of one process
constexpr int kAtOnce = 32;              // connections without a wait

TEST_F(GreedyPeerTest, HasSixteenConnectionsAtMost) {
  Node owner;
  const auto before = open_descriptors();
  {
    std::deque<RawPeer> peers;
    for (size_t i = 0; i < kMostConnections; ++i) {
      EXPECT_EQ(peers.emplace_back(owner).greet(), Answer::kAccepted) << i;
    }
    EXPECT_EQ(RawPeer(owner).greet(), Answer::kUnreachable);
    // A process that closes one may open another.
    peers.pop_back();
    EXPECT_TRUE(eventually([&] { return RawPeer(owner).greet() == Answer::kAccepted; }));
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

// Each connection costs the owner's threads more than the peer.
TEST_F(GreedyPeerTest, ComesAgainAtAPace) {
  constexpr int kMore = 10;
  constexpr milliseconds kInterval{20};
  Node owner;
  const auto begin = Clock::now();
  for (int i = 0; i < kAtOnce + kMore; ++i) EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
  EXPECT_GE(Clock::now() - begin, kMore * kInterval);
}

TEST_F(GreedyPeerTest, MayGoWhileItWaitsAndSoMayItsOwner) {
  const auto before = open_descriptors();
  {
    std::optional<RawPeer> waits;
    Node owner;
    for (int i = 0; i < kAtOnce; ++i) EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
    { const RawPeer gone(owner); }
    EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
    waits.emplace(owner);
    owner.settle();
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

TEST_F(GreedyPeerTest, IsDisconnectedAfterASecondOfSilence) {
  Node owner;
  const auto begin = Clock::now();
  RawPeer silent(owner);
  Reply nothing;
  EXPECT_FALSE(silent.receive(&nothing, sizeof(nothing)));
  EXPECT_GE(Clock::now() - begin, milliseconds(900));
  EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
}

// The greeting came in time; it is the owner that has waited for a processor.
TEST_F(GreedyPeerTest, IsHeardByAnOwnerThatIsLate) {
  Node owner;
  RawPeer peer(owner);
  owner.settle();  // it has accepted the connection
  {
    const Pause late(owner);
    EXPECT_TRUE(peer.send_greeting());
    const auto due = Clock::now() + milliseconds(1100);
    EXPECT_TRUE(eventually([&] { return Clock::now() > due; }));
  }
  Reply welcome;
  ASSERT_TRUE(peer.receive(&welcome, sizeof(welcome)));
  EXPECT_EQ(welcome.answer, Answer::kAccepted);
}

// A peer that waits for a processor as well gets as many looks as one of an owner in time.
TEST_F(GreedyPeerTest, IsAwaitedByAnOwnerThatIsLate) {
  Node owner;
  RawPeer peer(owner);
  owner.settle();
  {
    const Pause late(owner);
    const auto due = Clock::now() + milliseconds(1100);
    EXPECT_TRUE(eventually([&] { return Clock::now() > due; }));
  }
  owner.settle();
  EXPECT_EQ(peer.greet(), Answer::kAccepted);
}

}  // namespace
}  // namespace urma::shm
