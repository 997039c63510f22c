// SPDX-License-Identifier: MIT
//
// Mode RC: jetties bound one to one.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cerrno>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/party.h"

namespace urma_test {
namespace {

using BindTest = ProcessTest;

// Each side binds and sends without synchronization; every second round one bind comes late.
TEST_F(BindTest, BothSidesAtOnce) {
  const auto side = [](bool first) {
    return [first](Channel& channel) {
      Config config = rc_config();
      config.lock_free = first;
      Party party(config);
      const QueueId other = channel.swap(party.endpoint.queue_id());
      for (uint64_t round = 0; round < 300; ++round) {
        urma_target_jetty_t* peer = party.endpoint.import(other);
        EXPECT_EQ(peer->tp.tpn, UINT32_MAX);
        party.post_receive(round);
        channel.sync();
        if (first == (round % 2 == 0)) ::sched_yield();
        party.endpoint.bind(peer);
        EXPECT_EQ(party.endpoint.jetty->remote_jetty, peer);
        EXPECT_NE(peer->tp.tpn, UINT32_MAX);
        party.send(round % 3 == 0 ? 100000 : 8, round);
        wait_for_success(party.endpoint.send_jfc, round);
        const urma_cr_t cr = wait_for_success(party.endpoint.receive_jfc, round);
        EXPECT_EQ(cr.remote_id.id, other.id);
        EXPECT_EQ(cr.local_id, party.endpoint.jetty->jetty_id.id);
        channel.sync();
        EXPECT_EQ(urma_unbind_jetty(party.endpoint.jetty), URMA_SUCCESS);
        EXPECT_EQ(party.endpoint.jetty->remote_jetty, nullptr);
        party.endpoint.unimport(peer);
      }
    };
  };
  run_two("first", side(true), "second", side(false));
}

// Messages sent before the peer has bound wait for its bind and are then received in order.
TEST_F(BindTest, MessagesWaitForTheOtherBind) {
  constexpr uint64_t kMessages = 20;
  run_two(
      "quick",
      [](Channel& channel) {
        Party party;
        party.endpoint.bind(party.endpoint.import(channel.swap(party.endpoint.queue_id())));
        urma_target_seg_t* remote = party.endpoint.import(channel.receive<SegmentId>());
        for (uint64_t i = 0; i < kMessages; ++i) party.send(i % 4 == 0 ? kBufferSize : 8, i);
        // Over shared memory this write overtakes the messages: they are in flight when the other
        // side sees it. Over a network it arrives after them.
        urma_sge_t here = piece(party.segment, party.memory.data(), 1);
        urma_sge_t flag = piece(remote, remote->seg.ubva.va + kBufferSize, 1);
        party.memory[0] = 1;
        party.endpoint.post(write_request(nullptr, &here, &flag, kMessages));
        for (int i = 0; i < 1000; ++i) ASSERT_TRUE(has_nothing(party.endpoint.send_jfc));
        channel.sync();
        channel.sync();
        for (uint64_t i = 0; i <= kMessages; ++i) wait_for_success(party.endpoint.send_jfc, i);
        channel.sync();
      },
      "slow",
      [](Channel& channel) {
        Party party;
        for (uint64_t i = 0; i < kMessages; ++i) party.post_receive(i);
        urma_target_jetty_t* peer = party.endpoint.import(channel.swap(party.endpoint.queue_id()));
        channel.send(party.endpoint.segment_id(party.segment));
        const std::atomic_ref<char> flag(party.memory[kBufferSize]);
        channel.sync();
        const auto deadline = Clock::now() + patience(seconds(10));
        while (over_shared_memory() && flag.load() == 0) ASSERT_LT(Clock::now(), deadline);
        for (int i = 0; i < 1000; ++i) ASSERT_TRUE(has_nothing(party.endpoint.receive_jfc));
        channel.sync();
        party.endpoint.bind(peer);
        for (uint64_t i = 0; i < kMessages; ++i) {
          EXPECT_EQ(wait_for_success(party.endpoint.receive_jfc, i).completion_len,
                    i % 4 == 0 ? kBufferSize : 8);
        }
        channel.sync();
        EXPECT_NE(flag.load(), 0);
      });
}

TEST_F(BindTest, PeerThatNeverBindsTimesOut) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* other = party.add_jetty();
    party.endpoint.bind(party.import(other->jetty_id.id));
    party.post_receive(7);
    urma_jetty_t* later = party.add_jetty();
    EXPECT_EQ(urma_bind_jetty(later, party.import(party.add_jetty()->jetty_id.id)), URMA_SUCCESS);
    const auto posted = Clock::now();
    for (uint64_t i = 0; i < 10; ++i) party.send(8, i);
    // All end at the same time, not one after another: before a request that is posted when the
    // first one ends.
    for (uint64_t i = 0; i <= 10; ++i) {
      const urma_cr_t record = wait_for(party.endpoint.send_jfc);
      EXPECT_EQ(record.status, URMA_CR_ACK_TIMEOUT_ERR);
      EXPECT_EQ(record.local_id, (i < 10 ? party.endpoint.jetty : later)->jetty_id.id);
      if (i > 0) continue;
      EXPECT_TRUE(!over_shared_memory() || Clock::now() - posted >= seconds(4));
      urma_jfs_wr_t wr = party.message(8);
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(urma_post_jetty_send_wr(later, &wr, &bad), URMA_SUCCESS);
    }
    EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
    // Messages reach the peer once it has bound.
    EXPECT_EQ(urma_bind_jetty(other, party.import(party.endpoint.jetty->jetty_id.id)),
              URMA_SUCCESS);
    party.send(8, 10);
    wait_for_success(party.endpoint.send_jfc, 10);
    EXPECT_EQ(wait_for_success(party.endpoint.receive_jfc, 7).local_id, other->jetty_id.id);
  });
}

