// SPDX-License-Identifier: MIT
//
// Requests posted to a connection that is not open yet, whose queue ends right after them.
#include <gtest/gtest.h>

#include <vector>

#include "test/verbs/requests.h"
#include "urma/base/clock.h"

namespace urma::verbs {
namespace {

using Statuses = std::vector<urma_cr_status_t>;

// A queue that is bound, if its mode requires that, and whose connections open when the test says
// so.
struct Held : Pair {
  explicit Held(urma_transport_mode_t mode, const FakeDeviceOptions& options = {})
      : Pair(options, 16, [mode](urma_jfs_cfg_t* jfs, urma_jfr_cfg_t* jfr) {
          jfs->trans_mode = jfr->trans_mode = mode;
        }) {
    fabric.connector.hold = true;
    if (mode != URMA_TM_RC) return;
    fabric.connector.endpoints[1000].bond = &bond;
    send->sender->bind(target.get());
  }
  void post_sends(uint64_t first, uint64_t last, bool signalled = true) {
    Chain chain(target.get());
    for (uint64_t i = first; i <= last; ++i) chain.send(here->sge(0, 8), i, signalled);
    ASSERT_EQ(post(&chain), URMA_SUCCESS);
    fabric.settle();
  }
  void enter(urma_jetty_state_t state) const { send->sender->set_state(state); }
  bool nothing_sent() const {
    urma_cr_t record;
    return send_jfc->poll(1, &record) == 0;
  }
  void open() {
    fabric.connector.hold = false;
    fabric.connector.release();
  }
  Statuses statuses(size_t count) {
    Statuses all;
    for (const urma_cr_t& record : sent(count)) all.push_back(record.status);
    return all;
  }
  void expect_received(uint64_t first, uint64_t last) {
    for (const urma_cr_t& record : received(last - first + 1)) {
      EXPECT_EQ(record.status, URMA_CR_SUCCESS);
      EXPECT_EQ(record.user_ctx, first++);
    }
  }

  Bond bond;
};

class LastMessageTest : public testing::TestWithParam<urma_transport_mode_t> {
 protected:
  LastMessageTest() : pair_(GetParam()) {
    for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(pair_.post_receive(i), URMA_SUCCESS);
    if (GetParam() == URMA_TM_RC) pair_.receive->receiver->set_bond(&pair_.bond, sender_id());
  }
  urma_jetty_id_t sender_id() const { return pair_.send->sender->id(); }

  Held pair_;
};

TEST_P(LastMessageTest, ArrivesBeforeTheError) {
  pair_.post_sends(1, 2);
  pair_.enter(URMA_JETTY_STATE_ERROR);
  EXPECT_TRUE(pair_.nothing_sent());
  pair_.open();
  EXPECT_EQ(pair_.statuses(3),
            (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS, URMA_CR_WR_FLUSH_ERR_DONE}));
  pair_.expect_received(1, 2);
  pair_.post_sends(3, 3);
  EXPECT_EQ(pair_.statuses(1), Statuses{URMA_CR_WR_FLUSH_ERR});
}

TEST_P(LastMessageTest, ArrivesIfItIsUnsignalled) {
  pair_.post_sends(1, 2, /*signalled=*/false);
  pair_.enter(URMA_JETTY_STATE_ERROR);
  pair_.open();
  EXPECT_EQ(pair_.statuses(1), Statuses{URMA_CR_WR_FLUSH_ERR_DONE});
  pair_.expect_received(1, 2);
}

// Nothing reports when its memory belongs to the program again.
TEST_P(LastMessageTest, TheResetDropsIt) {
  pair_.post_sends(1, 2);
  pair_.enter(URMA_JETTY_STATE_ERROR);
  pair_.enter(URMA_JETTY_STATE_RESET);
  pair_.open();
  pair_.fabric.settle();
  EXPECT_TRUE(pair_.nothing_sent());
  urma_cr_t record;
  EXPECT_EQ(pair_.receive_jfc->poll(1, &record), 0);
}

TEST_P(LastMessageTest, ArrivesThoughItsQueueEndsTwice) {
  pair_.post_sends(1, 1);
  pair_.send->sender->unbind();
  pair_.enter(URMA_JETTY_STATE_ERROR);
  pair_.open();
  EXPECT_EQ(pair_.statuses(2), (Statuses{URMA_CR_SUCCESS, URMA_CR_WR_FLUSH_ERR_DONE}));
  pair_.expect_received(1, 1);
}

TEST_P(LastMessageTest, IsSentBeforeRequestsPostedAfterTheError) {
  pair_.post_sends(1, 1);
  pair_.enter(URMA_JETTY_STATE_ERROR);
  pair_.enter(URMA_JETTY_STATE_READY);
  pair_.post_sends(2, 2);
  pair_.open();
  EXPECT_EQ(pair_.statuses(2), (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS}));
  pair_.post_sends(3, 4);
  EXPECT_EQ(pair_.statuses(2), (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS}));
  pair_.expect_received(1, 4);
}

