// SPDX-License-Identifier: MIT
//
// Tests of the suite for two processes, within one: a sleeper is woken, a receiver without receives
// holds up its sender, and the end of an object ends what it should, and nothing else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

using LoopbackTest = ProcessTest;

constexpr uint32_t kMany = 3000;  // more than a path holds

void arm(urma_jfc_t* jfc) { ASSERT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS); }

urma_jfc_t* sleep_at(const Endpoint& endpoint) {
  urma_jfc_t* jfc = nullptr;
  EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 1, 10'000, &jfc), 1);
  if (jfc != nullptr) {
    uint32_t events = 1;
    urma_ack_jfc(&jfc, &events, 1);
  }
  return jfc;
}

void send(Self& self, size_t size, uint64_t user_ctx = 0) {
  urma_sge_t local = piece(self.segment, self.out(), size);
  self.endpoint.post(send_request(self.queue, &local, user_ctx));
}

Config with_events() {
  Config config;
  config.events = true;
  return config;
}

TEST_F(LoopbackTest, AMessageWakesASleepingReceiver) {
  run_one([](Channel&) {
    Self self(with_events());
    self.endpoint.post_receive(self.segment, self.in(), 64, 7);
    arm(self.endpoint.receive_jfc);
    std::thread sender([&self] { send(self, 8); });
    EXPECT_EQ(sleep_at(self.endpoint), self.endpoint.receive_jfc);
    sender.join();
    EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, 7).completion_len, 8u);
    EXPECT_TRUE(self.arrived(8));
    wait_for_success(self.endpoint.send_jfc, 0);
    self.endpoint.close();
  });
}

TEST_F(LoopbackTest, ACompletionWakesASleepingSender) {
  run_one([](Channel&) {
    Self self(with_events());
    arm(self.endpoint.send_jfc);
    send(self, 8, 5);
    std::thread receiver([&self] { self.endpoint.post_receive(self.segment, self.in(), 64); });
    receiver.join();
    wait_for_success(self.endpoint.receive_jfc, 0);
    EXPECT_EQ(sleep_at(self.endpoint), self.endpoint.send_jfc);
    wait_for_success(self.endpoint.send_jfc, 5);
    self.endpoint.close();
  });
}

// The marker lies where an earlier one lay when the JFC was armed.
TEST_F(LoopbackTest, TheMarkerOfAStopWakesASleepingProgram) {
  run_one([](Channel&) {
    Self self(with_events());
    const auto enter = [&self](urma_jetty_state_t state) {
      urma_jetty_attr_t attr = {JETTY_STATE, 0, state};
      EXPECT_EQ(urma_modify_jetty(self.endpoint.jetty, &attr), URMA_SUCCESS);
    };
    enter(URMA_JETTY_STATE_SUSPENDED);
    enter(URMA_JETTY_STATE_READY);
    arm(self.endpoint.send_jfc);
    enter(URMA_JETTY_STATE_ERROR);
    EXPECT_EQ(sleep_at(self.endpoint), self.endpoint.send_jfc);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR_DONE);
    self.endpoint.close();
  });
}

TEST_F(LoopbackTest, AReceiverThatDoesNotReceiveHoldsUpItsSender) {
  run_one([](Channel&) {
    Config config;
    config.send_depth = config.receive_depth = kMany;
    config.rnr_retry = 7;
    Self self(config);
    for (uint32_t i = 0; i < kMany; ++i) {
      std::memcpy(self.out(), &i, sizeof(i));
      send(self, sizeof(i), i);
      EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    }
    for (uint32_t i = 0; i < kMany; ++i) {
      self.endpoint.post_receive(self.segment, self.in(), sizeof(i), i);
      wait_for_success(self.endpoint.receive_jfc, i);
      wait_for_success(self.endpoint.send_jfc, i);
    }
    self.endpoint.close();
  });
}

