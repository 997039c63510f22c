// SPDX-License-Identifier: MIT
//
// Requests of a send queue on their way to one target.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "test/verbs/requests.h"

namespace urma::verbs {
namespace {

TEST(PathTest, WritesAndReads) {
  Pair pair;
  std::strcpy(pair.here->data(), "over the wire");
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 14), pair.there->remote_sge(100, 14), 1);
  chain.read({pair.here->sge(200, 4), pair.here->sge(300, 10)}, pair.there->remote_sge(100, 14), 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].user_ctx, 1U);
  EXPECT_EQ(records[0].status, URMA_CR_SUCCESS);
  EXPECT_EQ(records[0].completion_len, 14U);
  EXPECT_EQ(records[0].remote_id.id, 1000U);
  EXPECT_EQ(records[1].user_ctx, 2U);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
  EXPECT_STREQ(pair.there->data() + 100, "over the wire");
  EXPECT_EQ(std::memcmp(pair.here->data() + 200, "over", 4), 0);
  EXPECT_STREQ(pair.here->data() + 300, " the wire");
}

TEST(PathTest, SendsInlineAndFromMemory) {
  Pair pair;
  ASSERT_EQ(pair.post_receive(71, 0), URMA_SUCCESS);
  ASSERT_EQ(pair.post_receive(72, 64), URMA_SUCCESS);
  std::strcpy(pair.here->data(), "first");
  char second[] = "second";
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 6), 1);
  urma_sge_t bytes = {};
  bytes.addr = reinterpret_cast<uint64_t>(second);
  bytes.len = sizeof(second);
  chain.send(bytes, 2).flag.bs.inline_flag = 1;
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  // Inline bytes belong to the library once posted, even if the connection is still being made.
  std::memset(second, 'x', sizeof(second));
  EXPECT_EQ(pair.sent(2)[1].status, URMA_CR_SUCCESS);
  const auto records = pair.received(2);
  EXPECT_EQ(records[0].user_ctx, 71U);
  EXPECT_EQ(records[0].opcode, URMA_CR_OPC_SEND);
  EXPECT_EQ(records[0].completion_len, 6U);
  EXPECT_EQ(records[0].flag.bs.s_r, 1U);
  EXPECT_EQ(records[0].remote_id.uasid, 7U);
  EXPECT_EQ(records[0].remote_id.id, pair.send->sender->id().id);
  EXPECT_EQ(records[1].user_ctx, 72U);
  EXPECT_STREQ(pair.there->data(), "first");
  EXPECT_STREQ(pair.there->data() + 64, "second");
}

TEST(PathTest, ChainIsOneListWithOneDoorbell) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  const uint64_t before = pair.fabric.fake->calls("post_send");
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 12; ++i) {
    chain.write(pair.here->sge(i * 8, 8), pair.there->remote_sge(i * 8, 8), i);
  }
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.fabric.fake->calls("post_send"), before + 1);
  const auto records = pair.sent(12);
  for (uint64_t i = 0; i < 12; ++i) EXPECT_EQ(records[i].user_ctx, i);
}

TEST(PathTest, BadRequestInChainKeepsEarlierOnes) {
  Pair pair;
  pair.connect();
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
  urma_jfs_wr_t& broken = chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 2);
  broken.rw.dst.num_sge = 0;
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 3);
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(pair.post(&chain, &bad), URMA_EINVAL);
  EXPECT_EQ(bad, &broken);
  EXPECT_EQ(pair.sent(1)[0].user_ctx, 1U);
  urma_cr_t none;
  EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
}

