// SPDX-License-Identifier: MIT
//
// A JFR: posted receives, the connections that end at it, its states and its limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "test/verbs/requests.h"

namespace urma::verbs {
namespace {

TEST(ReceiverTest, ManySendersShareTheReceives) {
  Pair pair({}, 64);
  std::vector<std::unique_ptr<TestJfc>> jfcs;
  std::vector<std::unique_ptr<SendEnd>> senders;
  for (uint64_t i = 0; i < 8; ++i) {
    jfcs.push_back(pair.fabric.make_jfc());
    senders.push_back(
        std::make_unique<SendEnd>(&pair.fabric, pair.fabric.jfs_cfg(jfcs.back().get())));
  }
  for (uint64_t i = 0; i < 64; ++i) ASSERT_EQ(pair.post_receive(i, i * 64), URMA_SUCCESS);
  for (uint64_t i = 0; i < 64; ++i) {
    pair.here->words[0] = i;
    Chain chain(pair.target.get());
    chain.send(pair.here->sge(0, 8), i);
    urma_jfs_wr_t* bad;
    ASSERT_EQ(senders[i % 8]->sender->post(chain.first(), &bad), URMA_SUCCESS);
    ASSERT_EQ(pair.fabric.poll(jfcs[i % 8].get(), 1)[0].status, URMA_CR_SUCCESS);
  }
  const auto records = pair.received(64);
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(records[i].user_ctx, i);
    EXPECT_EQ(records[i].remote_id.id, senders[i % 8]->sender->id().id);
    EXPECT_EQ(pair.there->words[i * 8], i);
  }
}

TEST(ReceiverTest, LargerTimesThanTheDeviceHasAreItsLargest) {
  Pair pair({}, 16, [](urma_jfs_cfg_t* send, urma_jfr_cfg_t* receive) {
    send->rnr_retry = send->err_timeout = receive->min_rnr_timer = UINT8_MAX;
  });
  ASSERT_EQ(pair.post_receive(1), URMA_SUCCESS);
  pair.post_send(2);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.received(1)[0].status, URMA_CR_SUCCESS);
}

TEST(ReceiverTest, ChainIsPostedInBatches) {
  NEEDS_FAKE();
  Pair pair({}, 64);
  std::vector<urma_sge_t> sges;
  std::vector<urma_jfr_wr_t> chain(40);
  for (size_t i = 0; i < chain.size(); ++i) sges.push_back(pair.there->sge(i * 64, 64));
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i].src = {&sges[i], 1};
    chain[i].user_ctx = i;
    chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
  }
  urma_jfr_wr_t* bad = nullptr;
  ASSERT_EQ(pair.receive->receiver->post(chain.data(), &bad), URMA_SUCCESS);
  EXPECT_EQ(pair.fabric.fake->calls("post_srq_recv"), 3U);
  EXPECT_EQ(pair.receive->receiver->posted(), 40U);
  // Up to the depth, and not one more.
  EXPECT_EQ(pair.receive->receiver->post(chain.data(), &bad), URMA_ENOMEM);
  EXPECT_EQ(bad, &chain[24]);
  EXPECT_EQ(pair.receive->receiver->posted(), 64U);
}

TEST(ReceiverTest, RefusedReceiveInAChainKeepsEarlierOnes) {
  Pair pair;
  urma_sge_t good = pair.there->sge(0, 64);
  urma_sge_t no_segment = good;
  no_segment.tseg = nullptr;
  urma_jfr_wr_t chain[3] = {};
  chain[0].src = {&good, 1};
  chain[1].src = {&no_segment, 1};
  chain[2].src = {&good, 1};
  chain[0].next = &chain[1];
  chain[1].next = &chain[2];
  urma_jfr_wr_t* bad = nullptr;
  EXPECT_EQ(pair.receive->receiver->post(chain, &bad), URMA_EINVAL);
  EXPECT_EQ(bad, &chain[1]);
  EXPECT_EQ(pair.receive->receiver->posted(), 1U);
}

