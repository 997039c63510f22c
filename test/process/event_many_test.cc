// SPDX-License-Identifier: MIT
//
// Events of a JFC with many sources. A poll need not look at all of them, but the next poll after
// an event finds its record.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/process/event_party.h"

namespace urma_test {
namespace {

constexpr size_t kJetties = 100;
constexpr size_t kRounds = 200;

// Many jetties that complete into one JFC and send to one JFR of the same process.
struct Crowd {
  Crowd() : endpoint(with_events()), memory(2 * 4096) {
    segment = endpoint.add(memory.data(), memory.size());
    remote = endpoint.import(endpoint.segment_id(segment));
    self = endpoint.import(endpoint.queue_id());
    for (size_t i = 0; i < kJetties; ++i) {
      urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
      cfg.id = 0;
      jetties.push_back(urma_create_jetty(endpoint.ctx, &cfg));
      EXPECT_NE(jetties.back(), nullptr);
    }
  }
  void post(size_t jetty, urma_jfs_wr_t wr) {
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_send_wr(jetties[jetty], &wr, &bad), URMA_SUCCESS);
  }
  void arm(urma_jfc_t* jfc) { EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS); }
  // Polls without result until each jetty counts as silent.
  void be_bored(urma_jfc_t* jfc) {
    urma_cr_t cr;
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(urma_poll_jfc(jfc, 1, &cr), 0);
  }
  // Sleeps until a completion, and takes it with one poll.
  void take_one(urma_jfc_t* jfc, uint64_t user_ctx) {
    urma_jfc_t* fired = nullptr;
    ASSERT_EQ(urma_wait_jfc(endpoint.jfce, 1, kForEver, &fired), 1);
    EXPECT_EQ(fired, jfc);
    uint32_t events = 1;
    urma_ack_jfc(&fired, &events, 1);
    urma_cr_t cr = {};
    ASSERT_EQ(urma_poll_jfc(jfc, 1, &cr), 1) << "the event announced a record";
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.user_ctx, user_ctx);
  }
  void close() {
    for (urma_jetty_t* jetty : jetties) EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    endpoint.close();
  }

  Endpoint endpoint;
  std::vector<char> memory;
  urma_target_seg_t* segment;
  urma_target_seg_t* remote;
  urma_target_jetty_t* self;
  std::vector<urma_jetty_t*> jetties;
};

using EventManyTest = ProcessTest;

TEST_F(EventManyTest, OnePollFindsTheRequestOfAnEvent) {
  run_one([](Channel&) {
    Crowd crowd;
    urma_sge_t from = piece(crowd.segment, crowd.memory.data(), 8);
    urma_sge_t to = piece(crowd.remote, crowd.memory.data() + 4096, 8);
    for (size_t round = 0; round < kRounds && !testing::Test::HasFatalFailure(); ++round) {
      crowd.be_bored(crowd.endpoint.send_jfc);
      crowd.arm(crowd.endpoint.send_jfc);
      crowd.post(round * 37 % kJetties, write_request(crowd.self, &from, &to, round));
      crowd.take_one(crowd.endpoint.send_jfc, round);
    }
    crowd.close();
  });
}

TEST_F(EventManyTest, OnePollFindsTheMessageOfAnEvent) {
  run_one([](Channel&) {
    Crowd crowd;
    urma_sge_t from = piece(crowd.segment, crowd.memory.data(), 8);
    for (size_t round = 0; round < kRounds && !testing::Test::HasFatalFailure(); ++round) {
      crowd.endpoint.post_receive(crowd.segment, crowd.memory.data() + 4096, 64, round);
      crowd.be_bored(crowd.endpoint.receive_jfc);
      crowd.arm(crowd.endpoint.receive_jfc);
      crowd.post(round * 37 % kJetties, send_request(crowd.self, &from, round));
      crowd.take_one(crowd.endpoint.receive_jfc, round);
      wait_for_success(crowd.endpoint.send_jfc, round);
    }
    crowd.close();
  });
}

// Arm first, then poll. If the poll finds nothing, an event follows; a record that was already
// there must be found by the poll, or the program would loop until it is.
TEST_F(EventManyTest, APollAfterArmingFindsAllRecords) {
  run_one([](Channel&) {
    Crowd crowd;
    urma_sge_t from = piece(crowd.segment, crowd.memory.data(), 8);
    urma_sge_t to = piece(crowd.remote, crowd.memory.data() + 4096, 8);
    for (size_t round = 0; round < kRounds && !testing::Test::HasFatalFailure(); ++round) {
      crowd.be_bored(crowd.endpoint.send_jfc);
      crowd.post(round * 61 % kJetties, write_request(crowd.self, &from, &to, round));
      crowd.arm(crowd.endpoint.send_jfc);
      crowd.take_one(crowd.endpoint.send_jfc, round);
    }
    crowd.close();
  });
}

}  // namespace
}  // namespace urma_test
