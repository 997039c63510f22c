// SPDX-License-Identifier: MIT
//
// The states of queues, their effect on requests, and the events that report them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"
#include "test/process/party.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

using StateTest = ProcessTest;

constexpr size_t kLarge = 64 << 10;  // too large for a ring: it stays in the sender's buffer

urma_status_t enter(Endpoint& endpoint, urma_jetty_state_t state) {
  if (endpoint.jetty == nullptr) {
    urma_jfs_attr_t attr = {JFS_STATE, state};
    return urma_modify_jfs(endpoint.jfs, &attr);
  }
  urma_jetty_attr_t attr = {JETTY_STATE, 0, state};
  return urma_modify_jetty(endpoint.jetty, &attr);
}

urma_jetty_state_t state_of(Endpoint& endpoint) {
  if (endpoint.jetty == nullptr) {
    urma_jfs_cfg_t cfg;
    urma_jfs_attr_t attr = {JFS_STATE, URMA_JETTY_STATE_RESET};
    EXPECT_EQ(urma_query_jfs(endpoint.jfs, &cfg, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.mask, 0u);
    EXPECT_EQ(cfg.depth, endpoint.config.send_depth);
    return attr.state;
  }
  urma_jetty_cfg_t cfg;
  urma_jetty_attr_t attr = {JETTY_STATE, 7, URMA_JETTY_STATE_RESET};
  EXPECT_EQ(urma_query_jetty(endpoint.jetty, &cfg, &attr), URMA_SUCCESS);
  EXPECT_EQ(attr.mask, 0u);
  EXPECT_EQ(attr.rx_threshold, 0u);
  EXPECT_EQ(cfg.jfs_cfg.depth, endpoint.config.send_depth);
  return attr.state;
}

int flush(Endpoint& endpoint, int count, urma_cr_t* cr) {
  return endpoint.jetty ? urma_flush_jetty(endpoint.jetty, count, cr)
                        : urma_flush_jfs(endpoint.jfs, count, cr);
}

urma_status_t enter(urma_jfr_t* jfr, urma_jfr_state_t state) {
  urma_jfr_attr_t attr = {JFR_STATE, 0, state};
  return urma_modify_jfr(jfr, &attr);
}

void expect_marker(Endpoint& endpoint, urma_cr_status_t status) {
  const urma_cr_t cr = wait_for(endpoint.send_jfc);
  EXPECT_EQ(cr.status, status);
  EXPECT_EQ(cr.local_id, endpoint.sender_id());
  EXPECT_EQ(cr.flag.bs.s_r, 0);
  EXPECT_EQ(cr.flag.bs.jetty, endpoint.jetty != nullptr);
  EXPECT_EQ(cr.flag.bs.flush_err_done, status == URMA_CR_WR_FLUSH_ERR_DONE);
  EXPECT_EQ(cr.flag.bs.suspend_done, status == URMA_CR_WR_SUSPEND_DONE);
  EXPECT_TRUE(has_nothing(endpoint.send_jfc));
}

void expect_record(Endpoint& endpoint, urma_cr_status_t status, uint64_t user_ctx) {
  const urma_cr_t cr = wait_for(endpoint.send_jfc);
  EXPECT_EQ(cr.status, status);
  EXPECT_EQ(cr.user_ctx, user_ctx);
  EXPECT_EQ(cr.local_id, endpoint.sender_id());
}

// Every kind of queue, with and without a lock.
void for_each_kind(const std::function<void(Self&)>& body) {
  for (int kind = 0; kind < 6; ++kind) {
    run_one([&](Channel&) {
      Config config;
      config.jetty = kind < 4;
      config.mode = kind < 2 ? URMA_TM_RC : URMA_TM_RM;
      config.lock_free = kind % 2 == 1;
      Self self(config);
      body(self);
    });
  }
}

void send(Self& self, uint64_t user_ctx, size_t size = 8, bool signalled = true) {
  urma_sge_t local = piece(self.segment, self.out(), size);
  urma_jfs_wr_t wr = send_request(self.queue, &local, user_ctx);
  wr.flag.bs.complete_enable = signalled ? 1 : 0;
  self.endpoint.post(wr);
}

void receive(Self& self, uint64_t user_ctx) {
  self.endpoint.post_receive(self.segment, self.in(), kHalf, user_ctx);
}

TEST_F(StateTest, ErrorFlushesUnreceivedMessages) {
  for_each_kind([](Self& self) {
    Endpoint& endpoint = self.endpoint;
    EXPECT_EQ(state_of(endpoint), URMA_JETTY_STATE_READY);
    receive(self, 100);
    for (uint64_t i = 0; i < 6; ++i) send(self, i, i == 3 ? kLarge : 8, i % 2 == 0);
    wait_for_success(endpoint.receive_jfc, 100);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    EXPECT_EQ(state_of(endpoint), URMA_JETTY_STATE_ERROR);
    urma_cr_t cr;
    expect_record(endpoint, URMA_CR_SUCCESS, 0);
    EXPECT_EQ(flush(endpoint, 1, &cr), 0);
    for (uint64_t i = 1; i < 6; ++i) expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, i);
    expect_marker(endpoint, URMA_CR_WR_FLUSH_ERR_DONE);
    EXPECT_EQ(flush(endpoint, 1, &cr), 0);
    // Nothing passes any more: new requests are returned, one way or the other.
    for (uint64_t i = 10; i < 14; ++i) send(self, i);
    expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, 10);
    urma_cr_t back[8];
    EXPECT_EQ(flush(endpoint, 2, back), 2);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(back[i].status, URMA_CR_WR_UNHANDLED);
      EXPECT_EQ(back[i].user_ctx, 11u + static_cast<unsigned>(i));
      EXPECT_EQ(back[i].local_id, endpoint.sender_id());
      EXPECT_GT(static_cast<int>(back[i].opcode), URMA_CR_OPC_FLUSH_WRITE);
    }
    expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, 13);
    EXPECT_EQ(flush(endpoint, 8, back), 0);
    EXPECT_TRUE(has_nothing(endpoint.send_jfc));
    EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
    // And it can be used again.
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    receive(self, 101);
    send(self, 20, kLarge);
    expect_record(endpoint, URMA_CR_SUCCESS, 20);
    wait_for_success(endpoint.receive_jfc, 101);
    EXPECT_TRUE(self.arrived(kLarge));
  });
}

