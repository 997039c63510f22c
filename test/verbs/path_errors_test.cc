// SPDX-License-Identifier: MIT
//
// What happens to the requests of a path when something fails or stops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "test/verbs/requests.h"

namespace urma::verbs {
namespace {

TEST(PathErrorsTest, QueueFullIsNoMemory) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->stall_all();
  for (uint64_t i = 0; i < 16; ++i) {
    pair.post_write(i);
  }
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 99);
  EXPECT_EQ(pair.post(&chain), URMA_ENOMEM);
  pair.fabric.fake->resume_all();
  EXPECT_EQ(pair.sent(16)[15].user_ctx, 15U);
}

TEST(PathErrorsTest, NothingIsLostIfTheSendQueueIsFull) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->fail("post_send", ENOMEM);
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 4; ++i) {
    chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), i);
  }
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(4);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(records[i].user_ctx, i);
    EXPECT_EQ(records[i].status, URMA_CR_SUCCESS);
  }
}

TEST(PathErrorsTest, RequestRefusedByTheDeviceFailsAlone) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->fail("post_send", EINVAL);
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_LOC_OPERATION_ERR);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
}

TEST(PathErrorsTest, SingleRequestIsRetriedOrRefused) {
  NEEDS_FAKE();
  for (const int error : {ENOMEM, EINVAL}) {
    Pair pair;
    pair.connect();
    for (uint64_t i = 0; i < 3; ++i) {
      if (i == 1) pair.fabric.fake->fail("post_send", error);
      pair.post_write(i);
      const bool fails = i == 1 && error == EINVAL;
      const urma_cr_t record = pair.sent(1)[0];
      EXPECT_EQ(record.user_ctx, i);
      EXPECT_EQ(record.status, fails ? URMA_CR_LOC_OPERATION_ERR : URMA_CR_SUCCESS);
    }
  }
}

TEST(PathErrorsTest, ErrorInTheMiddleFailsOnlyOneRequest) {
  Pair pair;
  pair.connect();
  Buffer narrow(&pair.fabric, 64, URMA_ACCESS_READ);
  // Its owner reports more rights than the device grants.
  pair.fabric.connector.grants[narrow.segment.token_id_value].access = kAllAccess;
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  chain.write(pair.here->sge(0, 8), narrow.remote_sge(0, 8), 2, /*signalled=*/false);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(8, 8), 3);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(16, 8), 4);
  pair.here->words[0] = 0x1122334455667788;
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(4);
  const urma_cr_status_t expected[] = {URMA_CR_SUCCESS, URMA_CR_REM_ACCESS_ABORT_ERR,
                                       URMA_CR_SUCCESS, URMA_CR_SUCCESS};
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(records[i].user_ctx, i + 1);
    EXPECT_EQ(records[i].status, expected[i]);
  }
  EXPECT_EQ(pair.there->words[2], 0x1122334455667788U);
  EXPECT_EQ(pair.fabric.connector.connects, 2);
  EXPECT_EQ(pair.send->sender->state(), URMA_JETTY_STATE_READY);
}

TEST(PathErrorsTest, OutOfBoundsIsRefusedLocally) {
  Pair pair;
  pair.connect();
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 16), pair.there->remote_sge(65536 - 8, 16), 1);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.fabric.connector.connects, 1);
}

// No message can ask for it: an owner would drop the question, and the request wait for an answer.
TEST(PathErrorsTest, AnAccessThatWrapsIsRefusedWithoutAsking) {
  Pair pair;
  pair.connect();
  Buffer& there = *pair.there;
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), there.remote_sge(0, 8), 1);
  chain.write(pair.here->sge(0, 8), there.remote_sge(~there.addr() - 3, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_SUCCESS);
  EXPECT_EQ(records[1].status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(pair.fabric.connector.asks, 1);
}

TEST(PathErrorsTest, UnregisteredLocalMemoryFailsItsRequest) {
  Pair pair;
  pair.connect();
  Buffer gone(&pair.fabric, 64);
  const urma_sge_t from = gone.sge(0, 8);
  gone.end();
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  chain.write(from, pair.there->remote_sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_SUCCESS);
  EXPECT_EQ(records[1].status, URMA_CR_LOC_ACCESS_ERR);
}

// Of a message with an immediate that the device cannot carry.
void post_long_immediate(Pair* pair, const urma_sge_t& from, uint64_t user_ctx) {
  Chain chain(pair->target.get());
  urma_jfs_wr_t& wr = chain.send(from, user_ctx);
  wr.opcode = URMA_OPC_SEND_IMM;
  wr.send.imm_data = ~user_ctx;
  ASSERT_EQ(pair->post(&chain), URMA_SUCCESS);
}

// The receiver has one place more for them than receives.
TEST(PathErrorsTest, UnsentMessageLeavesUnreadImmediatesAlone) {
  NEEDS_FAKE();
  for (const bool refused : {false, true}) {
    Pair pair({}, 16, [](urma_jfs_cfg_t*, urma_jfr_cfg_t* jfr) { jfr->depth = 2; });
    pair.connect();
    for (uint64_t i = 1; i <= 2; ++i) {
      ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
      post_long_immediate(&pair, pair.here->sge(0, 8), i);
      EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
    }
    if (refused) {
      pair.fabric.fake->fail("post_send", ENOMEM);
    } else {
      Buffer gone(&pair.fabric, 64);
      const urma_sge_t from = gone.sge(0, 8);
      gone.end();
      post_long_immediate(&pair, from, 0);
      EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_LOC_ACCESS_ERR);
    }
    post_long_immediate(&pair, pair.here->sge(0, 8), 3);
    pair.fabric.settle();
    urma_cr_t none;
    EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
    const auto records = pair.received(2);
    for (uint64_t i = 1; i <= 2; ++i) EXPECT_EQ(records[i - 1].imm_data, ~i);
    ASSERT_EQ(pair.post_receive(3), URMA_SUCCESS);
    EXPECT_EQ(pair.received(1)[0].imm_data, ~uint64_t{3});
    EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  }
}

