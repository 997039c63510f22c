// SPDX-License-Identifier: MIT
//
// Mode RC: what happens to outstanding requests when a jetty is unbound.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/party.h"

namespace urma_test {
namespace {

using UnbindTest = ProcessTest;

// In such a round the peer looks for messages only after the unbind, and has receives for a part of
// them, so that some are outstanding then, however busy the machine is.
bool peer_waits(int round) { return round % 4 == 0; }

// Of the requests outstanding when a side unbinds, the peer has received exactly those that
// complete with success; the rest is flushed, and never arrives.
TEST_F(UnbindTest, UnderTraffic) {
  constexpr int kRounds = 60;
  constexpr uint64_t kRequests = 40;
  run_two(
      "unbinding",
      [](Channel& channel) {
        std::mt19937 random(4711);
        Party party;
        urma_target_jetty_t* peer = party.endpoint.import(channel.swap(party.endpoint.queue_id()));
        urma_target_seg_t* remote = party.endpoint.import(channel.receive<SegmentId>());
        urma_sge_t here = piece(party.segment, party.memory.data() + kBufferSize, kBufferSize);
        urma_sge_t there = piece(remote, remote->seg.ubva.va + kBufferSize, kBufferSize);
        uint64_t flushed = 0;
        for (int round = 0; round < kRounds; ++round) {
          channel.sync();
          party.endpoint.bind(peer);
          for (uint64_t i = 0; i < kRequests; ++i) {
            here.len = there.len = random() % 4 == 0 ? kBufferSize : 64;
            party.endpoint.post(i % 5 == 3   ? write_request(nullptr, &here, &there, i)
                                : i % 5 == 4 ? write_imm_request(nullptr, &here, &there, i, i)
                                             : send_request(nullptr, &here, i));
          }
          uint64_t done = 0, received = 0;
          const uint64_t flushed_before = flushed;
          const auto take = [&] {
            const urma_cr_t cr = wait_for(party.endpoint.send_jfc);
            EXPECT_EQ(cr.user_ctx, done++);
            EXPECT_TRUE(cr.status == URMA_CR_SUCCESS || cr.status == URMA_CR_WR_FLUSH_ERR);
            if (cr.status != URMA_CR_SUCCESS) {
              ++flushed;
            } else if (cr.user_ctx % 5 != 3) {
              // Messages are received in order: none after a flushed one.
              EXPECT_EQ(flushed, flushed_before);
              ++received;
            }
          };
          const uint64_t before = peer_waits(round) ? 0 : random() % kRequests;
          while (done < before) take();
          EXPECT_EQ(urma_unbind_jetty(party.endpoint.jetty), URMA_SUCCESS);
          while (done < kRequests) take();
          // Free at once: no one reads it any more.
          std::memset(party.memory.data() + kBufferSize, round, kBufferSize);
          channel.send(received);
        }
        EXPECT_GT(flushed, 0u);
        channel.sync();
      },
      "other",
      [](Channel& channel) {
        Party party;
        party.endpoint.bind(party.endpoint.import(channel.swap(party.endpoint.queue_id())));
        channel.send(party.endpoint.segment_id(party.segment));
        for (uint64_t i = 0; i < kRequests / 2; ++i) party.post_receive();
        uint64_t received = 0;
        for (int round = 0; round < kRounds; ++round) {
          channel.sync();
          const auto take = [&] {
            urma_cr_t cr;
            if (urma_poll_jfc(party.endpoint.receive_jfc, 1, &cr) == 0) return false;
            EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
            ++received;
            party.post_receive();
            return true;
          };
          while (!peer_waits(round) && !channel.has_message()) take();
          const auto completed = channel.receive<uint64_t>();
          for (int i = 0; i < 100; ++i) take();
          EXPECT_EQ(std::exchange(received, 0), completed) << round;
        }
        channel.sync();
      });
}

// Without a receive nothing is received, and a flush does not wait for one.
TEST_F(UnbindTest, EndsMessagesThatWaitForAReceive) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* other = party.add_jetty();
    urma_target_jetty_t* target = party.import(other->jetty_id.id);
    EXPECT_EQ(urma_bind_jetty(other, party.import(party.endpoint.jetty->jetty_id.id)),
              URMA_SUCCESS);
    for (uint64_t round = 0; round < 20; ++round) {
      party.endpoint.bind(target);
      for (uint64_t i = 0; i < 10; ++i) party.send(i % 3 == 0 ? 100000 : 8);
      EXPECT_EQ(urma_unbind_jetty(party.endpoint.jetty), URMA_SUCCESS);
      // Requests posted to the same peer in the meantime come after.
      party.endpoint.bind(target);
      party.send(8, 77);
      for (int i = 0; i < 10; ++i) {
        wait_for_status(party.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR);
      }
      party.post_receive(round);
      EXPECT_EQ(wait_for_success(party.endpoint.receive_jfc, round).completion_len, 8u);
      wait_for_success(party.endpoint.send_jfc, 77);
      EXPECT_EQ(urma_unbind_jetty(party.endpoint.jetty), URMA_SUCCESS);
    }
  });
}

}  // namespace
}  // namespace urma_test