TEST_F(StateTest, MarkerComesInAnEmptyAndInAFullQueue) {
  for_each_kind([](Self& self) {
    Endpoint& endpoint = self.endpoint;
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    expect_marker(endpoint, URMA_CR_WR_FLUSH_ERR_DONE);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    for (uint64_t i = 0; i < endpoint.config.send_depth; ++i) send(self, i, 8, false);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
      EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    }
    for (uint64_t i = 0; i < endpoint.config.send_depth; ++i) {
      expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, i);
    }
    expect_marker(endpoint, URMA_CR_WR_FLUSH_ERR_DONE);
  });
}

// A strongly ordered request is not placed before earlier ones.
TEST_F(StateTest, StrongOrderWaitsForMessages) {
  for_each_kind([](Self& self) {
    Endpoint& endpoint = self.endpoint;
    send(self, 1, kLarge / 2);
    send(self, 2);
    urma_sge_t local = piece(self.segment, self.out(), 8);
    urma_sge_t remote = piece(self.remote, self.remote->seg.ubva.va, 8);
    for (uint64_t i = 3; i < 5; ++i) {
      urma_jfs_wr_t wr = write_request(self.queue, &local, &remote, i);
      wr.flag.bs.place_order = i == 3 ? URMA_STRONG_ORDER : URMA_RELAX_ORDER;
      endpoint.post(wr);
      for (int polls = 0; polls < 1000; ++polls) EXPECT_TRUE(has_nothing(endpoint.send_jfc));
      EXPECT_EQ(self.in()[0], 0);
    }
    for (uint64_t i = 1; i < 3; ++i) {
      endpoint.post_receive(self.segment, self.in() + 8, kHalf / 2, i);
      wait_for_success(endpoint.receive_jfc, i);
    }
    for (uint64_t i = 1; i < 5; ++i) expect_record(endpoint, URMA_CR_SUCCESS, i);
    EXPECT_TRUE(self.arrived(8));
  });
}

