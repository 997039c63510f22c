// SPDX-License-Identifier: MIT
//
// Mode UM: messages as datagrams.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "test/verbs/requests.h"

namespace urma::verbs {
namespace {

void use_datagrams(urma_jfs_cfg_t* jfs, urma_jfr_cfg_t* jfr) {
  jfs->trans_mode = URMA_TM_UM;
  jfr->trans_mode = URMA_TM_UM;
}

TEST(UmTest, MessagesArriveWithTheirSender) {
  Pair pair({}, 16, use_datagrams);
  ASSERT_EQ(pair.post_receive(1, 0), URMA_SUCCESS);
  ASSERT_EQ(pair.post_receive(2, 64), URMA_SUCCESS);
  ASSERT_EQ(pair.post_receive(3, 128), URMA_SUCCESS);
  std::strcpy(pair.here->data(), "datagram");
  char bytes[] = "inline";
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 9), 1);
  urma_sge_t sge = {};
  sge.addr = reinterpret_cast<uint64_t>(bytes);
  sge.len = sizeof(bytes);
  urma_jfs_wr_t& second = chain.send(sge, 2);
  second.flag.bs.inline_flag = 1;
  second.opcode = URMA_OPC_SEND_IMM;
  second.send.imm_data = 0xFEDCBA9876543210;
  chain.send(pair.here->sge(0, 0), 3);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  for (const urma_cr_t& record : pair.sent(3)) EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  const auto records = pair.received(3);
  EXPECT_EQ(records[0].completion_len, 9U);
  EXPECT_EQ(records[0].opcode, URMA_CR_OPC_SEND);
  EXPECT_EQ(records[0].remote_id.id, pair.send->sender->id().id);
  EXPECT_EQ(records[0].remote_id.uasid, 7U);
  EXPECT_EQ(std::memcmp(&records[0].remote_id.eid, &pair.fabric.eid, sizeof(urma_eid_t)), 0);
  EXPECT_EQ(records[1].opcode, URMA_CR_OPC_SEND_WITH_IMM);
  EXPECT_EQ(records[1].imm_data, 0xFEDCBA9876543210U);
  EXPECT_EQ(records[2].completion_len, 0U);
  EXPECT_STREQ(pair.there->data(), "datagram");
  EXPECT_STREQ(pair.there->data() + 64, "inline");
}

TEST(UmTest, MessageTooLongForOnePacketFails) {
  Pair pair({}, 16, use_datagrams);
  const uint32_t most = max_datagram(pair.fabric.device->info());
  ASSERT_EQ(pair.post_receive(1, 0, most), URMA_SUCCESS);
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, most + 1), 1);
  chain.send(pair.here->sge(0, most), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_LOC_LEN_ERR);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.received(1)[0].completion_len, most);
}

TEST(UmTest, LostMessageIsNotReported) {
  Pair pair({}, 16, use_datagrams);
  // Nothing is posted there.
  pair.post_send(1);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  auto nobody = pair.fabric.import(4711, URMA_TM_UM);
  Chain lost(nobody.get());
  lost.send(pair.here->sge(0, 8), 2);
  ASSERT_EQ(pair.post(&lost), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  pair.send.reset();
}

TEST(UmTest, OtherOpcodesAreRefused) {
  Pair pair({}, 16, use_datagrams);
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  EXPECT_EQ(pair.post(&chain), URMA_EINVAL);
}

TEST(UmTest, TooShortReceiveAffectsNoOther) {
  Pair pair({}, 16, use_datagrams);
  ASSERT_EQ(pair.post_receive(1, 0, 4), URMA_SUCCESS);
  ASSERT_EQ(pair.post_receive(2, 64, 64), URMA_SUCCESS);
  const uint64_t before = pair.there->words[1];
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, max_datagram(pair.fabric.device->info())), 1);
  chain.send(pair.here->sge(0, 32), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  for (const urma_cr_t& record : pair.sent(2)) EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  const auto records = pair.received(2);
  EXPECT_EQ(records[0].status, URMA_CR_LOC_LEN_ERR);
  EXPECT_EQ(records[0].user_ctx, 1U);
  EXPECT_EQ(records[0].completion_len, 0U);
  EXPECT_EQ(records[0].remote_id.id, pair.send->sender->id().id);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(records[1].user_ctx, 2U);
  // Nothing was written after the receive.
  EXPECT_EQ(pair.there->words[1], before);
}

