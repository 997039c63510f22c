// SPDX-License-Identifier: MIT
//
// Mode UM: unreliable messages. A sender does not learn what happens to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

constexpr size_t kLarge = 60000;  // by reference at this length
constexpr uint32_t kToken = 4711;

class UmTest : public ProcessTest, public testing::WithParamInterface<bool> {
 protected:
  Config config() const {
    Config config;
    config.jetty = GetParam();
    config.mode = URMA_TM_UM;
    config.token = kToken;
    return config;
  }
};

size_t large(const Self& self) {
  return std::min(kLarge, traits_of(self.endpoint.ctx).max_datagram);
}

void send(Self* self, urma_target_jetty_t* to, size_t size) {
  urma_sge_t from = piece(self->segment, self->out(), size);
  self->endpoint.post(send_request(to, &from, size));
  EXPECT_EQ(wait_for_success(self->endpoint.send_jfc, size).completion_len, size);
}

void expect_arrives(Self* self, size_t size) {
  std::memset(self->in(), 0, kHalf);
  self->endpoint.post_receive(self->segment, self->in(), kHalf, 5);
  send(self, self->queue, size);
  const urma_cr_t cr = wait_for_success(self->endpoint.receive_jfc, 5);
  EXPECT_EQ(cr.completion_len, size);
  EXPECT_EQ(cr.opcode, URMA_CR_OPC_SEND);
  EXPECT_EQ(cr.remote_id.id, self->endpoint.sender_id());
  EXPECT_TRUE(self->arrived(size));
}

TEST_P(UmTest, MessageWithoutAReceiveIsLost) {
  run_one([config = config()](Channel&) {
    Self self(config);
    for (const size_t size : {size_t{0}, size_t{8}, large(self)}) {
      send(&self, self.queue, size);
      EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
      // The next message is received, not the lost one.
      expect_arrives(&self, size);
    }
  });
}

TEST_P(UmTest, TooShortReceiveIsReportedOnlyToTheReceiver) {
  run_one([config = config()](Channel&) {
    Self self(config);
    const bool maps = traits_of(self.endpoint.ctx).maps;
    for (const size_t size : {size_t{9}, large(self)}) {
      std::memset(self.in(), 0, 8);
      self.endpoint.post_receive(self.segment, self.in(), 8, 3);
      send(&self, self.queue, size);
      const urma_cr_t cr = wait_for(self.endpoint.receive_jfc);
      EXPECT_EQ(cr.status, URMA_CR_LOC_LEN_ERR);
      EXPECT_EQ(cr.user_ctx, 3u);
      // A device writes as much as there is room for.
      EXPECT_EQ(std::string(self.in(), 8), maps ? std::string(8, 0) : std::string(self.out(), 8));
      expect_arrives(&self, size);
    }
  });
}

TEST_P(UmTest, MessageThatIsLongerThanADatagramIsRefused) {
  const size_t most = device_traits().max_datagram;
  if (most >= kHalf) GTEST_SKIP() << "the device takes messages of any length";
  run_one([config = config(), most](Channel&) {
    Self self(config);
    self.endpoint.post_receive(self.segment, self.in(), kHalf, 3);
    urma_sge_t from = piece(self.segment, self.out(), most + 1);
    self.endpoint.post(send_request(self.queue, &from));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_LOC_LEN_ERR);
    send(&self, self.queue, most);
    EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, 3).completion_len, most);
  });
}

TEST_P(UmTest, SendToAMissingOrRefusingQueueSucceeds) {
  run_one([config = config()](Channel&) {
    Self self(config);
    QueueId wrong_token = self.endpoint.queue_id();
    wrong_token.token = kToken + 1;
    QueueId nobody = self.endpoint.queue_id();
    nobody.id ^= 0x7abc;
    QueueId nowhere = self.endpoint.queue_id();
    nowhere.id ^= 0x7abc0000;
    self.endpoint.post_receive(self.segment, self.in(), kHalf);
    for (const QueueId& id : {wrong_token, nobody, nowhere}) {
      urma_target_jetty_t* to = self.endpoint.import(id);
      send(&self, to, 8);
      send(&self, to, large(self));
    }
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
    send(&self, self.queue, 8);
    EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, 0).completion_len, 8u);
  });
}

TEST_P(UmTest, SendToAnEndedReceiverSucceeds) {
  const Config config = this->config();
  Child receiver("receiver", [config](Channel& channel) {
    Self self(config);
    self.endpoint.post_receive(self.segment, self.in(), kHalf);
    channel.send(self.endpoint.queue_id());
    wait_for_success(self.endpoint.receive_jfc, 0);
    channel.sync();
    channel.sync();
  });
  Child sender("sender", [config](Channel& channel) {
    Self self(config);
    urma_target_jetty_t* to = self.endpoint.import(channel.receive<QueueId>());
    send(&self, to, 8);
    channel.sync();
    channel.sync();
    for (int i = 0; i < 20; ++i) send(&self, to, 8);
    send(&self, to, large(self));
  });
  sender.channel().send(receiver.channel().receive<QueueId>());
  receiver.channel().sync();
  sender.channel().sync();
  receiver.kill();
  sender.channel().sync();
  sender.expect_success();
}