TEST(ReceiverTest, PartlyPostedChainReportsTheFirstFailure) {
  NEEDS_FAKE();
  Pair pair;
  pair.fabric.fake->fail("post_srq_recv", ENOMEM);
  urma_sge_t good = pair.there->sge(0, 64);
  urma_jfr_wr_t chain[2] = {};
  chain[0].src = {&good, 1};
  chain[1].src = {&good, 1};
  chain[0].next = &chain[1];
  urma_jfr_wr_t* bad = nullptr;
  EXPECT_EQ(pair.receive->receiver->post(chain, &bad), URMA_ENOMEM);
  EXPECT_EQ(bad, &chain[0]);
  EXPECT_EQ(pair.receive->receiver->post(chain, &bad), URMA_SUCCESS);
}

// Whether the device reports what was wrong with a receive, or leaves that to the library.
class ReceiverFaultTest : public testing::TestWithParam<bool> {
 protected:
  static FakeDeviceOptions options() {
    FakeDeviceOptions options;
    options.vague_receives = GetParam();
    return options;
  }
};

TEST_P(ReceiverFaultTest, TooShortReceiveFailsOnBothSides) {
  Pair pair(options());
  ASSERT_EQ(pair.post_receive(1, 0, 8), URMA_SUCCESS);
  ASSERT_EQ(pair.post_receive(2, 64, 64), URMA_SUCCESS);
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 32), 1);
  chain.send(pair.here->sge(0, 32), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  // No one polls the receiver before.
  const auto sent = pair.sent(2);
  EXPECT_EQ(sent[0].status, URMA_CR_REM_RESP_LEN_ERR);
  EXPECT_EQ(sent[0].user_ctx, 1U);
  EXPECT_EQ(sent[1].status, URMA_CR_SUCCESS);
  const auto received = pair.received(2);
  EXPECT_EQ(received[0].status, URMA_CR_LOC_LEN_ERR);
  EXPECT_EQ(received[0].user_ctx, 1U);
  EXPECT_EQ(received[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(received[1].user_ctx, 2U);
}

TEST_P(ReceiverFaultTest, ReceiveInUnregisteredMemoryFailsOnBothSides) {
  Pair pair(options());
  Buffer gone(&pair.fabric, 64);
  urma_sge_t sge = gone.sge(0, 64);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  urma_jfr_wr_t* bad = nullptr;
  ASSERT_EQ(pair.receive->receiver->post(&wr, &bad), URMA_SUCCESS);
  gone.end();
  pair.post_send(1);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_REM_OPERATION_ERR);
  EXPECT_EQ(pair.received(1)[0].status, URMA_CR_LOC_ACCESS_ERR);
}

// Before its receiver has reported what was wrong.
TEST_P(ReceiverFaultTest, SenderThatIsFlushedDoesNotWaitForTheReason) {
  Pair pair(options());
  pair.connect();
  ASSERT_EQ(pair.post_receive(1, 0, 8), URMA_SUCCESS);
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 32), 1);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  urma_cr_t early;
  const bool told = pair.send_jfc->poll(1, &early) == 1;
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  const urma_cr_t record = told ? early : pair.sent(1)[0];
  EXPECT_EQ(record.status, told ? URMA_CR_REM_RESP_LEN_ERR : URMA_CR_WR_FLUSH_ERR);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_WR_FLUSH_ERR_DONE);
}

INSTANTIATE_TEST_SUITE_P(All, ReceiverFaultTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Vague" : "Exact");
});

TEST(ReceiverTest, MessagesSentBeforeTheSenderEndedAreReceived) {
  NEEDS_FAKE();
  Pair pair;
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 4; ++i) chain.send(pair.here->sge(0, 8), i);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(4).size(), 4U);
  pair.send.reset();
  pair.fabric.settle();
  // Its queue pair is gone already; its messages are in the JFC.
  EXPECT_TRUE(pair.fabric.fake->queue_pairs().empty());
  for (const urma_cr_t& record : pair.received(4)) EXPECT_EQ(record.status, URMA_CR_SUCCESS);
}

TEST(ReceiverTest, ErrorReturnsReceivesInOrder) {
  Pair pair;
  pair.connect();
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  // Places are reused in another order.
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 5; ++i) chain.send(pair.here->sge(0, 8), i);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(5).size(), 5U);
  EXPECT_EQ(pair.received(5).size(), 5U);
  for (uint64_t i = 10; i < 15; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  pair.receive->receiver->set_state(URMA_JFR_STATE_ERROR);
  ASSERT_EQ(pair.post_receive(15), URMA_SUCCESS);
  const auto records = pair.received(11);
  for (uint64_t i = 0; i < 11; ++i) {
    EXPECT_EQ(records[i].user_ctx, i + 5);
    EXPECT_EQ(records[i].status, URMA_CR_WR_FLUSH_ERR);
  }
  pair.receive->receiver->set_state(URMA_JFR_STATE_READY);
  ASSERT_EQ(pair.post_receive(20), URMA_SUCCESS);
  pair.post_send(1);
  EXPECT_EQ(pair.received(1)[0].user_ctx, 20U);
}