TEST_F(BindTest, JettyWithAnotherPeerRefuses) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* popular = party.add_jetty();
    urma_jetty_t* chosen = party.add_jetty();
    party.post_receive(7);
    EXPECT_EQ(urma_bind_jetty(popular, party.import(chosen->jetty_id.id)), URMA_SUCCESS);
    party.endpoint.bind(party.import(popular->jetty_id.id));
    for (const size_t size : {size_t{8}, kBufferSize}) {
      party.send(size);
      wait_for_status(party.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    }
    EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));

    EXPECT_EQ(urma_bind_jetty(chosen, party.import(popular->jetty_id.id)), URMA_SUCCESS);
    urma_jfs_wr_t wr = party.message(8, 3);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_send_wr(chosen, &wr, &bad), URMA_SUCCESS);
    wait_for_success(party.endpoint.send_jfc, 3);
    EXPECT_EQ(wait_for_success(party.endpoint.receive_jfc, 7).remote_id.id, chosen->jetty_id.id);
  });
}

TEST_F(BindTest, Rules) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* jetty = party.endpoint.jetty;
    urma_jetty_t* other = party.add_jetty();
    urma_device_attr_t attr;
    EXPECT_EQ(urma_query_device(party.endpoint.ctx->dev, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.dev_cap.trans_mode & (URMA_TM_RM | URMA_TM_RC), URMA_TM_RM | URMA_TM_RC);
    EXPECT_EQ(attr.dev_cap.rc_order_cap.bs.ol, 1u);
    EXPECT_EQ(attr.dev_cap.rc_tp_cap.bs.rtp, 1u);
    EXPECT_EQ(attr.dev_cap.rc_tp_cap.bs.ctp, 1u);
    EXPECT_EQ(jetty->jetty_cfg.jfs_cfg.flag.bs.order_type, uint32_t{URMA_OL});
    urma_target_jetty_t* target = party.import(other->jetty_id.id);
    urma_target_jetty_t* second_target = party.import(other->jetty_id.id);
    EXPECT_EQ(urma_bind_jetty(nullptr, target), URMA_EINVAL);
    EXPECT_EQ(urma_bind_jetty(jetty, nullptr), URMA_EINVAL);
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_EINVAL);
    EXPECT_EQ(party.try_send(), URMA_EINVAL);

    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(target->tp.tpn, UINT32_MAX);
      EXPECT_EQ(urma_bind_jetty(jetty, target), URMA_SUCCESS);
      EXPECT_NE(target->tp.tpn, UINT32_MAX);
      EXPECT_EQ(urma_bind_jetty(jetty, target), URMA_SUCCESS);
      EXPECT_EQ(urma_bind_jetty(jetty, second_target), URMA_EEXIST);
      EXPECT_EQ(urma_bind_jetty(other, target), URMA_EINVAL);
      EXPECT_EQ(jetty->remote_jetty, target);
      EXPECT_EQ(other->remote_jetty, nullptr);
      EXPECT_EQ(urma_delete_jetty(jetty), URMA_ENOPERM);
      EXPECT_EQ(urma_unimport_jetty(target), URMA_FAIL);
      EXPECT_EQ(party.try_send(), URMA_SUCCESS);
      EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
      EXPECT_EQ(jetty->remote_jetty, nullptr);
      EXPECT_EQ(urma_unbind_jetty(jetty), URMA_EINVAL);
      EXPECT_EQ(party.try_send(), URMA_EINVAL);
      wait_for_status(party.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR);
    }
  });
}