TEST(UmTest, ReceiveInUnregisteredMemoryAffectsNoOther) {
  Pair pair({}, 16, use_datagrams);
  Buffer gone(&pair.fabric, 64);
  urma_sge_t sge = gone.sge(0, 64);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  wr.user_ctx = 1;
  urma_jfr_wr_t* bad = nullptr;
  ASSERT_EQ(pair.receive->receiver->post(&wr, &bad), URMA_SUCCESS);
  ASSERT_EQ(pair.post_receive(2, 64, 64), URMA_SUCCESS);
  gone.end();
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 32), 1);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  const urma_cr_t failed = pair.received(1)[0];
  EXPECT_EQ(failed.status, URMA_CR_LOC_ACCESS_ERR);
  EXPECT_EQ(failed.user_ctx, 1U);
  // The device has given up the queue; a poll that finds nothing more opens it again.
  urma_cr_t none;
  EXPECT_EQ(pair.receive_jfc->poll(1, &none), 0);
  EXPECT_EQ(pair.receive_jfc->poll(1, &none), 0);
  Chain again(pair.target.get());
  again.send(pair.here->sge(0, 32), 2);
  ASSERT_EQ(pair.post(&again), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  const urma_cr_t received = pair.received(1)[0];
  EXPECT_EQ(received.status, URMA_CR_SUCCESS);
  EXPECT_EQ(received.user_ctx, 2U);
}

TEST(UmTest, ErrorStateOfTheReceiverReturnsReceives) {
  Pair pair({}, 16, use_datagrams);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  pair.receive->receiver->set_state(URMA_JFR_STATE_ERROR);
  const auto records = pair.received(5);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(records[i].user_ctx, i);
    EXPECT_EQ(records[i].status, URMA_CR_WR_FLUSH_ERR);
  }
}

void send_one(Pair* pair, RemoteQueue* target) {
  ASSERT_EQ(pair->post_receive(7), URMA_SUCCESS);
  Chain chain(target);
  chain.send(pair->here->sge(0, 8), 1);
  ASSERT_EQ(pair->post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair->sent(1)[0].status, URMA_CR_SUCCESS);
}

void expect_arrives(Pair* pair, RemoteQueue* target, TestJfc* jfc) {
  send_one(pair, target);
  EXPECT_EQ(pair->fabric.poll(jfc, 1)[0].status, URMA_CR_SUCCESS);
}

void expect_arrives(Pair* pair) {
  expect_arrives(pair, pair->target.get(), pair->receive_jfc.get());
}

void expect_lost(Pair* pair, RemoteQueue* target, TestJfc* jfc) {
  send_one(pair, target);
  urma_cr_t none;
  EXPECT_EQ(jfc->poll(1, &none), 0);
}

void expect_lost(Pair* pair) { expect_lost(pair, pair->target.get(), pair->receive_jfc.get()); }

// Earlier senders are not told, so they go on to its current place.
TEST(UmTest, ReceiverThatIsReadyAgainGetsMessages) {
  Pair pair({}, 16, use_datagrams);
  for (const auto state : {URMA_JFR_STATE_RESET, URMA_JFR_STATE_ERROR, URMA_JFR_STATE_RESET}) {
    expect_arrives(&pair);
    pair.receive->receiver->set_state(state);
    Chain lost(pair.target.get());
    lost.send(pair.here->sge(0, 8), 2);
    ASSERT_EQ(pair.post(&lost), URMA_SUCCESS);
    EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
    pair.receive->receiver->set_state(URMA_JFR_STATE_READY);
    expect_arrives(&pair);
    urma_cr_t none;
    EXPECT_EQ(pair.receive_jfc->poll(1, &none), 0) << "messages sent in between are lost";
  }
  EXPECT_EQ(pair.fabric.connector.connects, 1);
}