TEST(ReceiverTest, ResetDropsReceives) {
  Pair pair;
  for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  pair.receive->receiver->set_state(URMA_JFR_STATE_RESET);
  urma_cr_t none;
  EXPECT_EQ(pair.receive_jfc->poll(1, &none), 0);
  pair.receive->receiver->set_state(URMA_JFR_STATE_READY);
  for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
}

TEST(ReceiverTest, DeviceReportsTheLimitOnce) {
  Pair pair;
  for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  pair.connect();
  pair.receive->receiver->set_limit(4);
  urma_async_event_t event;
  EXPECT_FALSE(pair.fabric.events.take(&event));
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 3; ++i) chain.send(pair.here->sge(0, 8), i);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(3).size(), 3U);
  // No one has polled the receives.
  pair.fabric.settle();
  ASSERT_TRUE(pair.fabric.events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFR_LIMIT);
  AsyncEvents::acknowledge(event);
  EXPECT_EQ(pair.received(3).size(), 3U);
  EXPECT_FALSE(pair.fabric.events.take(&event));
  // Already below it.
  pair.receive->receiver->set_limit(10);
  ASSERT_TRUE(pair.fabric.events.take(&event));
  AsyncEvents::acknowledge(event);
}

// The device has a separate queue for each time that a JFR becomes READY.
TEST(ReceiverTest, DeviceReportsTheLimitAfterAStop) {
  for (const auto state : {URMA_JFR_STATE_RESET, URMA_JFR_STATE_ERROR}) {
    Pair pair;
    for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
    pair.receive->receiver->set_limit(4);
    pair.receive->receiver->set_state(state);
    EXPECT_EQ(pair.received(state == URMA_JFR_STATE_ERROR ? 6 : 0).size(),
              state == URMA_JFR_STATE_ERROR ? 6U : 0U);
    pair.receive->receiver->set_state(URMA_JFR_STATE_READY);
    EXPECT_EQ(pair.receive->receiver->limit(), 4U);
    for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
    pair.fabric.settle();
    Chain chain(pair.target.get());
    for (uint64_t i = 0; i < 3; ++i) chain.send(pair.here->sge(0, 8), i);
    ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
    EXPECT_EQ(pair.sent(3).size(), 3U);
    // No one has polled the receives.
    pair.fabric.settle();
    urma_async_event_t event;
    ASSERT_TRUE(pair.fabric.events.take(&event));
    EXPECT_EQ(event.event_type, URMA_EVENT_JFR_LIMIT);
    AsyncEvents::acknowledge(event);
  }
}

TEST(ReceiverTest, FullJfcDelaysMessagesAndLosesNone) {
  Fabric fabric;
  auto send_jfc = fabric.make_jfc(64);
  auto receive_jfc = fabric.make_jfc(4);
  Buffer here(&fabric, 64);
  Buffer there(&fabric, 64);
  auto target = fabric.import(1000);
  {
    ReceiveEnd receive(&fabric, fabric.jfr_cfg(receive_jfc.get(), 16), 1000);
    SendEnd send(&fabric, fabric.jfs_cfg(send_jfc.get()));
    for (uint64_t i = 0; i < 12; ++i) {
      urma_sge_t sge = there.sge(0, 64);
      urma_jfr_wr_t wr = {};
      wr.src = {&sge, 1};
      wr.user_ctx = i;
      urma_jfr_wr_t* bad;
      ASSERT_EQ(receive.receiver->post(&wr, &bad), URMA_SUCCESS);
    }
    Chain chain(target.get());
    for (uint64_t i = 0; i < 12; ++i) chain.send(here.sge(0, 8), i);
    urma_jfs_wr_t* bad;
    ASSERT_EQ(send.sender->post(chain.first(), &bad), URMA_SUCCESS);
    EXPECT_EQ(fabric.poll(send_jfc.get(), 12).size(), 12U);
    // The service thread leaves what it holds in the ring of the JFC.
    receive.receiver->serve();
    const auto records = fabric.poll(receive_jfc.get(), 12);
    for (uint64_t i = 0; i < 12; ++i) EXPECT_EQ(records[i].user_ctx, i);
  }
  urma_async_event_t event;
  ASSERT_TRUE(fabric.events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFC_ERR);
  AsyncEvents::acknowledge(event);
}

