/* SPDX-License-Identifier: MIT */

// Datagrams: a peer that is killed.

#include "test/ofi/rdm.h"

namespace urma_test {
namespace {

using KillTest = ProcessTest;

TEST_F(KillTest, AKilledPeerEndsWhatWaitsForIt) {
  Child victim("victim", [](Channel& channel) {
    Node node;
    node.enable();
    channel.send(node.name());
    const fi_addr_t peer = node.insert(channel.receive<sockaddr_in6>());
    // Announced here, and granted there after the kill at the latest.
    const std::vector<char> bytes = pattern(1 << 20, 1);
    EXPECT_EQ(fi_tsend(node.ep, bytes.data(), bytes.size(), nullptr, peer, 1, nullptr), 0);
    EXPECT_EQ(fi_tsend(node.ep, bytes.data(), 8, nullptr, peer, 2, nullptr), 0);
    next({&node});
    channel.sync();
    channel.receive<char>();
  });
  Child survivor("survivor", [](Channel& channel) {
    Node node;
    node.enable();
    channel.send(node.name());
    const fi_addr_t peer = node.insert(channel.receive<sockaddr_in6>());
    std::vector<char> room(1 << 20), other(8), any(8), word(8);
    EXPECT_EQ(fi_trecv(node.ep, word.data(), 8, nullptr, FI_ADDR_UNSPEC, 2, 0, &word), 0);
    EXPECT_EQ(next({&node}).entry.op_context, &word);
    EXPECT_EQ(fi_trecv(node.ep, other.data(), 8, nullptr, peer, 9, 0, &other), 0);
    EXPECT_EQ(fi_trecv(node.ep, any.data(), 8, nullptr, FI_ADDR_UNSPEC, 9, 0, &any), 0);
    EXPECT_EQ(fi_tsend(node.ep, room.data(), room.size(), nullptr, peer, 1, &node), 0);
    channel.sync();
    channel.receive<char>();
    EXPECT_EQ(fi_trecv(node.ep, room.data(), room.size(), nullptr, peer, 1, 0, &room), 0);
    const auto killed = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; i++) EXPECT_EQ(next({&node}).entry.err, FI_ECONNRESET);
    EXPECT_LT(std::chrono::steady_clock::now() - killed, patience(seconds(2)));
    EXPECT_EQ(fi_cancel(&node.ep->fid, &any), 0);
  });
  introduce<sockaddr_in6>(victim, survivor);
  victim.channel().sync();
  survivor.channel().sync();
  victim.kill();
  survivor.channel().send('k');
  survivor.expect_success();
}

}  // namespace
}  // namespace urma_test
