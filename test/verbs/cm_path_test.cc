// SPDX-License-Identifier: MIT
//
// The data path over iWARP connections, without the features that they lack.
#include <gtest/gtest.h>

#include "test/verbs/requests.h"
#include "urma/providers/verbs/cm_acceptor.h"
#include "urma/providers/verbs/cm_connector.h"

namespace urma::verbs {
namespace {

constexpr uint64_t kNonce = 1;
constexpr uint64_t kPatienceNs = 60'000'000'000;

// Finds the receiver in this process, as TestConnector does, and makes the acceptor expect the
// call.
class OwnerAsking : public Connector {
 public:
  OwnerAsking(Fabric* fabric, CmAcceptor* acceptor) : fabric_(fabric), acceptor_(acceptor) {}

  void connect(const std::shared_ptr<QueuePair>&, const ConnectRequest& request,
               std::function<void(const ConnectAnswer&)> answered) override {
    fabric_->service.post([=, this] {
      const auto endpoint = fabric_->connector.endpoints.find(request.target.id);
      ASSERT_NE(endpoint, fabric_->connector.endpoints.end());
      std::shared_ptr<QueuePair> pair;
      ConnectAnswer answer = receiver(request)->accept(kNonce, request, endpoint->second, &pair);
      answer.owner = kNonce;
      if (pair != nullptr) {
        const NetAddress here = address_of(fabric_->eid, LinkLayer::kIwarp, 7000);
        acceptor_->expect({here, kNonce}, request, answer.reply.end, pair);
        answer.reply.cm_port = acceptor_->port();
      }
      answered(answer);
    });
  }
  void disconnect(const ConnectRequest& request, DisconnectReason) override {
    acceptor_->finish(kNonce, request.connection, [=, this] {
      if (Receiver* there = receiver(request)) there->disconnected(kNonce, request.connection);
    });
  }
  void turn_away(uint64_t nonce, const ConnectRequest& request, DisconnectReason reason,
                 uint64_t received) override {
    acceptor_->forget(nonce, request.connection);
    fabric_->connector.turn_away(nonce, request, reason, received);
  }
  void ask_end(const ConnectRequest& request, const Request& question, OnReply answered) override {
    fabric_->connector.ask_end(request, question, std::move(answered));
  }
  void ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& question,
           OnReply answered) override {
    fabric_->connector.ask(eid, kind, id, question, std::move(answered));
  }

 private:
  Receiver* receiver(const ConnectRequest& request) {
    const auto endpoint = fabric_->connector.endpoints.find(request.target.id);
    if (endpoint == fabric_->connector.endpoints.end()) return nullptr;
    return static_cast<Receiver*>(endpoint->second.receiver);
  }

  Fabric* const fabric_;
  CmAcceptor* const acceptor_;
};

FakeDeviceOptions iwarp() {
  FakeDeviceOptions options;
  options.iwarp = true;
  options.gids = {{"10.0.0.1"}};
  options.max_sge = 6;
  options.max_inline = 64;
  return options;
}

struct IwarpPair {
  explicit IwarpPair(const FakeDeviceOptions& options = iwarp(), uint32_t depth = 16,
                     uint8_t max_sge = 4)
      : fabric(options) {
    fabric.resources.connector = &connector;
    channel.start();
    send_jfc = fabric.make_jfc();
    receive_jfc = fabric.make_jfc();
    receive = std::make_unique<ReceiveEnd>(&fabric, fabric.jfr_cfg(receive_jfc.get()), 1000);
    urma_jfs_cfg_t cfg = fabric.jfs_cfg(send_jfc.get(), depth);
    cfg.max_sge = max_sge;
    send = std::make_unique<SendEnd>(&fabric, cfg);
    target = fabric.import(1000);
    here = std::make_unique<Buffer>(&fabric, 65536);
    there = std::make_unique<Buffer>(&fabric, 65536);
  }
  ~IwarpPair() {
    fabric.settle();
    send.reset();
    fabric.settle();
    receive.reset();
    fabric.settle();
    channel.stop();
    connector.stop();
  }

