// SPDX-License-Identifier: MIT
//
// A process with many jetties, each connected to one of another process.
#ifndef TEST_PROCESS_CROWD_H_
#define TEST_PROCESS_CROWD_H_

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {

inline constexpr uint32_t kCrowd = 1000;

// Waits for a record of `jfc`, asleep: hundreds of spinning processes would starve each other. The
// endpoint has events.
inline urma_cr_t sleep_until_record(const Endpoint& endpoint, urma_jfc_t* jfc) {
  constexpr int kNapMs = 1000;
  const auto deadline = Clock::now() + patience(seconds(20));
  urma_cr_t record = {};
  while (urma_poll_jfc(jfc, 1, &record) != 1) {
    EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
    if (urma_poll_jfc(jfc, 1, &record) == 1) break;
    urma_jfc_t* rung = nullptr;
    uint32_t one = 1;
    if (urma_wait_jfc(endpoint.jfce, 1, kNapMs, &rung) == 1) urma_ack_jfc(&rung, &one, 1);
    if (Clock::now() > deadline) throw std::runtime_error("no completion in time");
  }
  return record;
}

inline Config crowd_config() {
  Config config;
  config.mode = URMA_TM_RC;
  return config;
}

// RC jetties with a JFR each; they use the JFCs of the endpoint.
class Crowd {
 public:
  Crowd() : endpoint(crowd_config()) { segment_ = endpoint.add(memory_.data(), memory_.size()); }

  // Called by both sides: creates `count` more jetties, binds each to one of the peer, and has each
  // send and receive one message.
  void meet(Channel& channel, uint32_t count) {
    const size_t first = jetties_.size();
    for (uint32_t i = 0; i < count; ++i) add_jetty();
    for (size_t i = first; i < jetties_.size(); ++i) connect(i, channel.swap(id_of(i)));
    channel.sync();
    for (size_t i = first; i < jetties_.size(); ++i) talk(i);
    channel.sync();
  }
  void close() {
    for (size_t i = 0; i < jetties_.size(); ++i) {
      EXPECT_EQ(urma_unbind_jetty(jetties_[i]), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jetty(jetties_[i]), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jfr(jfrs_[i]), URMA_SUCCESS);
    }
    endpoint.close();
  }

  Endpoint endpoint;

 private:
  static constexpr size_t kBytes = 8;

  void add_jetty() {
    urma_jfr_cfg_t jfr_cfg = endpoint.jfr->jfr_cfg;
    jfr_cfg.id = 0;
    jfrs_.push_back(urma_create_jfr(endpoint.ctx, &jfr_cfg));
    ASSERT_NE(jfrs_.back(), nullptr);
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    cfg.id = 0;
    cfg.shared.jfr = jfrs_.back();
    jetties_.push_back(urma_create_jetty(endpoint.ctx, &cfg));
    ASSERT_NE(jetties_.back(), nullptr);
  }
  QueueId id_of(size_t i) const {
    return {endpoint.ctx->eid, jetties_[i]->jetty_id.id, kNoToken, true};
  }
  void connect(size_t i, const QueueId& peer) {
    EXPECT_EQ(urma_bind_jetty(jetties_[i], endpoint.import(peer)), URMA_SUCCESS);
    urma_sge_t room = piece(segment_, memory_.data(), kBytes);
    urma_jfr_wr_t wr = {{&room, 1}, i, nullptr};
    urma_jfr_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_recv_wr(jetties_[i], &wr, &bad), URMA_SUCCESS);
  }
  void talk(size_t i) {
    urma_sge_t from = piece(segment_, memory_.data() + kBytes, kBytes);
    urma_jfs_wr_t wr = send_request(nullptr, &from, i);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_send_wr(jetties_[i], &wr, &bad), URMA_SUCCESS);
    wait_for_success(endpoint.receive_jfc, i);
    wait_for_success(endpoint.send_jfc, i);
  }

  std::array<char, 2 * kBytes> memory_ = {};
  urma_target_seg_t* segment_;
  std::vector<urma_jfr_t*> jfrs_;
  std::vector<urma_jetty_t*> jetties_;
};

// Called by the test process while both are in meet().
inline void introduce_crowds(Child& a, Child& b, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) introduce<QueueId>(a, b);
  introduce<char>(a, b);
  introduce<char>(a, b);
}

}  // namespace urma_test

#endif  // TEST_PROCESS_CROWD_H_