TEST_F(StateTest, SuspendedQueueHoldsPostedRequests) {
  for_each_kind([](Self& self) {
    Endpoint& endpoint = self.endpoint;
    send(self, 1);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_SUSPENDED), URMA_SUCCESS);
    expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, 1);
    expect_marker(endpoint, URMA_CR_WR_SUSPEND_DONE);
    for (uint64_t i = 2; i < 6; ++i) send(self, i, i == 4 ? kLarge : 8);
    EXPECT_TRUE(has_nothing(endpoint.send_jfc));
    urma_cr_t back;
    EXPECT_EQ(flush(endpoint, 1, &back), 1);
    EXPECT_EQ(back.status, URMA_CR_WR_UNHANDLED);
    EXPECT_EQ(back.user_ctx, 2u);
    for (uint64_t i = 3; i < 6; ++i) receive(self, i);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    for (uint64_t i = 3; i < 6; ++i) {
      expect_record(endpoint, URMA_CR_SUCCESS, i);
      wait_for_success(endpoint.receive_jfc, i);
    }
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_SUSPENDED), URMA_SUCCESS);
    send(self, 7);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, 7);
    expect_marker(endpoint, URMA_CR_WR_FLUSH_ERR_DONE);
  });
}

TEST_F(StateTest, ResetForgetsEverything) {
  for_each_kind([](Self& self) {
    Endpoint& endpoint = self.endpoint;
    receive(self, 1);
    for (uint64_t i = 0; i < 5; ++i) send(self, i, i == 2 ? kLarge : 8);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_RESET), URMA_SUCCESS);
    EXPECT_EQ(state_of(endpoint), URMA_JETTY_STATE_RESET);
    send(self, 9);
    expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, 9);
    urma_cr_t back;
    EXPECT_EQ(flush(endpoint, 1, &back), 0);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_SUSPENDED), URMA_EINVAL);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    EXPECT_EQ(enter(endpoint, static_cast<urma_jetty_state_t>(4)), URMA_EINVAL);
    EXPECT_TRUE(has_nothing(endpoint.send_jfc));
  });
}