TEST(PathTest, ImmediatesOfAllSizesArrive) {
  Pair pair;
  const std::vector<uint64_t> values = {0,           1,          0x7FFFFFFF, 0x80000000,
                                        0xFFFFFFFFU, 1ULL << 32, UINT64_MAX, 0x123456789ABCDEF0};
  for (uint64_t i = 0; i < 2 * values.size(); ++i) {
    ASSERT_EQ(pair.post_receive(i), URMA_SUCCESS);
  }
  for (uint64_t i = 0; i < values.size(); ++i) {
    Chain chain(pair.target.get());
    urma_jfs_wr_t& send = chain.send(pair.here->sge(0, 4), i);
    send.opcode = URMA_OPC_SEND_IMM;
    send.send.imm_data = values[i];
    urma_jfs_wr_t& write = chain.write(pair.here->sge(0, 16), pair.there->remote_sge(1024, 16), i);
    write.opcode = URMA_OPC_WRITE_IMM;
    write.rw.notify_data = ~values[i];
    ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
    for (const urma_cr_t& record : pair.sent(2)) EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    const auto records = pair.received(2);
    EXPECT_EQ(records[0].opcode, URMA_CR_OPC_SEND_WITH_IMM);
    EXPECT_EQ(records[0].imm_data, values[i]);
    EXPECT_EQ(records[0].completion_len, 4U);
    EXPECT_EQ(records[1].opcode, URMA_CR_OPC_WRITE_WITH_IMM);
    EXPECT_EQ(records[1].imm_data, ~values[i]);
    EXPECT_EQ(records[1].completion_len, 16U);
  }
}

TEST(PathTest, InvalidationComesBeforeTheRecord) {
  Pair pair;
  ASSERT_EQ(pair.post_receive(5), URMA_SUCCESS);
  Chain chain(pair.target.get());
  urma_jfs_wr_t& wr = chain.send(pair.here->sge(0, 4), 1);
  wr.opcode = URMA_OPC_SEND_INVALIDATE;
  wr.send.tseg = pair.there->imported;
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_SUCCESS);
  const urma_cr_t record = pair.received(1)[0];
  EXPECT_EQ(record.opcode, URMA_CR_OPC_SEND_WITH_INV);
  EXPECT_EQ(record.invalid_token.token_id, pair.there->segment.seg.token_id);
  ASSERT_EQ(pair.fabric.revoker.revoked.size(), 1U);
  EXPECT_EQ(pair.fabric.revoker.revoked[0].va, pair.there->addr());
  EXPECT_EQ(pair.fabric.revoker.revoked[0].len, pair.there->segment.len);
}

TEST(PathTest, WriteNotifyWritesTheValueAfterTheData) {
  Pair pair;
  std::memset(pair.here->data(), 0x5A, 256);
  Chain chain(pair.target.get());
  chain.write_notify(pair.here->sge(0, 256), pair.there->remote_sge(0, 256),
                     pair.there->remote_sge(512, 8), 0xFEEDFACE12345678, 9);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(1)[0].user_ctx, 9U);
  EXPECT_EQ(pair.there->words[64], 0xFEEDFACE12345678U);
  EXPECT_EQ(std::memcmp(pair.there->data(), pair.here->data(), 256), 0);
}

TEST(PathTest, UnsignalledRequestsFreeTheirSlots) {
  Pair pair;
  pair.connect();
  // Many times the depth, without a poll: a post makes room as soon as the device has some.
  constexpr uint64_t kPosts = 500;
  for (uint64_t i = 0; i <= kPosts; ++i) {
    Chain chain(pair.target.get());
    chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), i, /*signalled=*/i == kPosts);
    urma_status_t status = pair.post(&chain);
    for (int tries = 0; status == URMA_ENOMEM && tries < 100'000; ++tries) {
      ASSERT_NE(real_device(), nullptr);
      std::this_thread::yield();
      status = pair.post(&chain);
    }
    ASSERT_EQ(status, URMA_SUCCESS) << i;
  }
  EXPECT_EQ(pair.sent(1)[0].user_ctx, kPosts);
}

TEST(PathTest, NopAfterUnsignalledRequestsCompletes) {
  Pair pair;
  pair.connect();
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1, /*signalled=*/false);
  chain.nop(2);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 3);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].user_ctx, 2U);
  EXPECT_EQ(records[1].user_ctx, 3U);
}

