// SPDX-License-Identifier: MIT
//
// A message that is the first to a queue, and whose own queue ends right after it: the peer
// receives what it can, at any stage of the handshake.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

constexpr int kRounds = 25;
constexpr uint32_t kInTheRing = 25;
constexpr uint32_t kMaybeMapped = 600;
constexpr uint32_t kByReference = 3000;
constexpr uint64_t kFirst = 7;

enum class End { kError, kReset, kUnbind, kDelete, kContext, kLibrary };

struct Case {
  const char* name;
  End end;
  bool jetty;
  urma_transport_mode_t mode;
  uint32_t bytes = kInTheRing;
};

class LastMessageTest : public ProcessTest, public ::testing::WithParamInterface<Case> {
 protected:
  static Config config() {
    Config config;
    config.jetty = GetParam().jetty;
    config.mode = GetParam().mode;
    return config;
  }
};

using StoppedPeerTest = ProcessTest;
using LastCopiesTest = ProcessTest;

// An endpoint whose queues are recreated each round while its memory stays.
struct Side {
  explicit Side(const Config& config) : endpoint(config) {}

  void introduce(Channel& channel) {
    segment = endpoint.add(memory, sizeof(memory));
    peer = endpoint.import(channel.swap(endpoint.queue_id()));
    if (endpoint.config.mode == URMA_TM_RC) endpoint.bind(peer);
  }
  void send(uint32_t bytes = kInTheRing) {
    urma_sge_t here = piece(segment, memory, bytes);
    endpoint.post(send_request(peer, &here, kFirst));
  }
  urma_status_t enter(urma_jetty_state_t state) {
    if (endpoint.jetty != nullptr) {
      urma_jetty_attr_t attr = {};
      attr.mask = JETTY_STATE;
      attr.state = state;
      return urma_modify_jetty(endpoint.jetty, &attr);
    }
    urma_jfs_attr_t attr = {};
    attr.mask = JFS_STATE;
    attr.state = state;
    return urma_modify_jfs(endpoint.jfs, &attr);
  }

  Endpoint endpoint;
  char memory[4096] = {};
  urma_target_seg_t* segment = nullptr;
  urma_target_jetty_t* peer = nullptr;
};

