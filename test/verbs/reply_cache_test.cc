// SPDX-License-Identifier: MIT
//
// Which answers are kept, and for whom.
#include <gtest/gtest.h>

#include <cstring>

#include "test/verbs/control_party.h"
#include "urma/providers/verbs/control_replies.h"

namespace urma::verbs {
namespace {

TEST(ReplyCacheTest, StaysBounded) {
  TicketOffice tickets({1, 2});
  ReplyCache cache(&tickets);
  const DatagramBytes* reply = nullptr;
  uint64_t replaced = 0;
  const auto admit = [&](uint32_t host, uint16_t port, uint64_t transaction, uint64_t now) {
    NetAddress from = address_of(eid_of(1), LinkLayer::kRoce, port);
    std::memcpy(from.ip + 12, &host, sizeof(host));
    const Header header = {7, 1, tickets.issue(from, 7), transaction, 1};
    return cache.admit(from, header, now, &reply, &replaced);
  };
  using enum ReplyCache::Verdict;
  for (uint64_t i = 1; i <= kRequestWindow; ++i) EXPECT_EQ(admit(1, 1, i, 1), kExecute);
  EXPECT_EQ(admit(1, 1, kRequestWindow + 1, 1), kFull);
  // One host with all its ports.
  for (uint16_t port = 2; port < 20000; ++port) admit(1, port, 1, 1);
  EXPECT_EQ(cache.peers(), ReplyCache::kMaxPeers / 4);
  EXPECT_EQ(admit(2, 1, 1, 1), kExecute);
  for (uint32_t host = 3; host < 20000; ++host) admit(host, 1, 1, 1);
  EXPECT_EQ(cache.peers(), ReplyCache::kMaxPeers);
  EXPECT_EQ(admit(30000, 1, 1, 1), kFull);
  // Forgotten after a long silence.
  EXPECT_EQ(admit(30000, 1, 1, 1 + ReplyCache::kForgetNs), kExecute);
  EXPECT_EQ(cache.peers(), 1U);
  EXPECT_EQ(cache.replies(), 1U);
}

TEST(ReplyCacheTest, RestartOfOneHostKeepsTheTicketsOfOthers) {
  TicketOffice tickets({1, 2});
  ReplyCache cache(&tickets);
  const DatagramBytes* reply = nullptr;
  uint64_t replaced = 0;
  const NetAddress one = address_of(eid_of(1), LinkLayer::kRoce, 1);
  const NetAddress other = address_of(eid_of(2), LinkLayer::kRoce, 1);
  const Ticket others = tickets.issue(other, 9);
  const Ticket old = tickets.issue(one, 7), fresh = tickets.issue(one, 8);
  using enum ReplyCache::Verdict;
  EXPECT_EQ(cache.admit(one, {7, 1, old, 1, 1}, 1, &reply, &replaced), kExecute);
  EXPECT_EQ(cache.admit(one, {8, 1, fresh, 1, 1}, 1, &reply, &replaced), kExecute);
  EXPECT_EQ(replaced, 7U);
  EXPECT_TRUE(tickets.valid(others, other, 9));
  // A message of the previous one arrives late.
  EXPECT_EQ(cache.admit(one, {7, 1, old, 2, 1}, 1, &reply, &replaced), kIgnore);
  EXPECT_EQ(replaced, 0U);
}

}  // namespace
}  // namespace urma::verbs