  void post(Chain* chain) {
    urma_jfs_wr_t* bad = nullptr;
    ASSERT_EQ(send->sender->post(chain->first(), &bad), URMA_SUCCESS);
  }
  urma_cr_status_t sent() { return fabric.poll(send_jfc.get(), 1)[0].status; }
  void post_receive(size_t offset, uint32_t bytes) {
    urma_sge_t sge = there->sge(offset, bytes);
    urma_jfr_wr_t wr = {};
    wr.src = {&sge, 1};
    urma_jfr_wr_t* bad = nullptr;
    ASSERT_EQ(receive->receiver->post(&wr, &bad), URMA_SUCCESS);
  }
  urma_cr_status_t send_once(uint32_t bytes) {
    Chain chain(target.get());
    chain.send(here->sge(0, bytes), 1);
    post(&chain);
    return sent();
  }

  Fabric fabric;
  CmConfig config = {fabric.eid, 0, kNonce, kPatienceNs};
  CmChannel channel{*fabric.device};
  CmAcceptor acceptor{&channel, config};
  OwnerAsking asking{&fabric, &acceptor};
  urma_cr_status_t verdict = URMA_CR_ACK_TIMEOUT_ERR;
  CmConnector connector{&channel, &asking, config, [this](const ConnectRequest& request) {
                          fabric.connections.broke(request.connection, verdict);
                          fabric.transport.serve_senders();
                        }};
  std::unique_ptr<TestJfc> send_jfc;
  std::unique_ptr<TestJfc> receive_jfc;
  std::unique_ptr<ReceiveEnd> receive;
  std::unique_ptr<SendEnd> send;
  std::unique_ptr<RemoteQueue> target;
  std::unique_ptr<Buffer> here;
  std::unique_ptr<Buffer> there;
};

TEST(CmPathTest, FirstRequestWaitsForItsConnection) {
  NEEDS_FAKE();
  IwarpPair pair;
  std::memcpy(pair.here->data(), "hello", 5);
  pair.post_receive(0, 64);
  EXPECT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  const urma_cr_t received = pair.fabric.poll(pair.receive_jfc.get(), 1)[0];
  EXPECT_EQ(received.status, URMA_CR_SUCCESS);
  EXPECT_EQ(received.completion_len, 5U);
  EXPECT_EQ(std::memcmp(pair.there->data(), "hello", 5), 0);
}

TEST(CmPathTest, MessageWithoutBytesNeedsNoMemory) {
  NEEDS_FAKE();
  IwarpPair pair;
  urma_jfr_wr_t wr = {};
  urma_jfr_wr_t* bad = nullptr;
  ASSERT_EQ(pair.receive->receiver->post(&wr, &bad), URMA_SUCCESS);
  EXPECT_EQ(pair.send_once(0), URMA_CR_SUCCESS);
  const urma_cr_t received = pair.fabric.poll(pair.receive_jfc.get(), 1)[0];
  EXPECT_EQ(received.status, URMA_CR_SUCCESS);
  EXPECT_EQ(received.completion_len, 0U);
}

TEST(CmPathTest, ReadsAndWrites) {
  NEEDS_FAKE();
  IwarpPair pair;
  for (size_t i = 0; i < 4096; ++i) pair.there->data()[i] = static_cast<char>(i * 7);
  Chain read(pair.target.get());
  // One request of the device per piece.
  read.read({pair.here->sge(0, 100), pair.here->sge(200, 300), pair.here->sge(1000, 24)},
            pair.there->remote_sge(8, 424), 1);
  pair.post(&read);
  ASSERT_EQ(pair.sent(), URMA_CR_SUCCESS);
  EXPECT_EQ(std::memcmp(pair.here->data(), pair.there->data() + 8, 100), 0);
  EXPECT_EQ(std::memcmp(pair.here->data() + 200, pair.there->data() + 108, 300), 0);
  EXPECT_EQ(std::memcmp(pair.here->data() + 1000, pair.there->data() + 408, 24), 0);
  Chain write(pair.target.get());
  write.write_notify(pair.here->sge(0, 100), pair.there->remote_sge(8192, 100),
                     pair.there->remote_sge(16384, 8), 0x1122334455667788, 2);
  pair.post(&write);
  ASSERT_EQ(pair.sent(), URMA_CR_SUCCESS);
  EXPECT_EQ(std::memcmp(pair.here->data(), pair.there->data() + 8192, 100), 0);
  EXPECT_EQ(pair.there->words[16384 / 8], 0x1122334455667788U);
}

TEST(CmPathTest, ReadOfManyPiecesFitsIntoAShallowQueue) {
  NEEDS_FAKE();
  FakeDeviceOptions options = iwarp();
  options.max_sge = 16;
  IwarpPair pair(options, /*depth=*/1, /*max_sge=*/16);
  for (size_t i = 0; i < 64; ++i) pair.there->data()[i] = static_cast<char>(i * 7);
  std::vector<urma_sge_t> pieces;
  for (size_t i = 0; i < 16; ++i) pieces.push_back(pair.here->sge(i * 8, 4));
  Chain chain(pair.target.get());
  chain.read(pieces, pair.there->remote_sge(0, 64), 1);
  pair.post(&chain);
  ASSERT_EQ(pair.sent(), URMA_CR_SUCCESS);
  EXPECT_EQ(std::memcmp(pair.here->data() + 120, pair.there->data() + 60, 4), 0);
}

TEST(CmPathTest, AtomicWritesAreRefused) {
  NEEDS_FAKE();
  IwarpPair pair;
  Chain chain(pair.target.get());
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1).opcode = URMA_OPC_WRITE_ATOMIC;
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(pair.send->sender->post(chain.first(), &bad), URMA_EINVAL);
  EXPECT_EQ(bad, chain.first());
}