TEST(PathErrorsTest, KeyIsRequestedAgainAfterItsRegionEnds) {
  Pair pair;
  pair.connect();
  // The owner registers the same memory again, under the same token id.
  Buffer& there = *pair.there;
  there.region.reset();
  MemoryRegion::Options options;
  options.access = kAllAccess;
  there.region = std::make_unique<MemoryRegion>(*pair.fabric.device, there.addr(), 65536, options);
  pair.fabric.connector.grants[there.segment.token_id_value].rkey = there.region->rkey().value();
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), there.remote_sge(0, 8), 1);
  chain.write(pair.here->sge(0, 8), there.remote_sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
}

TEST(PathErrorsTest, SilentReceiverFailsAllRequestsInFlight) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->set_reachable("fake0", false);
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 2, /*signalled=*/false);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  for (const urma_cr_t& record : pair.sent(2)) EXPECT_EQ(record.status, URMA_CR_ACK_TIMEOUT_ERR);
  pair.fabric.fake->set_reachable("fake0", true);
  pair.post_write(3);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
}

TEST(PathErrorsTest, ReceiverNotReadyFailsEachMessage) {
  Pair pair({}, 16, [](urma_jfs_cfg_t* jfs, urma_jfr_cfg_t*) { jfs->rnr_retry = 2; });
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 8), 1);
  chain.send(pair.here->sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  for (const urma_cr_t& record : pair.sent(2)) {
    EXPECT_EQ(record.status, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
  }
  ASSERT_EQ(pair.post_receive(4), URMA_SUCCESS);
  pair.post_send(3);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
}

TEST(PathErrorsTest, RefusedConnectionEndsPendingRequests) {
  Pair pair;
  pair.fabric.connector.refusal = Answer::kWrongToken;
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  chain.nop(2);
  chain.send(pair.here->sge(0, 8), 3);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  for (const urma_cr_t& record : pair.sent(3)) {
    EXPECT_EQ(record.status, URMA_CR_REM_ACCESS_ABORT_ERR);
  }
  pair.fabric.connector.refusal = Answer::kAccepted;
  pair.connect();
}

TEST(PathErrorsTest, ErrorStateFlushesInOrderWithAMarker) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->stall_all();
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 6; ++i) {
    chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), i, i % 2 == 0);
  }
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  pair.post_write(6);
  const auto records = pair.sent(8);
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(records[i].user_ctx, i);
    EXPECT_EQ(records[i].status, URMA_CR_WR_FLUSH_ERR);
  }
  EXPECT_EQ(records[6].status, URMA_CR_WR_FLUSH_ERR_DONE);
  EXPECT_EQ(records[7].user_ctx, 6U);
  pair.fabric.fake->resume_all();
  pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  pair.connect();
}

TEST(PathErrorsTest, SuspendedQueueKeepsPostedRequests) {
  Pair pair;
  pair.connect();
  pair.send->sender->set_state(URMA_JETTY_STATE_SUSPENDED);
  pair.post_write(1);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_WR_SUSPEND_DONE);
  pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
}

TEST(PathErrorsTest, DestroyedWithRequestsInFlight) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->stall_all();
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 10; ++i) {
    chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), i);
  }
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.send.reset();
  pair.fabric.settle();
  urma_cr_t none;
  EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  // Both ends of the connection are gone.
  EXPECT_TRUE(pair.fabric.fake->queue_pairs().empty());
}