TEST(UmTest, JettyThatIsReachableAgainGetsMessages) {
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  Receiver& receiver = *pair.receive->receiver;
  const Endpoint endpoint = pair.fabric.connector.endpoints[1000];
  receiver.close_ways(endpoint.identity.user_data);
  expect_lost(&pair);
  receiver.open_ways(endpoint);
  expect_arrives(&pair);
  EXPECT_EQ(pair.fabric.connector.connects, 1);
}

TEST(UmTest, QueueThatCannotBeReopenedStaysClosed) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  Receiver& receiver = *pair.receive->receiver;
  receiver.set_state(URMA_JFR_STATE_ERROR);
  pair.fabric.fake->fail("modify_qp", EIO);
  EXPECT_THROW(receiver.set_state(URMA_JFR_STATE_READY), Error);
  EXPECT_EQ(receiver.state(), URMA_JFR_STATE_ERROR);
  receiver.set_state(URMA_JFR_STATE_READY);
  expect_arrives(&pair);
}

// The kind distinguishes ids chosen by the library.
TEST(UmTest, JettyAndJfrWithTheSameIdAreTwoTargets) {
  Pair pair({}, 16, use_datagrams);
  auto jetty_jfc = pair.fabric.make_jfc();
  const Attachment attachment(jetty_jfc.get(), pair.receive->receiver.get());
  Endpoint jetty = pair.fabric.connector.endpoints[1000];
  jetty.identity.jetty = true;
  jetty.identity.user_data = 4711;
  jetty.jfc = jetty_jfc.get();
  pair.receive->receiver->open_ways(jetty);
  const auto target = pair.fabric.import(1000, URMA_TM_UM);
  target->type = URMA_JETTY;
  expect_arrives(&pair, target.get(), jetty_jfc.get());
  expect_arrives(&pair);
  pair.receive->receiver->close_ways(4711);
  expect_lost(&pair, target.get(), jetty_jfc.get());
  expect_arrives(&pair);
  pair.send.reset();
}

TEST(UmTest, MessageToAGroupReachesTheMemberThatAnswered) {
  Pair pair({}, 16, use_datagrams);
  Endpoint member = pair.fabric.connector.endpoints[1000];
  member.identity.jetty = true;
  pair.receive->receiver->open_ways(member);
  pair.fabric.connector.endpoints[2000] = member;
  const auto group = pair.fabric.import(2000, URMA_TM_UM);
  group->type = URMA_JETTY_GROUP;
  expect_arrives(&pair, group.get(), pair.receive_jfc.get());
  pair.send.reset();
}

// As after a restart of its process: the same id, with another queue pair and key.
TEST(UmTest, NextReceiverWithTheSameIdIsReachedAfterTheOldOneEnds) {
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  pair.receive.reset();
  urma_jfr_cfg_t cfg = pair.fabric.jfr_cfg(pair.receive_jfc.get());
  cfg.trans_mode = URMA_TM_UM;
  pair.receive = std::make_unique<ReceiveEnd>(&pair.fabric, cfg, 1000);
  expect_lost(&pair);
  pair.fabric.connections.lost(pair.fabric.connector.last_connection);
  expect_arrives(&pair);
  EXPECT_EQ(pair.fabric.connector.connects, 2);
  EXPECT_EQ(pair.fabric.connector.disconnects, 1);
  // No one asks again for one that is no longer wanted.
  pair.fabric.connections.lost(1);
  expect_arrives(&pair);
  EXPECT_EQ(pair.fabric.connector.connects, 2);
}

TEST(UmTest, AddressOfAnEndedOwnerStaysWhileTheDeviceUsesIt) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  const uint32_t sends = pair.fabric.fake->queue_pairs().back();
  pair.fabric.fake->stall(sends);
  pair.post_send(1);
  pair.fabric.connections.lost(pair.fabric.connector.last_connection);
  pair.post_send(2);
  pair.fabric.settle();
  EXPECT_EQ(pair.fabric.fake->calls("destroy_ah"), 0U);
  pair.fabric.fake->resume(sends);
  for (const urma_cr_t& record : pair.sent(2)) EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.fabric.fake->calls("destroy_ah"), 1U);
  EXPECT_EQ(pair.fabric.connector.connects, 2);
}

