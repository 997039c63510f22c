// SPDX-License-Identifier: MIT
//
// How connections begin and end, and what happens to requests in flight at the end.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test/verbs/requests.h"

namespace urma::verbs {
namespace {

// The statuses of `count` completions.
std::vector<urma_cr_status_t> statuses(Pair* pair, size_t count) {
  std::vector<urma_cr_status_t> all;
  for (const urma_cr_t& record : pair->sent(count)) all.push_back(record.status);
  return all;
}

using Statuses = std::vector<urma_cr_status_t>;

// Those of an RC jetty that is bound when the test says so.
struct BoundPair : Pair {
  explicit BoundPair(uint32_t jfc_depth = 64)
      : Pair({}, jfc_depth / 4, [](urma_jfs_cfg_t* jfs, urma_jfr_cfg_t* jfr) {
          jfs->trans_mode = jfr->trans_mode = URMA_TM_RC;
          jfs->depth = jfr->depth = 16;
        }) {
    fabric.connector.endpoints[1000].bond = &bond;
    send->sender->bind(target.get());
  }
  ~BoundPair() { send->sender->unbind(); }
  void bind() { receive->receiver->set_bond(&bond, send->sender->id()); }
  void unbind() {
    receive->receiver->set_bond(&bond, std::nullopt);
    fabric.settle();
  }

  Bond bond;
};

// Two messages find a receive, and only the receiver knows of what they leave behind.
void post_with_completions_held(Pair* pair) {
  pair->connect();
  ASSERT_EQ(pair->post_receive(1), URMA_SUCCESS);
  ASSERT_EQ(pair->post_receive(2), URMA_SUCCESS);
  pair->fabric.fake->hold(pair->sender_pair());
  Chain chain(pair->target.get());
  chain.send(pair->here->sge(0, 8), 1);
  chain.write(pair->here->sge(0, 8), pair->there->remote_sge(0, 8), 2);
  chain.send(pair->here->sge(0, 8), 3);
  chain.write(pair->here->sge(0, 8), pair->there->remote_sge(0, 8), 4);
  chain.send(pair->here->sge(0, 8), 5);
  ASSERT_EQ(pair->post(&chain), URMA_SUCCESS);
}

TEST(ConnectionTest, FlushReportsReceivedMessages) {
  NEEDS_FAKE();
  Pair pair;
  post_with_completions_held(&pair);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  // Requests posted meanwhile have their place after it.
  pair.post_write(6);
  EXPECT_EQ(statuses(&pair, 7),
            (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS, URMA_CR_SUCCESS, URMA_CR_WR_FLUSH_ERR,
                      URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR_DONE, URMA_CR_WR_FLUSH_ERR}));
  EXPECT_EQ(pair.received(2)[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.fabric.connector.settles, 1);
  pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  pair.connect();
}

TEST(ConnectionTest, FlushContinuesAfterAnother) {
  NEEDS_FAKE();
  Pair pair;
  post_with_completions_held(&pair);
  pair.send->sender->set_state(URMA_JETTY_STATE_SUSPENDED);
  pair.post_write(6);
  pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  // Nothing has been answered yet.
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  EXPECT_EQ(statuses(&pair, 7),
            (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS, URMA_CR_SUCCESS, URMA_CR_WR_FLUSH_ERR,
                      URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR_DONE}));
}

TEST(ConnectionTest, ReceiverWithoutACountIsAskedAgain) {
  NEEDS_FAKE();
  Pair pair;
  post_with_completions_held(&pair);
  pair.fabric.connector.knows_count = false;
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  const uint64_t begin = monotonic_ns();
  urma_cr_t none;
  while (pair.fabric.connector.settles < 3 && monotonic_ns() - begin < 10'000'000'000) {
    pair.fabric.settle();
    EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  }
  pair.fabric.connector.knows_count = true;
  EXPECT_EQ(statuses(&pair, 3), (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS, URMA_CR_SUCCESS}));
}

TEST(ConnectionTest, ReceiverThatNeverCountsTimesOut) {
  NEEDS_FAKE();
  Pair pair;
  post_with_completions_held(&pair);
  pair.fabric.connector.knows_count = false;
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  EXPECT_EQ(statuses(&pair, 6),
            (Statuses{URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR,
                      URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR, URMA_CR_WR_FLUSH_ERR_DONE}));
}

TEST(ConnectionTest, QueueEndsWhileItsReceiverIsAsked) {
  NEEDS_FAKE();
  Pair pair;
  post_with_completions_held(&pair);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  pair.send.reset();
  pair.fabric.settle();
  EXPECT_TRUE(pair.fabric.fake->queue_pairs().empty());
}