TEST(CmPathTest, BrokenConnectionIsReplaced) {
  NEEDS_FAKE();
  IwarpPair pair;
  pair.post_receive(0, 64);
  ASSERT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  pair.fabric.fake->break_connection(pair.fabric.fake->queue_pairs().front());
  pair.fabric.settle();
  for (int i = 0; i < 3; ++i) {
    pair.post_receive(0, 64);
    EXPECT_EQ(pair.send_once(5), URMA_CR_SUCCESS) << i;
  }
  EXPECT_EQ(pair.fabric.fake->calls("cm_accept"), 2U);
}

// The device reports a message as done as soon as TCP has it.
TEST(CmPathTest, NothingSucceedsBeforeItsProof) {
  NEEDS_FAKE();
  IwarpPair pair;
  for (int i = 0; i < 3; ++i) pair.post_receive(0, 64);
  ASSERT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 5), 1);
  chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 2);
  const uint32_t sender = pair.fabric.fake->queue_pairs().front();
  pair.fabric.fake->hold(sender);
  pair.post(&chain);
  pair.fabric.settle();
  urma_cr_t record;
  EXPECT_EQ(pair.send_jfc->poll(1, &record), 0);
  // Both have been executed; the one existing completion is for what follows them.
  EXPECT_EQ(pair.fabric.poll(pair.receive_jfc.get(), 2).size(), 2U);
  pair.fabric.fake->release(sender);
  EXPECT_EQ(pair.fabric.poll(pair.send_jfc.get(), 2).size(), 2U);
}

TEST(CmPathTest, ManyRequestsHaveSpaceForTheirProofs) {
  NEEDS_FAKE();
  IwarpPair pair;
  uint64_t done = 0;
  for (uint64_t posted = 0; posted < 500; ++posted) {
    Chain chain(pair.target.get());
    for (uint64_t i = 0; i < 1 + posted % 5; ++i) {
      chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), i, i == posted % 5);
    }
    pair.post(&chain);
    if (posted % 3 == 2) {
      for (const urma_cr_t& record : pair.fabric.poll(pair.send_jfc.get(), 3)) {
        ASSERT_EQ(record.status, URMA_CR_SUCCESS) << posted;
        ++done;
      }
    }
  }
  EXPECT_EQ(done, 498U);
}