// No reliable connection is closed for it, and none is listed.
TEST(UmTest, TargetDoesNotCountAsAConnection) {
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  EXPECT_EQ(pair.fabric.connections.count(), 0U);
}

TEST(UmTest, RefusedRequestFailsAloneUnlessTheQueueIsFull) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  for (const int error : {ENOMEM, EINVAL}) {
    pair.fabric.fake->fail("post_send", error);
    Chain chain(pair.target.get());
    chain.send(pair.here->sge(0, 8), 1);
    chain.send(pair.here->sge(0, 8), 2);
    ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
    const auto records = pair.sent(2);
    EXPECT_EQ(records[0].status, error == EINVAL ? URMA_CR_LOC_OPERATION_ERR : URMA_CR_SUCCESS);
    EXPECT_EQ(records[0].user_ctx, 1U);
    EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
  }
}

// Requests after it, also to another target, are sent again.
TEST(UmTest, RequestThatBreaksTheSendQueueFailsAlone) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  const auto other = pair.fabric.import(1000, URMA_TM_UM);
  expect_arrives(&pair);
  expect_arrives(&pair, other.get(), pair.receive_jfc.get());
  const uint32_t sends = pair.fabric.fake->queue_pairs().back();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  pair.fabric.fake->stall(sends);
  for (uint64_t i = 0; i < 5; ++i) {
    Chain chain(i % 2 == 0 ? pair.target.get() : other.get());
    pair.here->words[i] = 100 + i;
    chain.send(pair.here->sge(8 * i, 8), i);
    ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  }
  pair.fabric.fake->fail_request(sends, IBV_WC_LOC_PROT_ERR);
  pair.fabric.fake->resume(sends);
  const auto records = pair.sent(5);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(records[i].user_ctx, i);
    EXPECT_EQ(records[i].status, i == 0 ? URMA_CR_LOC_ACCESS_ERR : URMA_CR_SUCCESS);
  }
  for (const urma_cr_t& record : pair.received(4)) EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  expect_arrives(&pair);
  pair.send.reset();
}

TEST(UmTest, EachUnexplainedFlushEndsOneRequest) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  pair.fabric.fake->fail_request(pair.fabric.fake->queue_pairs().back(), IBV_WC_WR_FLUSH_ERR);
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 8), 1);
  chain.send(pair.here->sge(0, 8), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_LOC_OPERATION_ERR);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
}

TEST(UmTest, LostSendQueueIsReopened) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  pair.fabric.fake->raise_qp_event(pair.fabric.fake->queue_pairs().back(), IBV_EVENT_QP_FATAL);
  pair.fabric.settle();
  const uint64_t changes = pair.fabric.fake->calls("modify_qp");
  expect_arrives(&pair);
  EXPECT_GT(pair.fabric.fake->calls("modify_qp"), changes);
}

TEST(UmTest, SendQueueThatCannotBeReopenedFailsNewRequests) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  pair.fabric.fake->raise_qp_event(pair.fabric.fake->queue_pairs().back(), IBV_EVENT_QP_FATAL);
  pair.fabric.settle();
  pair.fabric.fake->fail("modify_qp", EIO);
  pair.post_send(1);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_LOC_OPERATION_ERR);
  expect_arrives(&pair);
}

// What the device keeps beyond a flush is not taken for a later request.
TEST(UmTest, RequestsHeldByTheDeviceAreFlushed) {
  NEEDS_FAKE();
  Pair pair({}, 16, use_datagrams);
  expect_arrives(&pair);
  const uint32_t sends = pair.fabric.fake->queue_pairs().back();
  pair.fabric.fake->stall(sends);
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 2; ++i) chain.send(pair.here->sge(0, 8), i);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  const auto records = pair.sent(3);
  for (uint64_t i = 0; i < 2; ++i) EXPECT_EQ(records[i].status, URMA_CR_WR_FLUSH_ERR);
  EXPECT_EQ(records[2].status, URMA_CR_WR_FLUSH_ERR_DONE);
  pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  pair.post_send(5);
  urma_cr_t none;
  EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  pair.fabric.fake->resume(sends);
  EXPECT_EQ(pair.sent(1)[0].user_ctx, 5U);
  expect_arrives(&pair);
}

}  // namespace
}  // namespace urma::verbs
