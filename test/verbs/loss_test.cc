// SPDX-License-Identifier: MIT
//
// Queues that connect over a network that loses, repeats and reorders their control messages: every
// request is executed once, in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "test/process/configs.h"
#include "test/verbs/module_fixture.h"

namespace urma::verbs {
namespace {

constexpr FakeChances kBadNetwork = {.lost = 0.15, .repeated = 0.2, .late = 0.2};
constexpr uint32_t kToken = 0x1234;
constexpr size_t kCells = 32;

// A jetty, and memory for what it sends and receives.
class End {
 public:
  End(urma_context_t* ctx, urma_transport_mode_t mode, uint32_t id = 0) : ctx_(ctx), mode_(mode) {
    urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(64);
    sent_ = urma_create_jfc(ctx, &jfc_cfg);
    received_ = urma_create_jfc(ctx, &jfc_cfg);
    urma_jfr_cfg_t jfr_cfg = urma_test::jfr_config(received_, kCells, mode);
    jfr_cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    jfr_cfg.token_value.token = kToken;
    jfr_ = urma_create_jfr(ctx, &jfr_cfg);
    urma_jetty_cfg_t cfg =
        urma_test::jetty_config(jfr_, urma_test::jfs_config(sent_, kCells, mode));
    cfg.id = id;
    cfg.jfs_cfg.rnr_retry = 7;
    cfg.jfs_cfg.err_timeout = 14;
    jetty = urma_create_jetty(ctx, &cfg);
    urma_seg_cfg_t seg_cfg = urma_test::seg_config(cells_.data(), sizeof(cells_), kAll);
    seg_cfg.flag.bs.token_policy = URMA_TOKEN_NONE;
    segment_ = urma_register_seg(ctx, &seg_cfg);
    if (jetty == nullptr || segment_ == nullptr) throw std::runtime_error("no queues");
  }
  ~End() {
    if (jetty->remote_jetty != nullptr) unbind();
    while (!imported_.empty()) unimport();
    EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfr(jfr_), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(sent_), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(received_), URMA_SUCCESS);
    EXPECT_EQ(urma_unregister_seg(segment_), URMA_SUCCESS);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  urma_target_jetty_t* import(const End& other) {
    urma_rjetty_t remote = {};
    remote.jetty_id.eid = other.jetty->jetty_id.eid;
    remote.jetty_id.id = other.jetty->jetty_id.id;
    remote.trans_mode = mode_;
    remote.type = URMA_JETTY;
    remote.tp_type = URMA_RTP;
    remote.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    urma_token_t token = {kToken};
    imported_.push_back(urma_import_jetty(ctx_, &remote, &token));
    return imported_.back();
  }
  void bind(const End& other) { EXPECT_EQ(urma_bind_jetty(jetty, import(other)), URMA_SUCCESS); }
  void unbind() {
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
    unimport();
  }

  void post_receives(int count) {
    for (; count != 0; --count) {
      urma_sge_t into = cell();
      urma_jfr_wr_t wr = {};
      wr.src = {&into, 1};
      wr.user_ctx = into.addr;
      urma_jfr_wr_t* bad = nullptr;
      EXPECT_EQ(urma_post_jetty_recv_wr(jetty, &wr, &bad), URMA_SUCCESS);
    }
  }
  void send(urma_target_jetty_t* to, uint64_t value) {
    urma_sge_t from = cell();
    *reinterpret_cast<uint64_t*>(from.addr) = value;
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_SEND;
    wr.flag.bs.complete_enable = 1;
    wr.tjetty = to;
    wr.user_ctx = value;
    wr.send.src = {&from, 1};
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_send_wr(jetty, &wr, &bad), URMA_SUCCESS);
  }
  urma_cr_t next_record() { return next(sent_); }
  urma_cr_status_t next_sent(uint64_t value) {
    const urma_cr_t record = next_record();
    EXPECT_EQ(record.user_ctx, value);
    return record.status;
  }
  uint64_t next_received() {
    const urma_cr_t record = next(received_);
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    return record.user_ctx == 0 ? 0 : *reinterpret_cast<const uint64_t*>(record.user_ctx);
  }
  bool nothing_more() const {
    urma_cr_t record;
    return urma_poll_jfc(sent_, 1, &record) == 0 && urma_poll_jfc(received_, 1, &record) == 0;
  }