TEST_F(BindTest, IncompatibleModesAndOrdersAreRefused) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* jetty = party.endpoint.jetty;
    urma_rjetty_t remote = remote_jetty(jetty->jetty_id);
    urma_token_t token = {};
    urma_target_jetty_t* of_rm = urma_import_jetty(party.endpoint.ctx, &remote, &token);
    ASSERT_NE(of_rm, nullptr);
    EXPECT_EQ(urma_bind_jetty(jetty, of_rm), URMA_ENOPERM);
    remote.trans_mode = URMA_TM_RC;
    remote.flag.bs.order_type = URMA_OT;
    urma_target_jetty_t* of_other_order = urma_import_jetty(party.endpoint.ctx, &remote, &token);
    ASSERT_NE(of_other_order, nullptr);
    EXPECT_EQ(urma_bind_jetty(jetty, of_other_order), URMA_ENOPERM);
    EXPECT_EQ(urma_unimport_jetty(of_rm), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_jetty(of_other_order), URMA_SUCCESS);

    // A JFS alone or a JFR alone cannot be bound.
    errno = 0;
    urma_jfs_cfg_t jfs_cfg = jetty->jetty_cfg.jfs_cfg;
    EXPECT_EQ(urma_create_jfs(party.endpoint.ctx, &jfs_cfg), nullptr);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    urma_rjfr_t jfr = remote_jfr(party.endpoint.jfr->jfr_id, URMA_TM_RC);
    EXPECT_EQ(urma_import_jfr(party.endpoint.ctx, &jfr, &token), nullptr);
    EXPECT_EQ(errno, EINVAL);
  });
}