TEST(ConnectionTest, LostPeerEndsAFlush) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->stall_all();
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 8), 1);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.fabric.connections.lost(1);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  EXPECT_EQ(statuses(&pair, 3), (Statuses{URMA_CR_ACK_TIMEOUT_ERR, URMA_CR_ACK_TIMEOUT_ERR,
                                          URMA_CR_WR_FLUSH_ERR_DONE}));
  EXPECT_EQ(pair.fabric.connector.settles, 0);
}

// What the receiver has is done, what it lacks waits for its next bind; no one polls the sender.
TEST(ConnectionTest, MessagesOutliveTheUnbindOfTheirReceiver) {
  NEEDS_FAKE();
  BoundPair pair;
  pair.bind();
  post_with_completions_held(&pair);
  pair.unbind();
  EXPECT_EQ(pair.received(2)[1].user_ctx, 2U);
  ASSERT_EQ(pair.post_receive(3), URMA_SUCCESS);
  pair.fabric.settle();
  urma_cr_t none;
  EXPECT_EQ(pair.receive_jfc->poll(1, &none), 0);
  pair.bind();
  EXPECT_EQ(pair.received(1)[0].user_ctx, 3U);
  EXPECT_EQ(statuses(&pair, 5), Statuses(5, URMA_CR_SUCCESS));
  EXPECT_EQ(pair.receive_jfc->poll(1, &none), 0);
}

// Its messages have to be looked at before.
TEST(ConnectionTest, UnbindTakesEffectOnceAFullJfcHasRoom) {
  NEEDS_FAKE();
  BoundPair pair(/*jfc_depth=*/4);
  pair.bind();
  pair.connect();
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 12; ++i) {
    ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
    chain.send(pair.here->sge(0, 8), i);
  }
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(statuses(&pair, 12), Statuses(12, URMA_CR_SUCCESS));
  pair.unbind();
  EXPECT_EQ(pair.fabric.fake->queue_pairs().size(), 2U);
  for (int i = 0; i < 3; ++i) {
    urma_cr_t records[4];
    EXPECT_EQ(pair.receive_jfc->poll(4, records), 4);
  }
  pair.fabric.settle();
  EXPECT_EQ(pair.fabric.fake->queue_pairs().size(), 1U);
}

// The device executes the first one, and holds the second.
void post_unsignalled(Pair* pair) {
  pair->connect();
  for (uint64_t i = 0; i < 2; ++i) {
    pair->here->words[i] = 7;
    if (i == 1) pair->fabric.fake->stall(pair->sender_pair());
    Chain chain(pair->target.get());
    chain.write(pair->here->sge(8 * i, 8), pair->there->remote_sge(8 * i, 8), i,
                /*signalled=*/false);
    ASSERT_EQ(pair->post(&chain), URMA_SUCCESS);
  }
  EXPECT_EQ(pair->there->words[0], 7U);
  pair->there->words[0] = pair->there->words[1] = 8;
}

TEST(ConnectionTest, ExecutedUnsignalledRequestsAreNotRepeated) {
  NEEDS_FAKE();
  BoundPair pair;
  pair.bind();
  post_unsignalled(&pair);
  pair.unbind();
  pair.bind();
  Chain last(pair.target.get());
  last.write(pair.here->sge(16, 8), pair.there->remote_sge(16, 8), 2);
  ASSERT_EQ(pair.post(&last), URMA_SUCCESS);
  EXPECT_EQ(statuses(&pair, 1), Statuses{URMA_CR_SUCCESS});
  EXPECT_EQ(pair.there->words[0], 8U);
  EXPECT_EQ(pair.there->words[1], 7U);
}

TEST(ConnectionTest, ExecutedUnsignalledRequestsAreNotFlushed) {
  NEEDS_FAKE();
  Pair pair;
  post_unsignalled(&pair);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].user_ctx, 1U);
  EXPECT_EQ(records[0].status, URMA_CR_WR_FLUSH_ERR);
  EXPECT_EQ(records[1].status, URMA_CR_WR_FLUSH_ERR_DONE);
}

TEST(ConnectionTest, PossiblyExecutedAtomicsAreNotRepeated) {
  NEEDS_FAKE();
  BoundPair pair;
  pair.bind();
  pair.connect();
  pair.fabric.fake->hold(pair.sender_pair());
  Chain chain(pair.target.get());
  chain.atomic(URMA_OPC_FADD, pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1, 0, 1);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.unbind();
  EXPECT_EQ(statuses(&pair, 1), Statuses{URMA_CR_REM_OPERATION_ERR});
  EXPECT_EQ(pair.there->words[0], 1U);
}