// Returns the status of the message, if reported.
urma_cr_status_t end(Side* side, End how) {
  urma_cr_status_t status = URMA_CR_SUCCESS;
  switch (how) {
    case End::kError:
      EXPECT_EQ(side->enter(URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
      status = wait_for(side->endpoint.send_jfc).status;
      wait_for_status(side->endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR_DONE);
      break;
    case End::kReset:
      EXPECT_EQ(side->enter(URMA_JETTY_STATE_RESET), URMA_SUCCESS);
      break;
    case End::kUnbind:
      EXPECT_EQ(urma_unbind_jetty(side->endpoint.jetty), URMA_SUCCESS);
      status = wait_for(side->endpoint.send_jfc).status;
      break;
    case End::kDelete:
      break;
    case End::kContext:
      side->endpoint.close_queues();
      break;
    case End::kLibrary:
      side->endpoint.close();
      break;
  }
  return status;
}

void close_rest(Side* side, End how) {
  if (how == End::kLibrary) return;
  if (how != End::kContext) side->endpoint.close_queues();
}

// All messages, each over a connection that no message has used before.
TEST_P(LastMessageTest, Arrives) {
  const End how = GetParam().end;
  SKIP_WITHOUT(device_traits().has_mode(GetParam().mode), "this transport mode");
  run_two(
      "sender",
      [=](Channel& channel) {
        Side side(config());
        for (int round = 0; round < kRounds; ++round) {
          if (round != 0 && how == End::kLibrary) {
            EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
          }
          if (round != 0) side.endpoint.open_queues();
          side.introduce(channel);
          channel.sync();
          side.send(GetParam().bytes);
          EXPECT_EQ(end(&side, how), URMA_CR_SUCCESS) << "round " << round;
          close_rest(&side, how);
          channel.sync();
        }
        if (how == End::kLibrary) return;
        EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
      },
      "receiver",
      [=](Channel& channel) {
        Side side(config());
        for (int round = 0; round < kRounds; ++round) {
          if (round != 0) side.endpoint.open_queues();
          side.introduce(channel);
          side.endpoint.post_receive(side.segment, side.memory, sizeof(side.memory), kFirst);
          channel.sync();
          const urma_cr_t received = wait_for_success(side.endpoint.receive_jfc, kFirst);
          EXPECT_EQ(received.completion_len, GetParam().bytes) << "round " << round;
          channel.sync();
          side.endpoint.close_queues();
        }
        EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
      });
}

// Also when they are copied out of memory that the receiver has mapped and that might be withdrawn.
TEST_F(LastCopiesTest, ThatFitIntoTheRingArrive) {
  SKIP_UNLESS_IN_PLACE();
  constexpr uint64_t kLarge = 16;
  run_two(
      "sender",
      [](Channel& channel) {
        for (int round = 0; round < kRounds; ++round) {
          Pages memory(4096);
          OwnedEndpoint endpoint;
          urma_target_seg_t* segment = endpoint.add(memory.get(), memory.bytes());
          urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
          const auto send = [&](uint32_t bytes, uint64_t number) {
            urma_sge_t here = piece(segment, memory.get(), bytes);
            endpoint.post(send_request(peer, &here, number));
          };
          channel.sync();
          for (uint64_t i = 0; i < kLarge; ++i) {
            send(kByReference, i);
            wait_for_success(endpoint.send_jfc, i);
          }
          send(kMaybeMapped, kLarge);
          send(kInTheRing, kLarge + 1);
          endpoint.close_queues();
          channel.sync();
          endpoint.open_queues();
        }
      },
      "receiver",
      [](Channel& channel) {
        Endpoint endpoint;
        char memory[4096];
        urma_target_seg_t* segment = endpoint.add(memory, sizeof(memory));
        for (int round = 0; round < kRounds; ++round) {
          channel.swap(endpoint.queue_id());
          for (uint64_t i = 0; i < kLarge + 2; ++i) {
            endpoint.post_receive(segment, memory, sizeof(memory), i);
          }
          channel.sync();
          for (uint64_t i = 0; i < kLarge + 2; ++i) wait_for_success(endpoint.receive_jfc, i);
          channel.sync();
        }
        endpoint.close();
      });
}

// A peer that is dead or stopped before the first contact: everything still ends, the message with
// an error.
TEST_P(LastMessageTest, DoesNotWaitForASilentPeer) {
  const End how = GetParam().end;
  SKIP_UNLESS_SHARED_MEMORY("a peer is known by its process");
  for (const int signal : {SIGKILL, SIGSTOP}) {
    Child receiver("receiver", [](Channel& channel) {
      Endpoint endpoint(config());
      channel.send(endpoint.queue_id());
      channel.sync();
    });
    const auto id = receiver.channel().receive<QueueId>();
    signal == SIGSTOP ? receiver.stop() : receiver.kill();
    Child sender("sender", [=](Channel&) {
      ::setenv("URMA_SHM_TIMEOUT_MS", "100", 1);
      Side side(config());
      side.segment = side.endpoint.add(side.memory, sizeof(side.memory));
      side.peer = side.endpoint.import(id);
      if (side.endpoint.config.mode == URMA_TM_RC) side.endpoint.bind(side.peer);
      side.send(GetParam().bytes);
      const urma_cr_status_t status = end(&side, how);
      if (how == End::kError || how == End::kUnbind) {
        EXPECT_TRUE(status == URMA_CR_WR_FLUSH_ERR || status == URMA_CR_ACK_TIMEOUT_ERR) << status;
      }
      close_rest(&side, how);
    });
    sender.expect_success();
  }
}

// The same of a peer that is stopped after the first message, when the way to it is open.
TEST_P(LastMessageTest, DoesNotWaitForAPeerThatIsStoppedLater) {
  const End how = GetParam().end;
  SKIP_UNLESS_SHARED_MEMORY("a peer is known by its process");
  Child receiver("receiver", [](Channel& channel) {
    Side side(config());
    side.introduce(channel);
    side.endpoint.post_receive(side.segment, side.memory, sizeof(side.memory), kFirst);
    channel.sync();
    wait_for_success(side.endpoint.receive_jfc, kFirst);
    channel.sync();
    channel.sync();
  });
  Child sender("sender", [=](Channel& channel) {
    ::setenv("URMA_SHM_TIMEOUT_MS", "1000", 1);
    Side side(config());
    side.introduce(channel);
    channel.sync();
    side.send(GetParam().bytes);
    wait_for_success(side.endpoint.send_jfc, kFirst);
    channel.sync();
    channel.sync();  // the peer is stopped
    side.send(GetParam().bytes);
    const urma_cr_status_t status = end(&side, how);
    if (how == End::kError || how == End::kUnbind) {
      EXPECT_TRUE(status == URMA_CR_WR_FLUSH_ERR || status == URMA_CR_ACK_TIMEOUT_ERR) << status;
    }
    close_rest(&side, how);
  });
  const auto id = receiver.channel().receive<QueueId>();
  receiver.channel().send(sender.channel().receive<QueueId>());
  sender.channel().send(id);
  for (int step = 0; step < 2; ++step) {
    receiver.channel().sync();
    sender.channel().sync();
  }
  receiver.stop();
  sender.channel().sync();
  sender.expect_success();
}

// A peer that is stopped at first contact is waited for as long as the setting says.
TEST_F(StoppedPeerTest, IsWaitedForUntilTheTimeout) {
  SKIP_UNLESS_SHARED_MEMORY("a peer is known by its process");
  for (const bool goes_on : {false, true}) {
    Child receiver("receiver", [](Channel& channel) {
      Side side({});
      side.segment = side.endpoint.add(side.memory, sizeof(side.memory));
      side.endpoint.post_receive(side.segment, side.memory, sizeof(side.memory), kFirst);
      channel.send(side.endpoint.queue_id());
      channel.sync();
    });
    const auto id = receiver.channel().receive<QueueId>();
    receiver.stop();
    Child sender("sender", [=](Channel& channel) {
      ::setenv("URMA_SHM_TIMEOUT_MS", goes_on ? "600000" : "100", 1);
      Side side({});
      side.segment = side.endpoint.add(side.memory, sizeof(side.memory));
      side.peer = side.endpoint.import(id);
      side.send();
      channel.sync();
      wait_for_status(side.endpoint.send_jfc, goes_on ? URMA_CR_SUCCESS : URMA_CR_ACK_TIMEOUT_ERR);
      side.endpoint.close();
    });
    sender.channel().sync();
    EXPECT_TRUE(!goes_on || ::kill(receiver.pid(), SIGCONT) == 0);
    sender.expect_success();
  }
}

constexpr Case kCases[] = {
    {"ErrorJetty", End::kError, true, URMA_TM_RM},
    {"ErrorJfs", End::kError, false, URMA_TM_RM},
    {"ErrorBound", End::kError, true, URMA_TM_RC},
    {"ErrorByReference", End::kError, true, URMA_TM_RM, kByReference},
    {"Reset", End::kReset, true, URMA_TM_RM},
    {"Unbind", End::kUnbind, true, URMA_TM_RC},
    {"UnbindByReference", End::kUnbind, true, URMA_TM_RC, kByReference},
    {"DeleteJetty", End::kDelete, true, URMA_TM_RM},
    {"DeleteJfs", End::kDelete, false, URMA_TM_RM},
    {"DeleteContext", End::kContext, true, URMA_TM_RC},
    {"Uninit", End::kLibrary, true, URMA_TM_RM},
};

INSTANTIATE_TEST_SUITE_P(Ends, LastMessageTest, ::testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace urma_test