TEST_F(LoopbackTest, WithoutAReceiveAMessageIsRefused) {
  run_one([](Channel&) {
    Config config;
    config.rnr_retry = 0;
    Self self(config);
    send(self, 8);
    // Its receiver learns of it when it polls.
    urma_cr_t cr;
    while (urma_poll_jfc(self.endpoint.send_jfc, 1, &cr) == 0) {
      EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
    }
    EXPECT_EQ(cr.status, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
    self.endpoint.close();
  });
}

TEST_F(LoopbackTest, AnErrorStateFlushesPendingMessages) {
  run_one([](Channel&) {
    Self self;
    send(self, 8, 1);
    send(self, 8, 2);
    self.endpoint.post_receive(self.segment, self.in(), 64);
    wait_for_success(self.endpoint.receive_jfc, 0);
    urma_jetty_attr_t attr = {JETTY_STATE, 0, URMA_JETTY_STATE_ERROR};
    ASSERT_EQ(urma_modify_jetty(self.endpoint.jetty, &attr), URMA_SUCCESS);
    wait_for_success(self.endpoint.send_jfc, 1);
    const urma_cr_t flushed = wait_for(self.endpoint.send_jfc);
    EXPECT_EQ(flushed.user_ctx, 2u);
    EXPECT_EQ(flushed.status, URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(wait_for(self.endpoint.send_jfc).status, URMA_CR_WR_FLUSH_ERR_DONE);
    self.endpoint.close();
  });
}

// A private memory, and the status of a WRITE to it.
struct Written {
  explicit Written(Self* self_process) : self(*self_process) {}

  void expect(urma_cr_status_t status) {
    urma_sge_t local = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(remote, memory.data(), 8);
    self.endpoint.post(write_request(self.queue, &local, &there));
    wait_for_status(self.endpoint.send_jfc, status);
  }

  Self& self;
  std::vector<char> memory = std::vector<char>(64);
  urma_target_seg_t* remote = nullptr;  // its import
};

TEST_F(LoopbackTest, AnUnregisteredSegmentCannotBeAccessed) {
  run_one([](Channel&) {
    Self self;
    Written written(&self);
    urma_target_seg_t* segment = self.endpoint.add(written.memory.data(), written.memory.size());
    written.remote = self.endpoint.import(self.endpoint.segment_id(segment));
    written.expect(URMA_CR_SUCCESS);
    self.endpoint.remove(segment);
    written.expect(URMA_CR_REM_ACCESS_ABORT_ERR);
    self.endpoint.close();
  });
}

TEST_F(LoopbackTest, ALargeReadArrivesInParts) {
  run_one([](Channel&) {
    Self self;
    std::vector<char> from(5 << 20), into(5 << 20);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 >> 3);
    urma_target_seg_t* segment = self.endpoint.add(from.data(), from.size());
    urma_target_seg_t* target = self.endpoint.add(into.data(), into.size());
    urma_target_seg_t* remote = self.endpoint.import(self.endpoint.segment_id(segment));
    urma_sge_t local = piece(target, into.data(), into.size());
    urma_sge_t there = piece(remote, from.data(), from.size());
    self.endpoint.post(read_request(self.queue, &local, &there));
    wait_for_success(self.endpoint.send_jfc, 0);
    EXPECT_EQ(from, into);
    self.endpoint.close();
  });
}

// Data being written: its first byte is there. The thread sanitizer sees no order here.
__attribute__((no_sanitize("thread"))) bool has_begun(const char* into, char value) {
  return *static_cast<const volatile char*>(into) == value;
}

// The path to a receiver that rejects its peers ends while data is in flight.
TEST_F(LoopbackTest, AReceiverMayEndAfterTheDataOfAWriteImm) {
  run_one([](Channel&) {
    constexpr size_t kSize = 1 << 20;  // in one turn
    constexpr int kRounds = kSanitized ? 20 : 200;
    Config config;
    config.jetty = false;
    config.rnr_retry = 0;
    Self self(config);
    std::vector<char> from(kSize), into(kSize);
    urma_sge_t local = piece(self.endpoint.add(from.data(), kSize), from.data(), kSize);
    urma_target_seg_t* segment = self.endpoint.add(into.data(), kSize);
    urma_sge_t there =
        piece(self.endpoint.import(self.endpoint.segment_id(segment)), into.data(), kSize);
    for (int round = 1; round <= kRounds; ++round) {
      const char value = static_cast<char>(round % 100 + 1);
      std::memset(from.data(), value, kSize);
      self.endpoint.post_receive(self.segment, self.in(), 8);
      std::thread toggler([&] {
        while (!has_begun(into.data(), value)) {
        }
        for (const urma_jfr_state_t state : {URMA_JFR_STATE_RESET, URMA_JFR_STATE_READY}) {
          urma_jfr_attr_t attr = {JFR_STATE, 0, state};
          EXPECT_EQ(urma_modify_jfr(self.endpoint.jfr, &attr), URMA_SUCCESS);
        }
      });
      self.endpoint.post(write_imm_request(self.queue, &local, &there, 7));
      urma_cr_t sent, received;
      while (urma_poll_jfc(self.endpoint.send_jfc, 1, &sent) == 0) {
        urma_poll_jfc(self.endpoint.receive_jfc, 1, &received);
      }
      toggler.join();
      // Its receive was there, or dropped; the data was written before.
      EXPECT_TRUE(sent.status == URMA_CR_SUCCESS || sent.status == URMA_CR_REM_ACCESS_ABORT_ERR ||
                  sent.status == URMA_CR_RNR_RETRY_CNT_EXC_ERR)
          << sent.status;
      EXPECT_EQ(into, from);
      while (urma_poll_jfc(self.endpoint.receive_jfc, 1, &received) > 0) {
      }
    }
    self.endpoint.close();
  });
}

// The paths to the members of a group are cleaned up from time to time, including the one that a
// post used last. The queue holds one request, so that each has left its path when the next one is
// posted.
TEST_F(LoopbackTest, APathMayEndWhileAChainIsPosted) {
  run_one([](Channel&) {
    constexpr size_t kChain = 300;  // turns of the group
    Self self;
    urma_jetty_grp_cfg_t group_cfg = {};
    std::strcpy(group_cfg.name, "one");
    group_cfg.policy = URMA_JETTY_GRP_POLICY_RR;
    urma_jetty_grp_t* group = urma_create_jetty_grp(self.endpoint.ctx, &group_cfg);
    ASSERT_NE(group, nullptr);
    urma_jetty_cfg_t member_cfg = self.endpoint.jetty->jetty_cfg;
    member_cfg.id = 0;
    member_cfg.jetty_grp = group;
    urma_jetty_t* member = urma_create_jetty(self.endpoint.ctx, &member_cfg);
    ASSERT_NE(member, nullptr);
    urma_rjetty_t described = remote_jetty(group->jetty_grp_id, URMA_TM_RM, URMA_JETTY_GROUP);
    described.policy = URMA_JETTY_GRP_POLICY_RR;
    urma_token_t token = {};
    urma_target_jetty_t* target = urma_import_jetty(self.endpoint.ctx, &described, &token);
    ASSERT_NE(target, nullptr);
    urma_jfs_cfg_t jfs_cfg = jfs_config(self.endpoint.send_jfc, 1);
    urma_jfs_t* jfs = urma_create_jfs(self.endpoint.ctx, &jfs_cfg);
    ASSERT_NE(jfs, nullptr);
    urma_sge_t local = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in() + 64, 8);
    // Its answer has the number of members.
    self.endpoint.post_receive(self.segment, self.in(), 8);
    urma_jfs_wr_t first = send_request(target, &local), *bad = nullptr;
    ASSERT_EQ(urma_post_jfs_wr(jfs, &first, &bad), URMA_SUCCESS);
    wait_for_success(self.endpoint.receive_jfc, 0);
    wait_for_success(self.endpoint.send_jfc, 0);
    std::vector<urma_jfs_wr_t> chain(kChain, write_request(target, &local, &there));
    for (size_t i = 0; i < kChain; ++i) {
      chain[i].flag.bs.complete_enable = i + 1 == kChain;
      chain[i].next = i + 1 < kChain ? &chain[i + 1] : nullptr;
    }
    EXPECT_EQ(urma_post_jfs_wr(jfs, chain.data(), &bad), URMA_SUCCESS);
    wait_for_success(self.endpoint.send_jfc, 0);
    EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_jetty(target), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jetty(member), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jetty_grp(group), URMA_SUCCESS);
    self.endpoint.close();
  });
}