// A jetty of the other mode is not reached, no matter how it was imported.
TEST_F(BindTest, ModesOfTheTwoSidesDiffer) {
  run_two(
      "RC",
      [](Channel& channel) {
        Party party;
        party.endpoint.bind(party.endpoint.import(channel.swap(party.endpoint.queue_id())));
        party.post_receive();
        channel.sync();
        party.send(8);
        wait_for_status(party.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
        channel.sync();
        EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
      },
      "RM",
      [](Channel& channel) {
        Party party{Config()};
        urma_target_jetty_t* other = party.endpoint.import(channel.swap(party.endpoint.queue_id()));
        party.post_receive();
        channel.sync();
        urma_jfs_wr_t wr = party.message(8);
        wr.tjetty = other;
        party.endpoint.post(wr);
        wait_for_status(party.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
        channel.sync();
        EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
      });
}

// One-sided requests need the process of the peer, not its bind.
TEST_F(BindTest, OneSidedRequestsDoNotWaitForTheOtherBind) {
  run_one([](Channel&) {
    Party party;
    party.endpoint.bind(party.import(party.add_jetty()->jetty_id.id));
    urma_target_seg_t* remote = party.endpoint.import(party.endpoint.segment_id(party.segment));
    urma_sge_t here = piece(party.segment, party.memory.data(), 8);
    urma_sge_t there = piece(remote, party.memory.data() + 64, 8);
    party.memory[0] = 'w';
    party.endpoint.post(write_request(nullptr, &here, &there, 1));
    party.endpoint.post(read_request(nullptr, &here, &there, 2));
    party.endpoint.post(add_request(nullptr, &here, &there, 1, 3));
    for (uint64_t i = 1; i <= 3; ++i) wait_for_success(party.endpoint.send_jfc, i);
    EXPECT_EQ(party.memory[64], 'w' + 1);
  });
}

// The other side unbinds: messages it no longer accepts wait for its next bind.
TEST_F(BindTest, OtherSideUnbindsAndBindsAgain) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* other = party.add_jetty();
    urma_target_jetty_t* back = party.import(party.endpoint.jetty->jetty_id.id);
    party.endpoint.bind(party.import(other->jetty_id.id));
    for (uint64_t round = 0; round < 20; ++round) {
      party.post_receive(round);
      EXPECT_EQ(urma_bind_jetty(other, back), URMA_SUCCESS);
      party.send(8, 1);
      wait_for_success(party.endpoint.send_jfc, 1);
      wait_for_success(party.endpoint.receive_jfc, round);
      EXPECT_EQ(urma_unbind_jetty(other), URMA_SUCCESS);
      party.post_receive(round);
      party.send(8, 2);
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(has_nothing(party.endpoint.receive_jfc));
      EXPECT_EQ(urma_bind_jetty(other, back), URMA_SUCCESS);
      wait_for_success(party.endpoint.receive_jfc, round);
      wait_for_success(party.endpoint.send_jfc, 2);
      EXPECT_EQ(urma_unbind_jetty(other), URMA_SUCCESS);
    }
  });
}

TEST_F(BindTest, PeerThatDiesEndsTheRequests) {
  Child survivor("survivor", [](Channel& channel) {
    Party party;
    urma_target_jetty_t* peer = party.endpoint.import(channel.swap(party.endpoint.queue_id()));
    party.endpoint.bind(peer);
    for (uint64_t i = 0; i < 8; ++i) party.send(i % 2 == 0 ? 8 : kBufferSize);
    // The first message is known to have reached the peer.
    wait_for_success(party.endpoint.send_jfc, 0);
    channel.sync();
    for (int i = 0; i < 7; ++i) wait_for_status(party.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
    urma_async_event_t event;
    EXPECT_EQ(urma_get_async_event(party.endpoint.ctx, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_JETTY_ERR);
    EXPECT_EQ(event.element.jetty, party.endpoint.jetty);
    urma_ack_async_event(&event);
    wait_for_status(party.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR_DONE);
    party.send(8);
    wait_for_status(party.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(urma_unbind_jetty(party.endpoint.jetty), URMA_SUCCESS);
    party.endpoint.unimport(peer);
    urma_jetty_attr_t ready = {JETTY_STATE, 0, URMA_JETTY_STATE_READY};
    EXPECT_EQ(urma_modify_jetty(party.endpoint.jetty, &ready), URMA_SUCCESS);
    // It can be bound to another jetty.
    urma_jetty_t* other = party.add_jetty();
    party.endpoint.bind(party.import(other->jetty_id.id));
    EXPECT_EQ(urma_bind_jetty(other, party.import(party.endpoint.jetty->jetty_id.id)),
              URMA_SUCCESS);
    party.post_receive(3);
    party.send(8, 4);
    wait_for_success(party.endpoint.send_jfc, 4);
    wait_for_success(party.endpoint.receive_jfc, 3);
  });
  Child victim("victim", [](Channel& channel) {
    Party party;
    party.post_receive();
    party.endpoint.bind(party.endpoint.import(channel.swap(party.endpoint.queue_id())));
    wait_for_success(party.endpoint.receive_jfc, 0);
    channel.receive<char>();
  });
  introduce<QueueId>(survivor, victim);
  survivor.channel().receive<char>();
  victim.kill();
  survivor.channel().send('s');
  survivor.expect_success();
}

}  // namespace
}  // namespace urma_test