TEST(ReceiverTest, ClosedEndpointRefusesItsSenders) {
  Pair pair;
  pair.connect();
  pair.receive->receiver->close_ways(reinterpret_cast<uint64_t>(&pair.receive->object));
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 8), 1);
  pair.fabric.settle();
  pair.fabric.connector.endpoints.clear();
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_REM_ACCESS_ABORT_ERR);
}

// Messages for which the JFC has no room are kept by the number of their queue pair.
TEST(ReceiverTest, UnreadMessagesOfAClosedEndpointReachNoOther) {
  NEEDS_FAKE();
  Fabric fabric;
  fabric.fake->set_reuse_numbers(true);
  auto send_jfc = fabric.make_jfc(64);
  auto receive_jfc = fabric.make_jfc(2);
  Buffer here(&fabric, 64);
  Buffer there(&fabric, 64);
  auto target = fabric.import(1000);
  auto other_target = fabric.import(1001);
  ReceiveEnd receive(&fabric, fabric.jfr_cfg(receive_jfc.get(), 16), 1000);
  Endpoint other = fabric.connector.endpoints.at(1000);
  other.identity = {1001, false, 7};
  fabric.connector.endpoints[1001] = other;
  SendEnd send(&fabric, fabric.jfs_cfg(send_jfc.get()));
  for (uint64_t i = 0; i < 12; ++i) {
    urma_sge_t sge = there.sge(0, 64);
    urma_jfr_wr_t wr = {};
    wr.src = {&sge, 1};
    urma_jfr_wr_t* bad;
    ASSERT_EQ(receive.receiver->post(&wr, &bad), URMA_SUCCESS);
  }
  urma_jfs_wr_t* bad;
  Chain early(target.get());
  for (uint64_t i = 0; i < 4; ++i) early.send(here.sge(0, 8), i);
  ASSERT_EQ(send.sender->post(early.first(), &bad), URMA_SUCCESS);
  fabric.poll(send_jfc.get(), 4);
  const std::vector<uint32_t> before = fabric.fake->queue_pairs();
  ASSERT_EQ(before.size(), 2U);
  // The other sender has its own queue pair, so that the receiver's gets the next number.
  fabric.connector.hold = true;
  Chain late(other_target.get());
  late.send(here.sge(0, 16), 9);
  ASSERT_EQ(send.sender->post(late.first(), &bad), URMA_SUCCESS);
  fabric.settle();
  receive.receiver->close_ways(reinterpret_cast<uint64_t>(&receive.object));
  fabric.connector.hold = false;
  fabric.connector.release();
  fabric.poll(send_jfc.get(), 1);
  // Two found room before the endpoint was closed.
  const auto records = fabric.poll(receive_jfc.get(), 3);
  EXPECT_EQ(records[1].completion_len, 8U);
  EXPECT_EQ(records[2].completion_len, 16U);
  EXPECT_EQ(records[2].local_id, 1001U);
  urma_cr_t none;
  EXPECT_EQ(receive_jfc->poll(1, &none), 0);
  // A closed endpoint is freed once everything is read.
  fabric.settle();
  const std::vector<uint32_t> after = fabric.fake->queue_pairs();
  EXPECT_EQ(std::count(after.begin(), after.end(), before[1]), 0);
  fabric.connector.endpoints.erase(1001);
}

// Of a queue pair that does not exist.
ConnectRequest request_from(const Pair& pair) {
  ConnectRequest request = {};
  request.connection = 77;
  request.end.gid = pair.fabric.eid;
  request.end.qpn = 1;
  request.end.mtu = IBV_MTU_1024;
  return request;
}