// Requests posted to a suspended queue wait until it resumes, whatever the state of its connection.
TEST_P(LastMessageTest, DoesNotSendRequestsOfASuspendedQueue) {
  pair_.post_sends(1, 1);
  pair_.enter(URMA_JETTY_STATE_SUSPENDED);
  pair_.post_sends(2, 2);
  pair_.open();
  EXPECT_EQ(pair_.statuses(2), (Statuses{URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_SUSPEND_DONE}));
  pair_.fabric.settle();
  EXPECT_TRUE(pair_.nothing_sent());
  pair_.enter(URMA_JETTY_STATE_READY);
  EXPECT_EQ(pair_.statuses(1), Statuses{URMA_CR_SUCCESS});
  EXPECT_EQ(pair_.received(1)[0].user_ctx, 1U);
}

TEST_P(LastMessageTest, OfASuspendedQueueIsFlushedByTheError) {
  pair_.post_sends(1, 1);
  pair_.enter(URMA_JETTY_STATE_SUSPENDED);
  pair_.post_sends(2, 2);
  pair_.enter(URMA_JETTY_STATE_ERROR);
  pair_.open();
  EXPECT_EQ(pair_.statuses(3),
            (Statuses{URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR_DONE}));
}

INSTANTIATE_TEST_SUITE_P(Modes, LastMessageTest,
                         testing::Values(URMA_TM_RM, URMA_TM_RC, URMA_TM_UM),
                         [](const auto& tested) {
                           switch (tested.param) {
                             case URMA_TM_RM:
                               return "RM";
                             case URMA_TM_RC:
                               return "RC";
                             default:
                               return "UM";
                           }
                         });

TEST(LastMessageEndTest, ARefusalFlushesIt) {
  Held pair(URMA_TM_RM);
  pair.fabric.connector.refusal = Answer::kWrongToken;
  pair.post_sends(1, 2);
  pair.enter(URMA_JETTY_STATE_ERROR);
  EXPECT_TRUE(pair.nothing_sent());
  pair.open();
  EXPECT_EQ(pair.statuses(3),
            (Statuses{URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR_DONE}));
}

TEST(LastMessageEndTest, AnUnboundPeerFlushesIt) {
  Held pair(URMA_TM_RC);
  pair.post_sends(1, 1);
  pair.send->sender->unbind();
  pair.open();
  EXPECT_EQ(pair.statuses(1), Statuses{URMA_CR_WR_FLUSH_ERR});
}

// Otherwise it waits for a receive indefinitely.
TEST(LastMessageEndTest, IsFlushedWithoutAReceive) {
  Held pair(URMA_TM_RM);
  ASSERT_EQ(pair.post_receive(1), URMA_SUCCESS);
  pair.post_sends(1, 2);
  pair.enter(URMA_JETTY_STATE_ERROR);
  pair.open();
  EXPECT_EQ(pair.statuses(3),
            (Statuses{URMA_CR_SUCCESS, URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR_DONE}));
  pair.expect_received(1, 1);
}

TEST(LastMessageEndTest, ItsErrorIsReported) {
  Held pair(URMA_TM_RM, {.vague_receives = true});
  ASSERT_EQ(pair.post_receive(1, 0, 4), URMA_SUCCESS);
  pair.post_sends(1, 2);
  pair.enter(URMA_JETTY_STATE_ERROR);
  pair.open();
  EXPECT_EQ(pair.statuses(3),
            (Statuses{URMA_CR_REM_RESP_LEN_ERR, URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR_DONE}));
}

TEST(LastMessageEndTest, TheDeviceHoldsNothingOfItAfterTheReset) {
  NEEDS_FAKE();
  Held pair(URMA_TM_RM);
  ASSERT_EQ(pair.post_receive(1), URMA_SUCCESS);
  pair.fabric.fake->stall_all();
  pair.post_sends(1, 1);
  pair.open();
  pair.fabric.settle();
  EXPECT_TRUE(pair.nothing_sent());
  pair.enter(URMA_JETTY_STATE_RESET);
  pair.fabric.fake->resume_all();
  pair.fabric.settle();
  urma_cr_t record;
  EXPECT_EQ(pair.receive_jfc->poll(1, &record), 0);
}