TEST(PathTest, RequestsWaitForTheConnection) {
  Pair pair;
  pair.fabric.connector.hold = true;
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 5; ++i) {
    chain.write(pair.here->sge(0, 8), pair.there->remote_sge(8 * i, 8), i);
  }
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  pair.fabric.settle();
  urma_cr_t none;
  EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  pair.fabric.connector.release();
  const auto records = pair.sent(5);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(records[i].user_ctx, i);
}

// One sender and several receivers, `most` of which may be connected.
struct Crowd {
  explicit Crowd(uint32_t most, uint32_t count = 3) : fabric({}, most) {
    for (uint32_t i = 0; i < count; ++i) {
      receivers.push_back(
          std::make_unique<ReceiveEnd>(&fabric, fabric.jfr_cfg(receive_jfc.get()), 500 + i));
      targets.push_back(fabric.import(500 + i));
    }
    send = std::make_unique<SendEnd>(&fabric, fabric.jfs_cfg(jfc.get()));
  }

  urma_status_t try_post(uint32_t to, bool signalled, bool fence = false) {
    Chain chain(targets[to].get());
    chain.write(here.sge(0, 8), there.remote_sge(0, 8), to, signalled).flag.bs.fence = fence;
    urma_jfs_wr_t* bad;
    return send->sender->post(chain.first(), &bad);
  }
  void post(uint32_t to, bool signalled = true) {
    ASSERT_EQ(try_post(to, signalled), URMA_SUCCESS);
  }
  void use(uint32_t to) {
    post(to);
    ASSERT_EQ(fabric.poll(jfc.get(), 1)[0].status, URMA_CR_SUCCESS);
  }

  Fabric fabric;
  std::unique_ptr<TestJfc> jfc = fabric.make_jfc(64);
  std::unique_ptr<TestJfc> receive_jfc = fabric.make_jfc(64);
  Buffer here{&fabric, 64};
  Buffer there{&fabric, 64};
  std::vector<std::unique_ptr<ReceiveEnd>> receivers;
  std::vector<std::unique_ptr<RemoteQueue>> targets;
  std::unique_ptr<SendEnd> send;
};

TEST(PathTest, MostRecentConnectionStays) {
  NEEDS_FAKE();
  Crowd crowd(/*most=*/2);
  crowd.use(0);
  crowd.use(1);
  crowd.use(0);
  crowd.use(2);
  crowd.fabric.settle();
  EXPECT_EQ(crowd.fabric.connections.count(), 2U);
  crowd.use(0);
  EXPECT_EQ(crowd.fabric.connector.connects, 3);
}

TEST(PathTest, BusyConnectionIsClosedWhenIdle) {
  NEEDS_FAKE();
  Crowd crowd(/*most=*/1);
  crowd.use(0);
  const uint32_t victim = crowd.fabric.fake->queue_pairs().front();
  crowd.fabric.fake->stall(victim);
  crowd.post(0);
  crowd.post(1);
  crowd.fabric.settle();
  EXPECT_EQ(crowd.fabric.connections.count(), 2U);
  crowd.fabric.fake->resume(victim);
  for (const urma_cr_t& record : crowd.fabric.poll(crowd.jfc.get(), 2)) {
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  }
  EXPECT_EQ(crowd.fabric.connections.count(), 1U);
  crowd.use(1);
  EXPECT_EQ(crowd.fabric.connector.connects, 2);
}