  urma_jetty_t* jetty = nullptr;

 private:
  // The next one: fewer are in flight.
  urma_sge_t cell() {
    return piece(segment_, reinterpret_cast<uint64_t>(&cells_[next_cell_++ % kCells]),
                 sizeof(uint64_t));
  }
  void unimport() {
    EXPECT_EQ(urma_unimport_jetty(imported_.back()), URMA_SUCCESS);
    imported_.pop_back();
  }
  static urma_cr_t next(urma_jfc_t* jfc) {
    urma_cr_t record = {};
    EXPECT_TRUE(soon([&] { return urma_poll_jfc(jfc, 1, &record) == 1; }));
    return record;
  }

  urma_context_t* const ctx_;
  const urma_transport_mode_t mode_;
  urma_jfc_t* sent_ = nullptr;
  urma_jfc_t* received_ = nullptr;
  urma_jfr_t* jfr_ = nullptr;
  urma_target_seg_t* segment_ = nullptr;
  std::vector<urma_target_jetty_t*> imported_;
  std::array<uint64_t, kCells> cells_ = {};
  size_t next_cell_ = 0;
};

class LossTest : public ModuleTest {
 protected:
  void start_two() {
    // No peer is given up.
    ::setenv("URMA_VERBS_TIMEOUT_MS", "60000", 1);
    start({});
    ::unsetenv("URMA_VERBS_TIMEOUT_MS");
    other_ = urma_create_context(device_, 0);
    ASSERT_NE(other_, nullptr);
    fake->set_datagrams(kBadNetwork);
  }
  void TearDown() override { EXPECT_EQ(urma_delete_context(other_), URMA_SUCCESS); }
  static size_t outgoing() {
    size_t count = 0;
    for (const auto& end : all(urma_ext_query_connections)) count += end.incoming == 0 ? 1 : 0;
    return count;
  }