TEST_F(StateTest, PeersCannotReachAJettyInError) {
  run_one([](Channel&) {
    Self self;
    urma_jetty_cfg_t cfg = self.endpoint.jetty->jetty_cfg;
    const OwnedJetty sender = urma_create_jetty(self.endpoint.ctx, &cfg);
    const auto send_from = [&](uint64_t user_ctx) {
      urma_sge_t local = piece(self.segment, self.out(), 8);
      urma_jfs_wr_t wr = send_request(self.queue, &local, user_ctx);
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(urma_post_jetty_send_wr(sender, &wr, &bad), URMA_SUCCESS);
      const urma_cr_t cr = wait_for(self.endpoint.send_jfc);
      EXPECT_EQ(cr.user_ctx, user_ctx);
      return cr.status;
    };
    for (uint64_t i = 0; i < 4; ++i) receive(self, i);
    EXPECT_EQ(send_from(1), URMA_CR_SUCCESS);
    EXPECT_EQ(enter(self.endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    expect_marker(self.endpoint, URMA_CR_WR_FLUSH_ERR_DONE);
    EXPECT_EQ(send_from(2), URMA_CR_REM_ACCESS_ABORT_ERR);
    // What was received before is not lost.
    wait_for_success(self.endpoint.receive_jfc, 0);
    EXPECT_EQ(enter(self.endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    EXPECT_EQ(send_from(3), URMA_CR_SUCCESS);
    wait_for_success(self.endpoint.receive_jfc, 1);
    // The shared JFR rejects them as well.
    EXPECT_EQ(enter(self.endpoint.jfr, URMA_JFR_STATE_ERROR), URMA_SUCCESS);
    for (uint64_t i = 2; i < 4; ++i) {
      const urma_cr_t cr = wait_for(self.endpoint.receive_jfc);
      EXPECT_EQ(cr.status, URMA_CR_WR_FLUSH_ERR);
      EXPECT_EQ(cr.user_ctx, i);
      EXPECT_EQ(cr.flag.bs.s_r, 1);
      EXPECT_EQ(cr.local_id, self.endpoint.jfr->jfr_id.id);
    }
    EXPECT_EQ(send_from(4), URMA_CR_REM_ACCESS_ABORT_ERR);
    receive(self, 50);
    EXPECT_EQ(wait_for(self.endpoint.receive_jfc).status, URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(enter(self.endpoint.jfr, URMA_JFR_STATE_RESET), URMA_SUCCESS);
    receive(self, 51);
    EXPECT_EQ(enter(self.endpoint.jfr, URMA_JFR_STATE_READY), URMA_SUCCESS);
    receive(self, 52);
    EXPECT_EQ(send_from(5), URMA_CR_SUCCESS);
    wait_for_success(self.endpoint.receive_jfc, 52);
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
  });
}

// However often a queue fails and recovers, the marker takes one entry.
TEST_F(StateTest, MarkersTakeOneSlot) {
  run_one([](Channel&) {
    Config config;
    config.send_depth = 4;
    Self self(config);
    send(self, 1);
    for (int round = 0; round < 8; ++round) {
      EXPECT_EQ(enter(self.endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
      EXPECT_EQ(enter(self.endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    }
    // Checked here: once a receive is posted, the message would take it.
    expect_record(self.endpoint, URMA_CR_WR_FLUSH_ERR, 1);
    for (uint64_t i = 2; i < 6; ++i) {
      receive(self, i);
      send(self, i);
    }
    for (uint64_t i = 2; i < 6; ++i) expect_record(self.endpoint, URMA_CR_SUCCESS, i);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
  });
}

// Neither in the queue that it stops, nor, behind records that were not polled, in one that goes
// on.
TEST_F(StateTest, AMarkerTakesThePlaceOfNoRequest) {
  for_each_kind([](Self& self) {
    Endpoint& endpoint = self.endpoint;
    const uint64_t depth = endpoint.config.send_depth;
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    for (uint64_t i = 0; i < depth; ++i) send(self, i);
    EXPECT_EQ(wait_for(endpoint.send_jfc).status, URMA_CR_WR_FLUSH_ERR_DONE);
    for (uint64_t i = 0; i < depth; ++i) expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, i);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    for (uint64_t i = 0; i < 2; ++i) send(self, i);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_SUSPENDED), URMA_SUCCESS);
    EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_READY), URMA_SUCCESS);
    for (uint64_t i = 2; i < depth; ++i) send(self, i);
    urma_sge_t local = piece(self.segment, self.out(), 8);
    urma_jfs_wr_t one_more = send_request(self.queue, &local, depth);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(endpoint.post(&one_more, &bad), URMA_ENOMEM);
    for (uint64_t i = 0; i < 2; ++i) expect_record(endpoint, URMA_CR_WR_FLUSH_ERR, i);
    for (uint64_t i = 2; i < depth; ++i) {
      receive(self, i);
      wait_for_success(endpoint.receive_jfc, i);
    }
    for (uint64_t i = 2; i < depth; ++i) expect_record(endpoint, URMA_CR_SUCCESS, i);
    EXPECT_TRUE(has_nothing(endpoint.send_jfc));
  });
}

// A JFR returns more receives than its JFC has room for, as the program polls.
TEST_F(StateTest, FlushedReceivesWaitForSpaceInTheJfc) {
  run_one([](Channel&) {
    Self self;
    urma_jfc_cfg_t jfc_cfg = jfc_config(4);
    const OwnedJfc jfc = urma_create_jfc(self.endpoint.ctx, &jfc_cfg);
    urma_jfr_cfg_t cfg = self.endpoint.jfr->jfr_cfg;
    cfg.id = 0;
    cfg.jfc = jfc;
    const OwnedJfr jfr = urma_create_jfr(self.endpoint.ctx, &cfg);
    for (uint64_t i = 0; i < 30; ++i) {
      urma_jfr_wr_t wr = {};
      wr.user_ctx = i;
      urma_jfr_wr_t* bad = nullptr;
      EXPECT_EQ(urma_post_jfr_wr(jfr, &wr, &bad), URMA_SUCCESS);
    }
    EXPECT_EQ(enter(jfr, URMA_JFR_STATE_ERROR), URMA_SUCCESS);
    // All of them, even if the JFR is in use again by then.
    EXPECT_EQ(enter(jfr, URMA_JFR_STATE_READY), URMA_SUCCESS);
    for (uint64_t i = 0; i < 30; ++i) {
      const urma_cr_t cr = wait_for(jfc);
      EXPECT_EQ(cr.status, URMA_CR_WR_FLUSH_ERR);
      EXPECT_EQ(cr.user_ctx, i);
    }
  });
}

bool readable(int fd) {
  pollfd ready = {fd, POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

urma_async_event_t expect_event(Endpoint& endpoint, urma_async_event_type_t type, void* element) {
  urma_async_event_t event = {};
  EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_SUCCESS);
  EXPECT_EQ(event.event_type, type);
  EXPECT_EQ(static_cast<void*>(event.element.jetty), element);
  EXPECT_EQ(event.urma_ctx, endpoint.ctx);
  return event;
}

TEST_F(StateTest, LimitOfAJfrIsReportedOnce) {
  run_one([](Channel&) {
    Self self;
    Endpoint& endpoint = self.endpoint;
    EXPECT_FALSE(readable(endpoint.ctx->async_fd));
    urma_jfr_attr_t attr = {JFR_RX_THRESHOLD, endpoint.config.receive_depth + 1,
                            URMA_JFR_STATE_READY};
    EXPECT_EQ(urma_modify_jfr(endpoint.jfr, &attr), URMA_EINVAL);
    for (uint64_t i = 0; i < 4; ++i) receive(self, i);
    attr.rx_threshold = 3;
    EXPECT_EQ(urma_modify_jfr(endpoint.jfr, &attr), URMA_SUCCESS);
    urma_jfr_cfg_t cfg;
    EXPECT_EQ(urma_query_jfr(endpoint.jfr, &cfg, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.rx_threshold, 3u);
    EXPECT_EQ(attr.state, URMA_JFR_STATE_READY);
    for (uint64_t i = 0; i < 2; ++i) {
      EXPECT_FALSE(readable(endpoint.ctx->async_fd));
      send(self, i);
      wait_for_success(endpoint.receive_jfc, i);
      wait_for_success(endpoint.send_jfc, i);
    }
    EXPECT_TRUE(readable(endpoint.ctx->async_fd));
    urma_async_event_t event = expect_event(endpoint, URMA_EVENT_JFR_LIMIT, endpoint.jfr);
    EXPECT_FALSE(readable(endpoint.ctx->async_fd));
    urma_ack_async_event(&event);
    send(self, 2);
    wait_for_success(endpoint.receive_jfc, 2);
    EXPECT_FALSE(readable(endpoint.ctx->async_fd));
    EXPECT_EQ(endpoint.jfr->async_events_acked, 1u);
  });
}

TEST_F(StateTest, DeleteWaitsForUnacknowledgedEvents) {
  run_one([](Channel&) {
    Self self;
    Endpoint& endpoint = self.endpoint;
    ASSERT_EQ(::fcntl(endpoint.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
    urma_async_event_t event;
    EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_FAIL);
    urma_jfr_cfg_t cfg = endpoint.jfr->jfr_cfg;
    cfg.id = 0;
    cfg.flag.bs.non_blocking = 1;
    urma_jfr_attr_t limit = {JFR_RX_THRESHOLD, 1, URMA_JFR_STATE_READY};
    urma_jfr_t* jfr = urma_create_jfr(endpoint.ctx, &cfg);
    EXPECT_EQ(urma_modify_jfr(jfr, &limit), URMA_SUCCESS);
    event = expect_event(endpoint, URMA_EVENT_JFR_LIMIT, jfr);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_EAGAIN);
    urma_ack_async_event(&event);
    // An event that no one has fetched goes with its object.
    EXPECT_EQ(urma_modify_jfr(jfr, &limit), URMA_SUCCESS);
    EXPECT_TRUE(readable(endpoint.ctx->async_fd));
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_FALSE(readable(endpoint.ctx->async_fd));
    EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_FAIL);
  });
}

TEST_F(StateTest, OverflowOfAJfcLosesNothing) {
  run_one([](Channel&) {
    Self self;
    Endpoint& endpoint = self.endpoint;
    constexpr uint64_t kMessages = 20;
    urma_jfc_cfg_t jfc_cfg = jfc_config(4);
    const OwnedJfc jfc = urma_create_jfc(endpoint.ctx, &jfc_cfg);
    urma_jfr_cfg_t cfg = endpoint.jfr->jfr_cfg;
    cfg.id = 0;
    cfg.jfc = jfc;
    const OwnedJfr jfr = urma_create_jfr(endpoint.ctx, &cfg);
    urma_rjfr_t remote = remote_jfr(jfr->jfr_id);
    const ImportedJfr target = urma_import_jfr(endpoint.ctx, &remote, nullptr);
    urma_sge_t local = piece(self.segment, self.out(), 8);
    for (uint64_t i = 0; i < kMessages; ++i) {
      urma_sge_t sge = piece(self.segment, self.in(), 8);
      urma_jfr_wr_t wr = {{&sge, 1}, i, nullptr};
      urma_jfr_wr_t* bad = nullptr;
      EXPECT_EQ(urma_post_jfr_wr(jfr, &wr, &bad), URMA_SUCCESS);
      endpoint.post(send_request(target, &local, i));
    }
    // A device keeps the records until the next poll: here, of another JFC.
    uint64_t sent = 0;
    while (!over_shared_memory() && !readable(endpoint.ctx->async_fd)) {
      if (sent < kMessages) wait_for_success(endpoint.send_jfc, sent++);
      ASSERT_TRUE(sent < kMessages || has_nothing(endpoint.send_jfc));
    }
    urma_async_event_t event = expect_event(endpoint, URMA_EVENT_JFC_ERR, jfc);
    urma_ack_async_event(&event);
    for (uint64_t i = 0; i < kMessages; ++i) wait_for_success(jfc, i);
    while (sent < kMessages) wait_for_success(endpoint.send_jfc, sent++);
    EXPECT_FALSE(readable(endpoint.ctx->async_fd));
  });
}

// Two messages of several turns begin while there is room for one record.
TEST_F(StateTest, OverflowOfASharedJfcLosesNoLargeMessage) {
  SKIP_UNLESS_SHARED_MEMORY("polls of one JFC move the messages of others in turns");
  run_one([](Channel&) {
    constexpr size_t kSize = 4 << 20;
    Config config;
    config.jetty = false;
    OwnedEndpoint endpoint(config);
    std::vector<char> memory(3 * kSize, 'm');
    urma_target_seg_t* const segment = endpoint.add(memory.data(), memory.size());
    urma_jfc_cfg_t jfc_cfg = jfc_config(1);
    const OwnedJfc jfc = urma_create_jfc(endpoint.ctx, &jfc_cfg);
    urma_jfr_cfg_t cfg = endpoint.jfr->jfr_cfg;
    cfg.id = 0;
    cfg.jfc = jfc;
    const OwnedJfr jfrs[] = {urma_create_jfr(endpoint.ctx, &cfg),
                             urma_create_jfr(endpoint.ctx, &cfg)};
    urma_rjfr_t remotes[] = {remote_jfr(jfrs[0]->jfr_id), remote_jfr(jfrs[1]->jfr_id)};
    const ImportedJfr targets[] = {urma_import_jfr(endpoint.ctx, &remotes[0], nullptr),
                                   urma_import_jfr(endpoint.ctx, &remotes[1], nullptr)};
    const auto exchange = [&](size_t size) {
      for (int i = 0; i < 2; ++i) {
        urma_sge_t into = piece(segment, memory.data() + (1 + i) * kSize, size);
        urma_jfr_wr_t wr = {{&into, 1}, size, nullptr};
        urma_jfr_wr_t* bad = nullptr;
        EXPECT_EQ(urma_post_jfr_wr(jfrs[i], &wr, &bad), URMA_SUCCESS);
        urma_sge_t from = piece(segment, memory.data(), size);
        endpoint.post(send_request(targets[i], &from, size));
      }
      // Moves messages for no poll of their own JFC, until there is a record of one of them.
      wait_for_success(endpoint.send_jfc, size);
      wait_for_success(jfc, size);
      wait_for_success(jfc, size);
      wait_for_success(endpoint.send_jfc, size);
      EXPECT_TRUE(has_nothing(jfc));
    };
    exchange(8);
    exchange(kSize);
  });
}

// A jetty that sends nothing still learns of the death of its peer; an RM jetty does not care.
TEST_F(StateTest, DeathOfABoundPeerIsAnEvent) {
  for (const bool rc : {true, false}) {
    Config config;
    config.mode = rc ? URMA_TM_RC : URMA_TM_RM;
    Child victim("victim", [&](Channel& channel) {
      Party party(config);
      urma_target_jetty_t* peer = party.endpoint.import(channel.swap(party.endpoint.queue_id()));
      if (rc) party.endpoint.bind(peer);
      urma_sge_t local = piece(party.segment, party.memory.data(), 8);
      party.endpoint.post(send_request(peer, &local, 1));
      wait_for_success(party.endpoint.send_jfc, 1);
      channel.sync();
      channel.sync();
    });
    Child survivor("survivor", [&](Channel& channel) {
      Party party(config);
      Endpoint& endpoint = party.endpoint;
      urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
      if (rc) endpoint.bind(peer);
      party.post_receive(1);
      wait_for_success(endpoint.receive_jfc, 1);
      channel.sync();
      if (!rc) {
        urma_sge_t local = piece(party.segment, party.memory.data(), 8);
        endpoint.post(send_request(peer, &local, 1));
        EXPECT_EQ(wait_for(endpoint.send_jfc).status, URMA_CR_ACK_TIMEOUT_ERR);
        EXPECT_EQ(state_of(endpoint), URMA_JETTY_STATE_READY);
        EXPECT_FALSE(readable(endpoint.ctx->async_fd));
      } else {
        urma_async_event_t event = expect_event(endpoint, URMA_EVENT_JETTY_ERR, endpoint.jetty);
        EXPECT_EQ(state_of(endpoint), URMA_JETTY_STATE_ERROR);
        expect_marker(endpoint, URMA_CR_WR_FLUSH_ERR_DONE);
        EXPECT_EQ(enter(endpoint, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
        EXPECT_TRUE(has_nothing(endpoint.send_jfc));
        urma_ack_async_event(&event);
      }
    });
    introduce<QueueId>(victim, survivor);
    victim.channel().sync();
    victim.kill();
    survivor.channel().sync();
    survivor.expect_success();
  }
}

}  // namespace
}  // namespace urma_test