// An earlier sender goes on; messages sent in between are lost.
TEST_P(UmTest, ReceiverThatWasStoppedIsReachedAgain) {
  run_one([config = config()](Channel&) {
    Self self(config);
    Endpoint& endpoint = self.endpoint;
    expect_arrives(&self, 8);
    for (const auto state : {URMA_JFR_STATE_RESET, URMA_JFR_STATE_ERROR}) {
      urma_jfr_attr_t attr = {JFR_STATE, 0, state};
      EXPECT_EQ(urma_modify_jfr(endpoint.jfr, &attr), URMA_SUCCESS);
      send(&self, self.queue, 8);
      attr.state = URMA_JFR_STATE_READY;
      EXPECT_EQ(urma_modify_jfr(endpoint.jfr, &attr), URMA_SUCCESS);
      EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
      expect_arrives(&self, 8);
    }
    for (const auto state : {URMA_JETTY_STATE_RESET, URMA_JETTY_STATE_ERROR}) {
      if (endpoint.jetty == nullptr) break;
      urma_jetty_attr_t attr = {JETTY_STATE, 0, state};
      EXPECT_EQ(urma_modify_jetty(endpoint.jetty, &attr), URMA_SUCCESS);
      if (state == URMA_JETTY_STATE_ERROR) {
        wait_for_status(endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR_DONE);
      }
      attr.state = URMA_JETTY_STATE_READY;
      EXPECT_EQ(urma_modify_jetty(endpoint.jetty, &attr), URMA_SUCCESS);
      expect_arrives(&self, 8);
    }
  });
}

TEST_P(UmTest, OnlySendsAreSupported) {
  run_one([config = config()](Channel&) {
    Self self(config);
    char* const word = self.in() + kHalf / 2;
    const urma_sge_t in =
        piece(self.endpoint.import(self.endpoint.segment_id(self.segment), true), word, 8);
    urma_sge_t out = piece(self.segment, self.out(), 8), there[] = {in, in};
    // So that a path to the target exists, and each request could be executed at once.
    expect_arrives(&self, 0);
    const urma_jfs_wr_t refused[] = {
        write_request(self.queue, &out, there),
        write_imm_request(self.queue, &out, there, 1),
        write_notify_request(self.queue, &out, there, 1),
        write_atomic_request(self.queue, &out, there),
        read_request(self.queue, &out, there),
        cas_request(self.queue, &out, there, 0, 1),
        add_request(self.queue, &out, there, 1),
        send_invalidate_request(self.queue, &out, self.remote),
    };
    for (urma_jfs_wr_t wr : refused) {
      SCOPED_TRACE(static_cast<int>(wr.opcode));
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &wr);
    }
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    EXPECT_EQ(*word, 0);
    self.endpoint.post(nop_request(self.queue, 7));
    EXPECT_EQ(wait_for_success(self.endpoint.send_jfc, 7).completion_len, 0u);
  });
}

TEST_P(UmTest, FlagsOfOrderAreAccepted) {
  run_one([config = config()](Channel&) {
    Self self(config);
    for (const uint32_t order : {URMA_NO_ORDER, URMA_RELAX_ORDER, URMA_STRONG_ORDER}) {
      self.endpoint.post_receive(self.segment, self.in(), 8, order);
      urma_sge_t from = piece(self.segment, self.out(), 8);
      urma_jfs_wr_t wr = send_imm_request(self.queue, &from, ~uint64_t{order}, order);
      wr.flag.bs.place_order = order;
      wr.flag.bs.comp_order = 1;
      wr.flag.bs.fence = 1;
      self.endpoint.post(wr);
      wait_for_success(self.endpoint.send_jfc, order);
      EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, order).imm_data, ~uint64_t{order});
    }
  });
}

// A sender in another mode is not heard, and delays no one.
TEST_P(UmTest, ModesDoNotMix) {
  Config reliable = config();
  reliable.mode = URMA_TM_RM;
  const auto side = [](const Config& config) {
    return [config](Channel& channel) {
      Self self(config);
      self.endpoint.post_receive(self.segment, self.in(), 100);
      urma_sge_t from = piece(self.segment, self.out(), 8);
      self.endpoint.post(
          send_request(self.endpoint.import(channel.swap(self.endpoint.queue_id())), &from));
      wait_for_status(self.endpoint.send_jfc,
                      config.mode == URMA_TM_UM ? URMA_CR_SUCCESS : URMA_CR_REM_ACCESS_ABORT_ERR);
      channel.sync();
      EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
      send(&self, self.queue, 8);
      wait_for_success(self.endpoint.receive_jfc, 0);
    };
  };
  run_two("unreliable", side(config()), "reliable", side(reliable));
}

INSTANTIATE_TEST_SUITE_P(All, UmTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Jetty" : "JfsJfr");
});

}  // namespace
}  // namespace urma_test