TEST(PathTest, ConnectionWithAnUnsignalledRequestIsClosedWhenIdle) {
  NEEDS_FAKE();
  Crowd crowd(/*most=*/1);
  crowd.use(0);
  crowd.post(0, /*signalled=*/false);
  auto other_jfc = crowd.fabric.make_jfc(64);
  SendEnd other(&crowd.fabric, crowd.fabric.jfs_cfg(other_jfc.get()));
  other.sender->connect_ahead(crowd.targets[1].get());
  crowd.fabric.settle();
  EXPECT_EQ(crowd.fabric.connections.count(), 2U);
  for (int i = 0; i < 2; ++i) {
    urma_cr_t none;
    EXPECT_EQ(crowd.jfc->poll(1, &none), 0);
  }
  EXPECT_EQ(crowd.fabric.connections.count(), 1U);
}

TEST(PathTest, RecordsDoNotAwaitUnsignalledRequestsToOtherTargets) {
  NEEDS_FAKE();
  Crowd crowd(/*most=*/8);
  for (uint32_t i = 0; i < 3; ++i) crowd.use(i);
  crowd.post(0, /*signalled=*/false);
  crowd.post(1, /*signalled=*/false);
  crowd.use(2);
  // With waiting requests, the queue takes another way.
  crowd.post(0, /*signalled=*/false);
  ASSERT_EQ(crowd.try_post(1, /*signalled=*/true, /*fence=*/true), URMA_SUCCESS);
  EXPECT_EQ(crowd.fabric.poll(crowd.jfc.get(), 1)[0].user_ctx, 1U);
}

TEST(PathTest, RecordsDoNotAwaitUnsignalledRequestsOfTheLastBusyPath) {
  NEEDS_FAKE();
  Crowd crowd(/*most=*/8);
  for (uint32_t i = 0; i < 3; ++i) crowd.use(i);
  crowd.post(0, /*signalled=*/false);
  crowd.post(1, /*signalled=*/false);
  crowd.post(2);
  urma_cr_t none;
  EXPECT_EQ(crowd.jfc->poll(1, &none), 0);
  {
    // As a look of the service thread does.
    ForeignScope scope(crowd.send->sender->lock());
    crowd.send->sender->poll_completions();
  }
  EXPECT_EQ(crowd.fabric.poll(crowd.jfc.get(), 1)[0].user_ctx, 2U);
}

TEST(PathTest, UnsignalledRequestsToManyTargetsFreeTheirSlots) {
  NEEDS_FAKE();
  Crowd crowd(/*most=*/16, /*count=*/10);
  for (uint32_t i = 0; i < 10; ++i) crowd.use(i);
  for (uint32_t i = 0; i < 100; ++i) {
    // The first attempt may find out that the queue is full.
    if (crowd.try_post(i % 10, /*signalled=*/false) == URMA_SUCCESS) continue;
    ASSERT_EQ(crowd.try_post(i % 10, /*signalled=*/false), URMA_SUCCESS) << i;
  }
}

TEST(PathTest, LeastUsedConnectionsAreClosed) {
  NEEDS_FAKE();
  Fabric fabric({}, /*most_connections=*/3);
  auto jfc = fabric.make_jfc(64);
  auto receive_jfc = fabric.make_jfc(64);
  std::vector<std::unique_ptr<ReceiveEnd>> receivers;
  std::vector<std::unique_ptr<RemoteQueue>> targets;
  Buffer here(&fabric, 64);
  Buffer there(&fabric, 64);
  {
    SendEnd send(&fabric, fabric.jfs_cfg(jfc.get()));
    for (uint32_t i = 0; i < 12; ++i) {
      receivers.push_back(
          std::make_unique<ReceiveEnd>(&fabric, fabric.jfr_cfg(receive_jfc.get()), 500 + i));
      targets.push_back(fabric.import(500 + i));
      // The first target stays in use.
      for (RemoteQueue* target : {targets[i].get(), targets[0].get()}) {
        Chain chain(target);
        chain.write(here.sge(0, 8), there.remote_sge(0, 8), i);
        urma_jfs_wr_t* bad;
        ASSERT_EQ(send.sender->post(chain.first(), &bad), URMA_SUCCESS);
        ASSERT_EQ(fabric.poll(jfc.get(), 1)[0].status, URMA_CR_SUCCESS);
      }
      EXPECT_LE(fabric.connections.count(), 4U);
    }
    fabric.settle();
    EXPECT_LE(fabric.connections.count(), 3U);
    // The one always in use was connected once.
    EXPECT_EQ(fabric.connector.connects, 12);
    EXPECT_LE(fabric.fake->queue_pairs().size(), 6U);
  }
  fabric.settle();
  EXPECT_TRUE(fabric.fake->queue_pairs().empty());
}