// An import continues with what is registered anew under its token id.
TEST_F(LoopbackTest, AnImportFindsTheSegmentRegisteredAgain) {
  run_one([](Channel&) {
    Self self;
    Written written(&self);
    urma_token_id_t* token_id = urma_alloc_token_id(self.endpoint.ctx);
    ASSERT_NE(token_id, nullptr);
    urma_seg_cfg_t cfg = seg_config(written.memory.data(), written.memory.size(), kAllAccess);
    cfg.token_id = token_id;
    cfg.flag.bs.token_id_valid = 1;
    urma_target_seg_t* first = urma_register_seg(self.endpoint.ctx, &cfg);
    ASSERT_NE(first, nullptr);
    written.remote = self.endpoint.import(self.endpoint.segment_id(first));
    written.expect(URMA_CR_SUCCESS);
    self.endpoint.post_receive(self.segment, self.in(), 8);
    urma_sge_t local = piece(self.segment, self.out(), 8);
    self.endpoint.post(send_invalidate_request(self.queue, &local, written.remote));
    wait_for_success(self.endpoint.receive_jfc, 0);
    wait_for_success(self.endpoint.send_jfc, 0);
    written.expect(URMA_CR_REM_ACCESS_ABORT_ERR);
    urma_target_seg_t* second = urma_register_seg(self.endpoint.ctx, &cfg);
    ASSERT_NE(second, nullptr);
    written.expect(URMA_CR_SUCCESS);
    EXPECT_EQ(urma_unregister_seg(second), URMA_SUCCESS);
    EXPECT_EQ(urma_unregister_seg(first), URMA_SUCCESS);
    EXPECT_EQ(urma_free_token_id(token_id), URMA_SUCCESS);
    self.endpoint.close();
  });
}