TEST(ConnectionTest, OneSidedRequestsNeedNoBind) {
  BoundPair pair;
  pair.here->words[0] = 77;
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  chain.read({pair.here->sge(8, 8)}, pair.there->remote_sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(statuses(&pair, 2), (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS}));
  EXPECT_EQ(pair.here->words[1], 77U);

  // A message waits, and so do the requests posted after it.
  ASSERT_EQ(pair.post_receive(9), URMA_SUCCESS);
  Chain more(pair.target.get());
  more.write(pair.here->sge(0, 8), pair.there->remote_sge(16, 8), 3, /*signalled=*/false);
  more.send(pair.here->sge(0, 8), 4);
  more.write(pair.here->sge(0, 8), pair.there->remote_sge(24, 8), 5);
  ASSERT_EQ(pair.post(&more), URMA_SUCCESS);
  const uint64_t begin = monotonic_ns();
  urma_cr_t none;
  const int before = pair.fabric.connector.connects;
  while (pair.fabric.connector.connects < before + 3 && monotonic_ns() - begin < 10'000'000'000) {
    pair.fabric.settle();
    EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  }
  EXPECT_EQ(pair.there->words[2], 77U);
  EXPECT_EQ(pair.there->words[3], 0U);
  EXPECT_EQ(pair.receive_jfc->poll(1, &none), 0);
  pair.bind();
  EXPECT_EQ(statuses(&pair, 2), (Statuses{URMA_CR_SUCCESS, URMA_CR_SUCCESS}));
  EXPECT_EQ(pair.received(1)[0].user_ctx, 9U);
  EXPECT_EQ(pair.there->words[3], 77U);
}

TEST(ConnectionTest, DevicesOfOtherKindsAreNotConnected) {
  NEEDS_FAKE();
  Pair pair;
  pair.fabric.connector.other_link = LinkLayer::kIwarp;
  pair.post_write(1);
  EXPECT_EQ(statuses(&pair, 1), Statuses{URMA_CR_ACK_TIMEOUT_ERR});
  EXPECT_EQ(pair.fabric.connector.disconnects, 1);
}

TEST(ConnectionTest, AdviceConnects) {
  NEEDS_FAKE();
  Pair pair;
  EXPECT_EQ(pair.send->sender->advise(pair.target.get()), URMA_SUCCESS);
  EXPECT_EQ(pair.send->sender->advise(pair.target.get()), URMA_EEXIST);
  pair.fabric.settle();
  EXPECT_EQ(pair.fabric.fake->queue_pairs().size(), 2U);
  pair.connect();
  EXPECT_EQ(pair.fabric.connector.connects, 1);
  EXPECT_EQ(pair.send->sender->unadvise(pair.target.get()), URMA_SUCCESS);
  pair.fabric.settle();
  EXPECT_TRUE(pair.fabric.fake->queue_pairs().empty());
  pair.connect();
  EXPECT_EQ(pair.send->sender->advise(pair.target.get()), URMA_SUCCESS);
  EXPECT_EQ(pair.fabric.connector.connects, 2);
}

// No one has looked at it since it was made.
TEST(ConnectionTest, EndedConnectionMadeAheadIsReplaced) {
  Pair pair;
  pair.send->sender->connect_ahead(pair.target.get());
  pair.fabric.settle();
  EXPECT_EQ(pair.fabric.connector.connects, 1);
  pair.receive->receiver->set_state(URMA_JFR_STATE_ERROR);
  pair.fabric.settle();
  pair.receive->receiver->set_state(URMA_JFR_STATE_READY);
  ASSERT_EQ(pair.post_receive(7), URMA_SUCCESS);
  pair.post_send(1);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.received(1)[0].user_ctx, 7U);
  EXPECT_EQ(pair.fabric.connector.connects, 2);
}

TEST(ConnectionTest, EarlyAdviceHarmsNoRequest) {
  Pair pair;
  pair.fabric.connector.refusal = Answer::kNoSuchObject;
  EXPECT_EQ(pair.send->sender->advise(pair.target.get()), URMA_SUCCESS);
  pair.fabric.settle();
  pair.fabric.connector.refusal = Answer::kAccepted;
  pair.connect();
  EXPECT_EQ(pair.fabric.connector.connects, 2);
}

}  // namespace
}  // namespace urma::verbs