// A message without a receive ends the connection: iWARP has no RNR. Its sender learns of it.
TEST(CmPathTest, UnprovenRequestsEndWithTheReason) {
  NEEDS_FAKE();
  IwarpPair pair;
  pair.post_receive(0, 64);
  ASSERT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 6), 1);
  pair.post(&chain);
  Chain forgotten(pair.target.get());
  forgotten.send(pair.here->sge(0, 7), 2);
  pair.post(&forgotten);
  for (const urma_cr_t& record : pair.fabric.poll(pair.send_jfc.get(), 2)) {
    EXPECT_EQ(record.status, pair.verdict);
  }
  pair.post_receive(0, 64);
  EXPECT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
}

// Requests that the device flushes, or that TCP did not take, may follow a message that has
// arrived.
TEST(CmPathTest, FlushedRequestsEndWithTheReason) {
  NEEDS_FAKE();
  for (const ibv_wc_status seen : {IBV_WC_WR_FLUSH_ERR, IBV_WC_LOC_QP_OP_ERR}) {
    IwarpPair pair;
    for (int i = 0; i < 2; ++i) pair.post_receive(0, 64);
    ASSERT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
    const uint32_t number = pair.fabric.fake->queue_pairs().front();
    pair.fabric.fake->stall_all();
    Chain chain(pair.target.get());
    chain.send(pair.here->sge(0, 6), 1);
    chain.send(pair.here->sge(0, 7), 2);
    pair.post(&chain);
    if (seen == IBV_WC_LOC_QP_OP_ERR) pair.fabric.fake->fail_request(number, seen);
    if (seen == IBV_WC_WR_FLUSH_ERR) pair.fabric.fake->break_connection(number);
    pair.fabric.fake->resume_all();
    for (const urma_cr_t& record : pair.fabric.poll(pair.send_jfc.get(), 2)) {
      EXPECT_EQ(record.status, pair.verdict);
    }
    EXPECT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  }
}

// Its host has lost power: neither TCP nor the device reports anything.
TEST(CmPathTest, RequestsToALostPeerEnd) {
  NEEDS_FAKE();
  IwarpPair pair;
  pair.verdict = URMA_CR_REM_OPERATION_ERR;
  for (int i = 0; i < 2; ++i) pair.post_receive(0, 64);
  ASSERT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  std::vector<urma_ext_connection_t> connections;
  pair.fabric.connections.append_to(&connections, 1);
  ASSERT_EQ(connections.size(), 1U);
  pair.fabric.fake->stall_all();
  Chain chain(pair.target.get());
  chain.send(pair.here->sge(0, 6), 1);
  pair.post(&chain);
  pair.fabric.connections.lost(connections[0].handle);
  EXPECT_EQ(pair.sent(), URMA_CR_ACK_TIMEOUT_ERR);
  pair.fabric.fake->resume_all();
  EXPECT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
}

// The key of a segment that is gone is still known: only the owner's device refuses it.
TEST(CmPathTest, EndedSegmentIsRequestedAgain) {
  NEEDS_FAKE();
  IwarpPair pair;
  const auto write = [&] {
    Chain chain(pair.target.get());
    chain.write(pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 1);
    pair.post(&chain);
    return pair.sent();
  };
  ASSERT_EQ(write(), URMA_CR_SUCCESS);
  pair.there->end();
  EXPECT_EQ(write(), pair.verdict);
  EXPECT_EQ(write(), URMA_CR_REM_ACCESS_ABORT_ERR);
}

TEST(CmPathTest, ReasonOfAnEndedReceiverArrives) {
  NEEDS_FAKE();
  IwarpPair pair;
  pair.post_receive(0, 64);
  ASSERT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  pair.receive->receiver->set_state(URMA_JFR_STATE_ERROR);
  pair.fabric.settle();
  EXPECT_EQ(pair.send_once(5), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(pair.fabric.fake->waits_for_calls(), 0U);
}

TEST(CmPathTest, MessagesArriveThoughTheSenderEnds) {
  NEEDS_FAKE();
  IwarpPair pair;
  for (int i = 0; i < 4; ++i) pair.post_receive(0, 64);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(pair.send_once(5), URMA_CR_SUCCESS);
  pair.send.reset();
  for (const urma_cr_t& record : pair.fabric.poll(pair.receive_jfc.get(), 4)) {
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  }
}

}  // namespace
}  // namespace urma::verbs