TEST(ReceiverTest, SameRequestGetsTheSameAnswer) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  const Endpoint endpoint = pair.fabric.connector.endpoints[1000];
  const ConnectRequest request = request_from(pair);
  std::shared_ptr<QueuePair> first;
  std::shared_ptr<QueuePair> second;
  const ConnectAnswer a = pair.receive->receiver->accept(5, request, endpoint, &first);
  const ConnectAnswer b = pair.receive->receiver->accept(5, request, endpoint, &second);
  EXPECT_EQ(a.reply.end.qpn, b.reply.end.qpn);
  EXPECT_EQ(a.reply.mailbox.address, b.reply.mailbox.address);
  EXPECT_EQ(first, second);
  const size_t pairs = pair.fabric.fake->queue_pairs().size();
  first.reset();
  second.reset();
  pair.receive->receiver->disconnected(5, request.connection);
  pair.fabric.settle();
  EXPECT_EQ(pair.fabric.fake->queue_pairs().size(), pairs - 1);
}

// The device makes a connection without the lock of the receiver, which the program may take
// meanwhile.
TEST(ReceiverTest, ConcurrentStateChangeRefusesASender) {
  NEEDS_FAKE();
  Pair pair;
  static Receiver* receiver;
  static FakeVerbs* fake;
  static ibv_qp* (*create)(ibv_pd*, ibv_qp_init_attr*);
  receiver = pair.receive->receiver.get();
  fake = pair.fabric.fake.get();
  create = std::exchange(fake->table().create_qp, [](ibv_pd* pd, ibv_qp_init_attr* attr) {
    receiver->set_state(URMA_JFR_STATE_ERROR);
    receiver->set_state(URMA_JFR_STATE_READY);
    EXPECT_EQ(fake->calls("destroy_srq"), 0U) << "the pending connection needs it";
    return create(pd, attr);
  });
  const ConnectRequest request = request_from(pair);
  std::shared_ptr<QueuePair> made;
  const size_t pairs = fake->queue_pairs().size();
  const Endpoint endpoint = pair.fabric.connector.endpoints.at(1000);
  EXPECT_EQ(receiver->accept(5, request, endpoint, &made).answer, Answer::kNoSuchObject);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(fake->queue_pairs().size(), pairs);
  EXPECT_EQ(fake->calls("destroy_srq"), 1U);
  // The next one is accepted.
  fake->table().create_qp = create;
  ASSERT_EQ(pair.post_receive(1), URMA_SUCCESS);
  pair.post_send(1);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.received(1)[0].user_ctx, 1U);
}

// The service thread closes ended connections without the lock of the receiver.
TEST(ReceiverTest, StateChangeWhileAConnectionClosesLeaksNothing) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  static Receiver* receiver;
  static int (*destroy)(ibv_qp*);
  receiver = pair.receive->receiver.get();
  Api& table = pair.fabric.fake->table();
  destroy = std::exchange(table.destroy_qp, [](ibv_qp* qp) {
    receiver->set_state(URMA_JFR_STATE_ERROR);
    receiver->set_state(URMA_JFR_STATE_READY);
    return destroy(qp);
  });
  receiver->disconnected(/*nonce=*/1, pair.fabric.connector.last_connection);
  const uint64_t objects = pair.fabric.fake->objects();
  pair.fabric.settle();
  table.destroy_qp = destroy;
  // A queue pair and its mailbox are gone, and the receive queue is another one.
  EXPECT_EQ(pair.fabric.fake->objects(), objects - 2);
}

TEST(ReceiverTest, JettyThatIsNotBoundYetIsAskedAgain) {
  Pair pair({}, 16, [](urma_jfs_cfg_t* jfs, urma_jfr_cfg_t* jfr) {
    jfs->trans_mode = URMA_TM_RC;
    jfr->trans_mode = URMA_TM_RC;
  });
  Bond bond;
  pair.fabric.connector.endpoints[1000].bond = &bond;
  pair.send->sender->bind(pair.target.get());
  ASSERT_EQ(pair.post_receive(1), URMA_SUCCESS);
  pair.post_send(1);
  pair.fabric.settle();
  urma_cr_t none;
  EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  pair.receive->receiver->set_bond(&bond, pair.send->sender->id());
  const uint64_t begin = monotonic_ns();
  while (pair.send_jfc->poll(1, &none) == 0 && monotonic_ns() - begin < 10'000'000'000) {
    pair.fabric.settle();
  }
  EXPECT_EQ(none.status, URMA_CR_SUCCESS);
  pair.send->sender->unbind();
}

}  // namespace
}  // namespace urma::verbs
