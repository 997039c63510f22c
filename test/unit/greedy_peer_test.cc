// SPDX-License-Identifier: MIT
//
// How many descriptors and how much time of an owner a peer can take.
#include <gtest/gtest.h>

#include <deque>

#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

using GreedyPeerTest = urma_test::ProcessTest;

constexpr size_t kMostConnections = 16;  // of one process

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

TEST_F(GreedyPeerTest, IsDisconnectedAfterASecondOfSilence) {
  Node owner;
  const auto begin = Clock::now();
  RawPeer silent(owner);
  Reply nothing;
  EXPECT_FALSE(silent.receive(&nothing, sizeof(nothing)));
  EXPECT_GE(Clock::now() - begin, milliseconds(900));
  EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
}

}  // namespace
}  // namespace urma::shm