TEST(PathTest, CompletionsComeInPostOrderAcrossTargets) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  const uint32_t first = pair.fabric.fake->queue_pairs().front();
  auto other_jfc = pair.fabric.make_jfc(64);
  ReceiveEnd other(&pair.fabric, pair.fabric.jfr_cfg(other_jfc.get()), 2000);
  auto second_target = pair.fabric.import(2000);
  pair.fabric.fake->hold(first);
  pair.post_write(1);
  Chain second(second_target.get());
  second.write(pair.here->sge(0, 8), pair.there->remote_sge(8, 8), 2);
  ASSERT_EQ(pair.post(&second), URMA_SUCCESS);
  pair.fabric.settle();
  urma_cr_t none;
  EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  pair.fabric.settle();
  EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  pair.fabric.fake->release(first);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].user_ctx, 1U);
  EXPECT_EQ(records[1].user_ctx, 2U);
  pair.send.reset();
  pair.fabric.settle();
}

TEST(PathTest, FenceAwaitsReadsFromOtherTargets) {
  NEEDS_FAKE();
  Pair pair;
  pair.connect();
  const uint32_t first = pair.fabric.fake->queue_pairs().front();
  auto other_jfc = pair.fabric.make_jfc(64);
  ReceiveEnd other(&pair.fabric, pair.fabric.jfr_cfg(other_jfc.get()), 2000);
  auto second_target = pair.fabric.import(2000);
  pair.there->words[0] = 11;
  pair.fabric.fake->stall(first);
  Chain chain(pair.target.get());
  chain.read({pair.here->sge(0, 8)}, pair.there->remote_sge(0, 8), 1);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  // Sends on what the read has fetched.
  Chain second(second_target.get());
  second.write(pair.here->sge(0, 8), pair.there->remote_sge(8, 8), 2).flag.bs.fence = 1;
  ASSERT_EQ(pair.post(&second), URMA_SUCCESS);
  for (int i = 0; i < 4; ++i) {
    pair.fabric.settle();
    urma_cr_t none;
    EXPECT_EQ(pair.send_jfc->poll(1, &none), 0);
  }
  pair.fabric.fake->resume(first);
  EXPECT_EQ(pair.sent(2)[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.there->words[1], 11U);
  pair.send.reset();
  pair.fabric.settle();
}

TEST(PathTest, SmallCompletionQueueNeverOverflows) {
  NEEDS_FAKE();
  FakeDeviceOptions options;
  options.max_cqe = 24;
  Pair pair(options);
  pair.connect();
  pair.fabric.fake->stall_all();
  Chain chain(pair.target.get());
  for (uint64_t i = 0; i < 16; ++i) {
    // Two requests of the device each.
    chain.write_notify(pair.here->sge(0, 8), pair.there->remote_sge(0, 8),
                       pair.there->remote_sge(64 + 8 * i, 8), i + 1, i);
  }
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  // All requests of the device are flushed into the completion queue at once.
  pair.send->sender->set_state(URMA_JETTY_STATE_ERROR);
  pair.fabric.fake->resume_all();
  EXPECT_EQ(pair.sent(17)[16].status, URMA_CR_WR_FLUSH_ERR_DONE);
  pair.send->sender->set_state(URMA_JETTY_STATE_READY);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(16);
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(records[i].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.there->words[8 + 15], 16U);
}

}  // namespace
}  // namespace urma::verbs