// The second one's turn comes before that of the path that polls for it.
TEST(LastMessageEndTest, NoConnectionOutlivesIt) {
  Held pair(URMA_TM_RM);
  for (uint64_t i = 1; i <= 2; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  const auto second = pair.fabric.import(1000);
  pair.post_sends(1, 1);
  Chain chain(second.get());
  chain.send(pair.here->sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.enter(URMA_JETTY_STATE_ERROR);
  pair.open();
  EXPECT_EQ(pair.statuses(3),
            (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS, URMA_CR_WR_FLUSH_ERR_DONE}));
  pair.fabric.settle();
  EXPECT_EQ(pair.fabric.connector.connects, 2);
  EXPECT_EQ(pair.fabric.connector.disconnects, 2);
  pair.send.reset();
}

TEST(LastMessageEndTest, SilentPeerIsWaitedForOnce) {
  Held pair(URMA_TM_RC);
  pair.fabric.connector.refusal = Answer::kUnreachable;
  pair.send->sender->connect_ahead(pair.target.get());
  pair.post_sends(1, 1);
  pair.send->sender->unbind();
  pair.open();
  EXPECT_EQ(pair.statuses(1), Statuses{URMA_CR_WR_FLUSH_ERR});
  EXPECT_EQ(pair.fabric.connector.connects, 1);
}

// Requests posted once the queue was READY again, after a message that finds no receive.
struct Behind : Held {
  explicit Behind(urma_transport_mode_t mode) : Held(mode) {
    post_sends(1, 1);
    enter(URMA_JETTY_STATE_ERROR);
    enter(URMA_JETTY_STATE_READY);
  }
};

TEST(LastMessageEndTest, AnAtomicAfterItHasAnUnknownResult) {
  Behind pair(URMA_TM_RM);
  Chain chain(pair.target.get());
  chain.atomic(URMA_OPC_FADD, pair.here->sge(8, 8), pair.there->remote_sge(0, 8), 1, 0, 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.open();
  EXPECT_EQ(pair.statuses(2), (Statuses{URMA_CR_WR_FLUSH_ERR, URMA_CR_REM_OPERATION_ERR}));
}

TEST(LastMessageEndTest, AMessageAfterItContinuesIfItWasNotReceived) {
  Behind pair(URMA_TM_RM);
  pair.post_sends(2, 2);
  pair.open();
  EXPECT_EQ(pair.statuses(1), Statuses{URMA_CR_WR_FLUSH_ERR});
  ASSERT_EQ(pair.post_receive(2), URMA_SUCCESS);
  EXPECT_EQ(pair.statuses(1), Statuses{URMA_CR_SUCCESS});
  pair.expect_received(2, 2);
}

TEST(LastMessageEndTest, AMessageAfterItFailsWithoutACount) {
  Behind pair(URMA_TM_RM);
  pair.fabric.connector.knows_count = false;
  pair.post_sends(2, 2);
  pair.open();
  EXPECT_EQ(pair.statuses(2), (Statuses{URMA_CR_WR_FLUSH_ERR, URMA_CR_REM_OPERATION_ERR}));
}

TEST(LastMessageEndTest, ALostPeerEndsLaterRequests) {
  NEEDS_FAKE();
  Behind pair(URMA_TM_RM);
  pair.fabric.fake->stall_all();
  pair.post_sends(2, 2);
  pair.open();
  pair.fabric.settle();
  EXPECT_TRUE(pair.nothing_sent());
  pair.fabric.connections.lost(pair.fabric.connector.last_connection);
  EXPECT_EQ(pair.statuses(2), (Statuses{URMA_CR_ACK_TIMEOUT_ERR, URMA_CR_ACK_TIMEOUT_ERR}));
  EXPECT_EQ(pair.fabric.connector.connects, 1);
}

// Also if the device takes longer than a flush waits for it.
TEST(LastMessageEndTest, ADatagramAfterItIsSent) {
  NEEDS_FAKE();
  constexpr uint64_t kLongerNs = 200'000'000;
  Behind pair(URMA_TM_UM);
  for (uint64_t i = 1; i <= 2; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  pair.fabric.fake->stall_all();
  pair.post_sends(2, 2);
  pair.open();
  for (const uint64_t start = monotonic_ns(); monotonic_ns() - start < kLongerNs;) {
    ASSERT_TRUE(pair.nothing_sent());
  }
  pair.fabric.fake->resume_all();
  EXPECT_EQ(pair.statuses(2), (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS}));
  pair.expect_received(1, 2);
}

TEST(LastMessageEndTest, ALostPeerFlushesIt) {
  NEEDS_FAKE();
  Held pair(URMA_TM_RM);
  pair.fabric.fake->stall_all();
  pair.post_sends(1, 1);
  pair.enter(URMA_JETTY_STATE_ERROR);
  pair.open();
  pair.fabric.settle();
  EXPECT_TRUE(pair.nothing_sent());
  pair.fabric.connections.lost(pair.fabric.connector.last_connection);
  EXPECT_EQ(pair.statuses(2), (Statuses{URMA_CR_ACK_TIMEOUT_ERR, URMA_CR_WR_FLUSH_ERR_DONE}));
}

}  // namespace
}  // namespace urma::verbs