  urma_context_t* other_ = nullptr;
};

constexpr uint64_t kMessages = 6;

// Both at once, and by chains that are posted before there is a connection.
void exchange(End* a, urma_target_jetty_t* to_b, End* b, urma_target_jetty_t* to_a) {
  a->post_receives(kMessages);
  b->post_receives(kMessages);
  for (uint64_t i = 1; i <= kMessages; ++i) {
    a->send(to_b, i);
    b->send(to_a, 100 + i);
  }
  for (uint64_t i = 1; i <= kMessages; ++i) {
    EXPECT_EQ(a->next_sent(i), URMA_CR_SUCCESS);
    EXPECT_EQ(b->next_sent(100 + i), URMA_CR_SUCCESS);
    EXPECT_EQ(b->next_received(), i);
    EXPECT_EQ(a->next_received(), 100 + i);
  }
  EXPECT_TRUE(a->nothing_more());
  EXPECT_TRUE(b->nothing_more());
}

TEST_F(LossTest, BothConnectAtOnce) {
  start_two();
  for (int round = 0; round < 12; ++round) {
    End a(ctx_, URMA_TM_RM);
    End b(other_, URMA_TM_RM);
    exchange(&a, a.import(b), &b, b.import(a));
  }
  EXPECT_GT(fake->lost_datagrams(), 0U);
}

TEST_F(LossTest, BindsUnbindsAndBindsAgain) {
  start_two();
  End a(ctx_, URMA_TM_RC);
  End b(other_, URMA_TM_RC);
  for (int round = 0; round < 8; ++round) {
    a.bind(b);
    b.bind(a);
    exchange(&a, nullptr, &b, nullptr);
    a.unbind();
    b.unbind();
  }
}

// The second to bind finds the other one bound.
TEST_F(LossTest, ABindConnects) {
  start_two();
  End a(ctx_, URMA_TM_RC);
  End b(other_, URMA_TM_RC);
  a.bind(b);
  b.bind(a);
  EXPECT_TRUE(soon([] {
    const auto ends = all(urma_ext_query_connections);
    return std::any_of(ends.begin(), ends.end(), [](const auto& end) {
      return end.incoming == 0 && end.state == URMA_EXT_CONNECTION_READY;
    });
  }));
}

// The bind makes the connection, and its channel is known only after that.
TEST_F(LossTest, RecordsNameTheChannelOfTheBind) {
  start_two();
  End a(ctx_, URMA_TM_RC);
  End b(other_, URMA_TM_RC);
  b.bind(a);
  urma_target_jetty_t* target = a.import(b);
  for (const uint32_t ctp : {0, 1, 0}) {
    urma_get_tp_cfg_t wanted = {};
    wanted.flag.bs.ctp = ctp;
    wanted.flag.bs.rtp = 1 - ctp;
    wanted.trans_mode = URMA_TM_RC;
    wanted.local_eid = ctx_->eid;
    wanted.peer_eid = other_->eid;
    uint32_t count = 1;
    urma_tp_info_t channel = {};
    ASSERT_EQ(urma_get_tp_list(ctx_, &wanted, &count, &channel), URMA_SUCCESS);
    urma_bind_jetty_ex_cfg_t picked = {};
    picked.tp_handle = channel.tp_handle;
    ASSERT_EQ(urma_bind_jetty_ex(a.jetty, target, &picked), URMA_SUCCESS);
    b.post_receives(1);
    a.send(nullptr, ctp + 1);
    EXPECT_EQ(a.next_record().tpn, target->tp.tpn);
    EXPECT_EQ(b.next_received(), ctp + 1);
    EXPECT_EQ(urma_unbind_jetty(a.jetty), URMA_SUCCESS);
  }
}

// What has reached the first does not reach the second, and nothing arrives twice.
TEST_F(LossTest, ARestartedPeerIsFound) {
  constexpr uint32_t kChosen = 4711;
  start_two();
  End a(ctx_, URMA_TM_RM);
  urma_target_jetty_t* target = nullptr;
  uint64_t value = 0;
  for (int life = 0; life < 5; ++life) {
    auto b = std::make_unique<End>(other_, URMA_TM_RM, kChosen);
    if (target == nullptr) target = a.import(*b);
    b->post_receives(kMessages);
    uint64_t arrived = 0;
    for (int tries = 0; arrived < kMessages && tries < 100; ++tries) {
      a.send(target, ++value);
      // The first ones may still be meant for the previous one.
      if (a.next_sent(value) != URMA_CR_SUCCESS) continue;
      EXPECT_EQ(b->next_received(), value);
      ++arrived;
    }
    EXPECT_EQ(arrived, kMessages);
    EXPECT_TRUE(b->nothing_more());
    b.reset();
    EXPECT_EQ(urma_delete_context(other_), URMA_SUCCESS);
    other_ = urma_create_context(device_, 0);
    ASSERT_NE(other_, nullptr);
  }
}

TEST_F(LossTest, FewConnectionsReachManyPeers) {
  ::setenv("URMA_VERBS_MAX_CONN", "2", 1);
  start_two();
  ::unsetenv("URMA_VERBS_MAX_CONN");
  End a(ctx_, URMA_TM_RM);
  std::deque<End> peers;
  std::vector<urma_target_jetty_t*> targets;
  for (int i = 0; i < 5; ++i) {
    peers.emplace_back(other_, URMA_TM_RM);
    targets.push_back(a.import(peers.back()));
  }
  uint64_t value = 0;
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < peers.size(); ++i) {
      peers[i].post_receives(1);
      a.send(targets[i], ++value);
      EXPECT_EQ(a.next_sent(value), URMA_CR_SUCCESS);
      EXPECT_EQ(peers[i].next_received(), value);
    }
  }
  EXPECT_TRUE(soon([] { return outgoing() <= 2; }));
  for (const End& peer : peers) EXPECT_TRUE(peer.nothing_more());
}

}  // namespace
}  // namespace urma::verbs