// The rules of docs/reference/faults.md, over any wire.
TEST_F(LoopbackTest, FaultsHappenWhereThePlanSays) {
  run_one([](Channel&) {
    ASSERT_EQ(::setenv("URMA_FAULT", "token:op=write,after=1,count=1;queue:op=read", 1), 0);
    Self self;
    urma_sge_t local = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    for (const urma_cr_status_t status :
         {URMA_CR_SUCCESS, URMA_CR_REM_ACCESS_ABORT_ERR, URMA_CR_SUCCESS}) {
      self.endpoint.post(write_request(self.queue, &local, &there));
      wait_for_status(self.endpoint.send_jfc, status);
    }
    self.endpoint.post(read_request(self.queue, &local, &there));
    wait_for_success(self.endpoint.send_jfc, 0);
    urma_jetty_attr_t attr = {};
    urma_jetty_cfg_t cfg;
    ASSERT_EQ(urma_query_jetty(self.endpoint.jetty, &cfg, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.state, URMA_JETTY_STATE_ERROR);
    urma_async_event_t event;
    ASSERT_EQ(urma_get_async_event(self.endpoint.ctx, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_JETTY_ERR);
    urma_ack_async_event(&event);
    self.endpoint.close();
  });
}

}  // namespace
}  // namespace urma_test