TEST(PathErrorsTest, StaleCompletionsAreHarmless) {
  NEEDS_FAKE();
  Pair pair;
  pair.fabric.fake->set_clean_on_destroy(false);
  for (int round = 0; round < 8; ++round) {
    pair.connect();
    Chain chain(pair.target.get());
    for (uint64_t i = 0; i < 6; ++i) {
      chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), i);
    }
    pair.fabric.fake->hold(pair.fabric.fake->queue_pairs().back());
    pair.fabric.fake->stall_all();
    ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
    pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
    pair.fabric.fake->resume_all();
    for (const urma_cr_t& record : pair.sent(7)) EXPECT_NE(record.status, URMA_CR_SUCCESS);
    pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  }
}

// Returns as many completions as it is told to, and keeps the others.
struct Faucet {
  static int poll(ibv_cq* cq, int count, ibv_wc* completions) {
    const int got = poll_really(cq, std::min(count, left), completions);
    left -= std::max(got, 0);
    return got;
  }
  inline static int (*poll_really)(ibv_cq* cq, int count, ibv_wc* completions);
  inline static int left;
};

// Requests after one that has ended its connection are flushed later, maybe much later.
TEST(PathErrorsTest, CompletionsOfAnOldConnectionDoNotAffectTheNext) {
  NEEDS_FAKE();
  Pair pair;
  pair.fabric.fake->set_clean_on_destroy(false);
  Faucet::poll_really = std::exchange(pair.fabric.fake->table().poll_cq, Faucet::poll);
  Faucet::left = INT_MAX;
  pair.send.reset();
  pair.send = std::make_unique<SendEnd>(&pair.fabric, pair.fabric.jfs_cfg(pair.send_jfc.get()));
  pair.connect();
  const uint32_t first = pair.sender_pair();
  pair.fabric.fake->stall_all();
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.fabric.fake->fail_request(first, IBV_WC_RETRY_EXC_ERR);
  Faucet::left = 1;
  pair.fabric.fake->resume_all();
  for (const urma_cr_t& record : pair.sent(2)) EXPECT_EQ(record.status, URMA_CR_ACK_TIMEOUT_ERR);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_WR_FLUSH_ERR_DONE);
  pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  Faucet::left = INT_MAX;
  for (uint64_t i = 1; i <= 4; ++i) {
    Chain add(pair.target.get());
    add.atomic(URMA_OPC_FADD, pair.here->sge(0, 8), pair.there->remote_sge(64, 8), 1, 0, i);
    ASSERT_EQ(pair.post(&add), URMA_SUCCESS);
    EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
    EXPECT_EQ(pair.there->words[8], i);
  }
  EXPECT_EQ(pair.fabric.connector.connects, 2);
}

// Completions appear when a queue pair is about to fail.
struct LateRelease {
  static int modify(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
    if (attr->qp_state == IBV_QPS_ERR) fake->release(qp->qp_num);
    return modify_really(qp, attr, mask);
  }
  inline static int (*modify_really)(ibv_qp* qp, ibv_qp_attr* attr, int mask);
  inline static FakeVerbs* fake;
};

// Some devices remove the completions of a queue pair that is destroyed.
TEST(PathErrorsTest, LastCompletionsCountBeforeTheQueuePairCloses) {
  NEEDS_FAKE();
  Pair pair;
  pair.fabric.fake->set_clean_on_destroy(true);
  pair.connect();
  LateRelease::fake = pair.fabric.fake.get();
  LateRelease::modify_really =
      std::exchange(pair.fabric.fake->table().modify_qp, LateRelease::modify);
  pair.fabric.fake->hold(pair.sender_pair());
  pair.post_write(1);
  // No mark tells when all completions have come.
  pair.fabric.fake->fail("post_send", ENOMEM);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  EXPECT_EQ(pair.sent(2)[0].status, URMA_CR_SUCCESS);
}

TEST(PathErrorsTest, ReasonOfARefusingReceiverArrives) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  pair.fabric.fake->stall_all();
  pair.post_write(1);
  pair.receive->receiver->set_state(URMA_JFR_STATE_ERROR);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_REM_ACCESS_ABORT_ERR);
  pair.fabric.fake->resume_all();
  pair.post_write(2);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_REM_ACCESS_ABORT_ERR);
}

TEST(PathErrorsTest, RequestsUnsupportedByIwarpAreRefusedAtPost) {
  NEEDS_FAKE();
  FakeDeviceOptions options;
  options.iwarp = true;
  Pair pair(options);
  Chain immediate(pair.target.get());
  immediate.send(pair.here->sge(0, 4), 1).opcode = URMA_OPC_SEND_IMM;
  EXPECT_EQ(pair.post(&immediate), URMA_EINVAL);
  Chain atomic(pair.target.get());
  atomic.atomic(URMA_OPC_FADD, pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1, 0, 1);
  EXPECT_EQ(pair.post(&atomic), URMA_EINVAL);
}

}  // namespace
}  // namespace urma::verbs
