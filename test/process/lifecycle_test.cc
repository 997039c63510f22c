// SPDX-License-Identifier: MIT
//
// Objects created inactive, configured option by option and activated, more than once; batches.
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

class LifecycleTest : public ProcessTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    ctx_ = urma_create_context(find_device(), 0);
    ASSERT_NE(ctx_, nullptr);
    jfc_cfg_.depth = 64;
    jfc_ = urma_create_jfc(ctx_, &jfc_cfg_);
    jfs_cfg_.depth = 16;
    jfs_cfg_.trans_mode = URMA_TM_RM;
    jfs_cfg_.jfc = jfc_;
    jfr_cfg_.depth = 16;
    jfr_cfg_.trans_mode = URMA_TM_RM;
    jfr_cfg_.jfc = jfc_;
    jfr_cfg_.max_sge = 1;
  }
  void TearDown() override {
    EXPECT_EQ(urma_delete_jfc(jfc_), URMA_SUCCESS);
    EXPECT_EQ(ctx_->ref.atomic_cnt.load(), 1u);
    EXPECT_EQ(urma_delete_context(ctx_), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  }
  // Sends eight bytes to the JFR with this id.
  void expect_traffic(urma_jfs_t* jfs, urma_jfr_t* jfr) {
    urma_rjfr_t remote = remote_jfr(jfr->jfr_id);
    const ImportedJfr target = urma_import_jfr(ctx_, &remote, nullptr);
    urma_jfr_wr_t receive = {};
    receive.user_ctx = 2;
    urma_jfr_wr_t* bad_receive = nullptr;
    EXPECT_EQ(urma_post_jfr_wr(jfr, &receive, &bad_receive), URMA_SUCCESS);
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_SEND;
    wr.tjetty = target;
    wr.user_ctx = 2;
    wr.flag.bs.complete_enable = 1;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jfs_wr(jfs, &wr, &bad), URMA_SUCCESS);
    wait_for_success(jfc_, 2);
    wait_for_success(jfc_, 2);
  }

  urma_context_t* ctx_ = nullptr;
  urma_jfc_t* jfc_ = nullptr;
  urma_jfc_cfg_t jfc_cfg_ = {};
  urma_jfs_cfg_t jfs_cfg_ = {};
  urma_jfr_cfg_t jfr_cfg_ = {};
};

TEST_F(LifecycleTest, QueuesCanBeActivatedAgain) {
  urma_jfs_t* jfs = nullptr;
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &jfs_cfg_, &jfs), URMA_SUCCESS);
  ASSERT_EQ(urma_alloc_jfr(ctx_, &jfr_cfg_, &jfr), URMA_SUCCESS);
  EXPECT_EQ(ctx_->ref.atomic_cnt.load(), 4u);
  EXPECT_EQ(jfr->jfr_id.id, 0u);
  for (uint32_t round = 0; round < 3; ++round) {
    // Nothing works before activation.
    urma_jfr_wr_t receive = {};
    urma_jfr_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jfr_wr(jfr, &receive, &bad), URMA_EINVAL);
    EXPECT_EQ(bad, &receive);
    EXPECT_EQ(urma_deactive_jfr(jfr), URMA_EINVAL);
    EXPECT_EQ(urma_delete_jfs(jfs), URMA_EINVAL);
    uint32_t depth = 20 + round;
    EXPECT_EQ(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, sizeof(depth)), URMA_SUCCESS);
    uint32_t id = 300 + round;
    EXPECT_EQ(urma_set_jfr_opt(jfr, URMA_JFR_ID, &id, sizeof(id)), URMA_SUCCESS);
    EXPECT_EQ(urma_active_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_active_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_active_jfr(jfr), URMA_EINVAL);
    EXPECT_EQ(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, sizeof(depth)), URMA_EINVAL);
    EXPECT_EQ(jfr->jfr_id.id, id);
    uint32_t got = 0;
    EXPECT_EQ(urma_get_jfs_opt(jfs, URMA_JFS_DEPTH, &got, sizeof(got)), URMA_SUCCESS);
    EXPECT_EQ(got, depth);
    EXPECT_EQ(urma_get_jfr_opt(jfr, URMA_JFR_ID, &got, sizeof(got)), URMA_SUCCESS);
    EXPECT_EQ(got, id);
    expect_traffic(jfs, jfr);
    uint16_t index = 0;
    EXPECT_EQ(urma_get_jfs_opt(jfs, URMA_JFS_PI, &index, sizeof(index)), URMA_SUCCESS);
    EXPECT_EQ(index, 1);
    EXPECT_EQ(urma_free_jfs(jfs), URMA_EINVAL);
    EXPECT_EQ(urma_deactive_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_deactive_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(jfr->jfr_id.id, 0u);
  }
  EXPECT_EQ(urma_free_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_free_jfr(jfr), URMA_SUCCESS);
}

TEST_F(LifecycleTest, AJfcInUseStaysActive) {
  urma_jfc_t* jfc = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &jfc_cfg_, &jfc), URMA_SUCCESS);
  urma_cr_t cr;
  EXPECT_EQ(urma_poll_jfc(jfc, 1, &cr), -1);
  urma_jfs_t* jfs = nullptr;
  jfs_cfg_.jfc = jfc;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &jfs_cfg_, &jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jfs(jfs), URMA_EINVAL);
  EXPECT_EQ(urma_active_jfc(jfc), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_deactive_jfc(jfc), URMA_EAGAIN);
  EXPECT_EQ(urma_delete_jfc(jfc), URMA_EAGAIN);
  uint8_t context[256];
  EXPECT_EQ(urma_get_jfc_opt(jfc, URMA_JFC_FULL_CTX, context, 128), URMA_SUCCESS);
  EXPECT_EQ(urma_get_jfc_opt(jfc, URMA_JFC_FULL_CTX, context, 64), URMA_EINVAL);
  EXPECT_EQ(urma_get_jfs_opt(jfs, URMA_JFS_FULL_CTX, context, 256), URMA_SUCCESS);
  EXPECT_EQ(urma_get_jfs_opt(jfs, URMA_JFR_DEPTH, context, 4), URMA_EINVAL);
  EXPECT_EQ(urma_deactive_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_deactive_jfc(jfc), URMA_SUCCESS);
  EXPECT_EQ(urma_poll_jfc(jfc, 1, &cr), -1);
  uint8_t unknown = 0;
  EXPECT_EQ(urma_set_jfc_opt(jfc, 0x2fff, &unknown, 1), URMA_FAIL);
  EXPECT_EQ(urma_free_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_free_jfc(jfc), URMA_SUCCESS);
}

TEST_F(LifecycleTest, AJettyNeedsItsPartsActive) {
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfr(ctx_, &jfr_cfg_, &jfr), URMA_SUCCESS);
  urma_jetty_cfg_t cfg = jetty_config(jfr, jfs_cfg_);
  cfg.shared.jfc = jfc_;
  urma_jetty_t* jetty = nullptr;
  ASSERT_EQ(urma_alloc_jetty(ctx_, &cfg, &jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jetty(jetty), URMA_EINVAL);
  EXPECT_EQ(urma_active_jfr(jfr), URMA_SUCCESS);
  uint32_t id = 77;
  EXPECT_EQ(urma_set_jetty_opt(jetty, URMA_JETTY_ID, &id, sizeof(id)), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(jetty->jetty_id.id, 77u);
  EXPECT_EQ(urma_deactive_jfr(jfr), URMA_EAGAIN);
  // The id is taken while the jetty is active.
  urma_jetty_t* other = nullptr;
  cfg.id = 77;
  ASSERT_EQ(urma_alloc_jetty(ctx_, &cfg, &other), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jetty(other), URMA_EEXIST);
  EXPECT_EQ(urma_deactive_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jetty(other), URMA_SUCCESS);
  uint8_t context[256];
  EXPECT_EQ(urma_get_jetty_opt(other, URMA_JETTY_FULL_CTX, context, 256), URMA_SUCCESS);
  uint8_t sges = 0;
  EXPECT_EQ(urma_get_jetty_opt(other, URMA_JFS_MAX_SGE, &sges, 1), URMA_SUCCESS);
  EXPECT_EQ(sges, other->jetty_cfg.jfs_cfg.max_sge);
  EXPECT_EQ(urma_delete_jetty(other), URMA_SUCCESS);
  EXPECT_EQ(urma_free_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
}

// What URMA_*_FULL_CTX reads; the rest of the record is 0.
struct FullContext {
  uint32_t id, depth, state, reserved;
  uint64_t posted, ended;
};

template <typename Queue>
void expect_context(urma_status_t (*get)(Queue*, uint64_t, void*, uint32_t), Queue* queue,
                    uint64_t option, size_t bytes, const FullContext& expected) {
  std::vector<uint8_t> wanted(bytes), record(bytes, 0xa5);
  std::memcpy(wanted.data(), &expected, sizeof(expected));
  EXPECT_EQ(get(queue, option, record.data(), static_cast<uint32_t>(bytes)), URMA_SUCCESS);
  FullContext found;
  std::memcpy(&found, record.data(), sizeof(found));
  EXPECT_EQ(record, wanted) << found.id << ' ' << found.depth << ' ' << found.state << ' '
                            << found.posted << ' ' << found.ended;
}

template <typename Queue>
void expect_index(urma_status_t (*get)(Queue*, uint64_t, void*, uint32_t), Queue* queue,
                  uint64_t option, uint16_t expected) {
  uint16_t found = 0xffff;
  EXPECT_EQ(get(queue, option, &found, sizeof(found)), URMA_SUCCESS);
  EXPECT_EQ(found, expected) << option;
}

constexpr uint32_t kReady = URMA_JETTY_STATE_READY;

TEST_F(LifecycleTest, OptionsCountWhatWasPostedAndHasEnded) {
  urma_jfs_t* jfs = nullptr;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &jfs_cfg_, &jfs), URMA_SUCCESS);
  const OwnedJfr jfr = urma_create_jfr(ctx_, &jfr_cfg_);
  expect_context(urma_get_jfs_opt, jfs, URMA_JFS_FULL_CTX, 256, {0, 16, 0, 0, 0, 0});
  EXPECT_EQ(urma_active_jfs(jfs), URMA_SUCCESS);
  for (int i = 0; i < 2; ++i) expect_traffic(jfs, jfr);
  urma_rjfr_t remote = remote_jfr(jfr->jfr_id);
  const ImportedJfr target = urma_import_jfr(ctx_, &remote, nullptr);
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND;
  wr.tjetty = target;
  wr.flag.bs.complete_enable = 1;
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(urma_post_jfs_wr(jfs, &wr, &bad), URMA_SUCCESS);
  expect_context(urma_get_jfs_opt, jfs, URMA_JFS_FULL_CTX, 256,
                 {jfs->jfs_id.id, 16, kReady, 0, 3, 2});
  expect_context(urma_get_jfr_opt, jfr.get(), URMA_JFR_FULL_CTX, 64,
                 {jfr->jfr_id.id, 16, URMA_JFR_STATE_READY, 0, 2, 2});
  expect_index(urma_get_jfs_opt, jfs, URMA_JFS_PI, 3);
  expect_index(urma_get_jfs_opt, jfs, URMA_JFS_CI, 2);
  urma_jfr_wr_t receive = {};
  urma_jfr_wr_t* bad_receive = nullptr;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(urma_post_jfr_wr(jfr, &receive, &bad_receive), URMA_SUCCESS);
  }
  for (int i = 0; i < 2; ++i) wait_for_success(jfc_, 0);
  expect_index(urma_get_jfs_opt, jfs, URMA_JFS_CI, 3);
  expect_index(urma_get_jfr_opt, jfr.get(), URMA_JFR_PI, 4);
  expect_index(urma_get_jfr_opt, jfr.get(), URMA_JFR_CI, 3);
  expect_context(urma_get_jfr_opt, jfr.get(), URMA_JFR_FULL_CTX, 64,
                 {jfr->jfr_id.id, 16, URMA_JFR_STATE_READY, 0, 4, 3});
  expect_context(urma_get_jfc_opt, jfc_, URMA_JFC_FULL_CTX, 128,
                 {jfc_->jfc_id.id, 64, URMA_JFC_STATE_VALID, 0, 0, 0});
  EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
  urma_jetty_cfg_t cfg = jetty_config(jfr, jfs_cfg_);
  const OwnedJetty jetty = urma_create_jetty(ctx_, &cfg);
  expect_context(urma_get_jetty_opt, jetty.get(), URMA_JETTY_FULL_CTX, 256,
                 {jetty->jetty_id.id, 16, kReady, 0, 0, 0});
}

// While a queue is out of use, others may have the id that the library picked for it.
TEST_F(LifecycleTest, AnIdThatWasNotChosenEndsWithTheActivation) {
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfr(ctx_, &jfr_cfg_, &jfr), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jfr(jfr), URMA_SUCCESS);
  const uint32_t first = jfr->jfr_id.id;
  EXPECT_EQ(urma_deactive_jfr(jfr), URMA_SUCCESS);
  EXPECT_EQ(jfr->jfr_cfg.id, 0u);
  urma_jfr_cfg_t cfg = jfr_cfg_;
  cfg.id = first;
  const OwnedJfr other = urma_create_jfr(ctx_, &cfg);
  EXPECT_EQ(urma_active_jfr(jfr), URMA_SUCCESS);
  EXPECT_NE(jfr->jfr_id.id, first);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
}

// Has a message received by a queue whose JFC is not polled meanwhile.
class UnpolledTest : public LifecycleTest {
 protected:
  void SetUp() override {
    LifecycleTest::SetUp();
    received_ = urma_create_jfc(ctx_, &jfc_cfg_);
    jfr_cfg_.jfc = received_;
    jfr_ = urma_create_jfr(ctx_, &jfr_cfg_);
    jfs_ = urma_create_jfs(ctx_, &jfs_cfg_);
    ASSERT_NE(jfs_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(urma_delete_jfs(jfs_), URMA_SUCCESS);
    EXPECT_TRUE(jfr_ == nullptr || urma_delete_jfr(jfr_) == URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(received_), URMA_SUCCESS);
    LifecycleTest::TearDown();
  }
  void send_to(urma_target_jetty_t* target) {
    urma_jfr_wr_t receive = {};
    urma_jfr_wr_t* bad_receive = nullptr;
    EXPECT_EQ(urma_post_jfr_wr(jfr_, &receive, &bad_receive), URMA_SUCCESS);
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_SEND;
    wr.tjetty = target;
    wr.flag.bs.complete_enable = 1;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jfs_wr(jfs_, &wr, &bad), URMA_SUCCESS);
    wait_for_success(jfc_, 0);
  }

  urma_jfc_t* received_ = nullptr;
  urma_jfr_t* jfr_ = nullptr;
  urma_jfs_t* jfs_ = nullptr;
};

TEST_F(UnpolledTest, RecordsOfAJfrEndWithIt) {
  for (const bool ends : {false, true}) {
    urma_rjfr_t remote = remote_jfr(jfr_->jfr_id);
    const ImportedJfr target = urma_import_jfr(ctx_, &remote, nullptr);
    send_to(target);
    if (ends) {
      EXPECT_EQ(urma_delete_jfr(std::exchange(jfr_, nullptr)), URMA_SUCCESS);
      EXPECT_TRUE(has_nothing(received_));
    } else {
      wait_for_success(received_, 0);
    }
  }
}

// Also those of receives that it has taken from a JFR which stays.
TEST_F(UnpolledTest, RecordsOfAJettyEndWithIt) {
  enum class End { kNone, kReset, kDeactivation, kDeletion };
  for (const End end : {End::kNone, End::kReset, End::kDeactivation, End::kDeletion}) {
    SCOPED_TRACE(static_cast<int>(end));
    urma_jetty_cfg_t cfg = jetty_config(jfr_, jfs_cfg_);
    urma_jetty_t* jetty = urma_create_jetty(ctx_, &cfg);
    ASSERT_NE(jetty, nullptr);
    urma_rjetty_t remote = remote_jetty(jetty->jetty_id);
    const ImportedJetty target = urma_import_jetty(ctx_, &remote, nullptr);
    send_to(target);
    if (end == End::kNone) wait_for_success(received_, 0);
    if (end == End::kReset) {
      urma_jetty_attr_t attr = {JETTY_STATE, 0, URMA_JETTY_STATE_RESET};
      EXPECT_EQ(urma_modify_jetty(jetty, &attr), URMA_SUCCESS);
    }
    if (end == End::kDeactivation) {
      EXPECT_EQ(urma_deactive_jetty(jetty), URMA_SUCCESS);
    }
    if (end == End::kDeletion) {
      EXPECT_EQ(urma_delete_jetty(std::exchange(jetty, nullptr)), URMA_SUCCESS);
    }
    EXPECT_TRUE(has_nothing(received_));
    if (end == End::kDeactivation) {
      EXPECT_EQ(urma_free_jetty(jetty), URMA_SUCCESS);
    } else if (jetty != nullptr) {
      EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    }
  }
}

// A completion without a message.
void complete_one(urma_jfs_t* jfs) {
  urma_jfs_attr_t attr = {JFS_STATE, URMA_JETTY_STATE_ERROR};
  EXPECT_EQ(urma_modify_jfs(jfs, &attr), URMA_SUCCESS);
}

TEST_F(LifecycleTest, AnUnfetchedEventEndsWithDeactivation) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  jfc_cfg_.jfce = jfce;
  urma_jfc_t* jfc = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &jfc_cfg_, &jfc), URMA_SUCCESS);
  jfs_cfg_.jfc = jfc;
  for (int life = 0; life < 3; ++life) {
    EXPECT_EQ(urma_active_jfc(jfc), URMA_SUCCESS);
    urma_jfs_t* jfs = urma_create_jfs(ctx_, &jfs_cfg_);
    EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
    complete_one(jfs);
    if (life == 2) {
      urma_jfc_t* told = nullptr;
      EXPECT_EQ(urma_wait_jfc(jfce, 1, 10000, &told), 1);
      EXPECT_EQ(told, jfc);
      uint32_t events = 1;
      urma_ack_jfc(&told, &events, 1);
    }
    EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_deactive_jfc(jfc), URMA_SUCCESS);
  }
  EXPECT_EQ(urma_free_jfc(jfc), URMA_SUCCESS);
}

TEST_F(LifecycleTest, OverflowIsReportedAfterEachActivation) {
  jfc_cfg_.depth = 1;
  urma_jfc_t* jfc = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &jfc_cfg_, &jfc), URMA_SUCCESS);
  jfs_cfg_.jfc = jfc;
  urma_rjfr_t nobody = remote_jfr({ctx_->eid, 0, 60000});
  const ImportedJfr target = urma_import_jfr(ctx_, &nobody, nullptr);
  pollfd readable = {ctx_->async_fd, POLLIN, 0};
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(urma_active_jfc(jfc), URMA_SUCCESS);
    urma_jfs_t* jfs = urma_create_jfs(ctx_, &jfs_cfg_);
    complete_one(jfs);
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_NOP;
    wr.tjetty = target;
    urma_jfs_wr_t* bad = nullptr;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(urma_post_jfs_wr(jfs, &wr, &bad), URMA_SUCCESS);
    ASSERT_EQ(::poll(&readable, 1, 10000), 1) << "life " << life;
    urma_async_event_t event = {};
    EXPECT_EQ(urma_get_async_event(ctx_, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_JFC_ERR);
    EXPECT_EQ(event.element.jfc, jfc);
    urma_ack_async_event(&event);
    EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_deactive_jfc(jfc), URMA_SUCCESS);
  }
  EXPECT_EQ(urma_free_jfc(jfc), URMA_SUCCESS);
}

TEST_F(LifecycleTest, AJfcWithAChosenIdWakesNoOther) {
  urma_jfce_t* jfce[2] = {urma_create_jfce(ctx_), urma_create_jfce(ctx_)};
  jfc_cfg_.jfce = jfce[0];
  urma_jfc_t* first = urma_create_jfc(ctx_, &jfc_cfg_);
  uint32_t id = first->jfc_id.id + 1;
  jfc_cfg_.jfce = jfce[1];
  urma_jfc_t* second = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &jfc_cfg_, &second), URMA_SUCCESS);
  EXPECT_EQ(urma_set_jfc_opt(second, URMA_JFC_ID, &id, sizeof(id)), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jfc(second), URMA_SUCCESS);
  EXPECT_EQ(second->jfc_id.id, id);
  EXPECT_EQ(urma_rearm_jfc(first, false), URMA_SUCCESS);
  urma_jfs_t* jfs[2];
  urma_jfc_t* told = nullptr;
  for (const int which : {1, 0}) {
    jfs_cfg_.jfc = which == 0 ? first : second;
    jfs[which] = urma_create_jfs(ctx_, &jfs_cfg_);
    complete_one(jfs[which]);
    EXPECT_EQ(urma_wait_jfc(jfce[1], 1, 0, &told), 0);
  }
  EXPECT_EQ(urma_wait_jfc(jfce[0], 1, 10000, &told), 1);
  uint32_t events = 1;
  urma_ack_jfc(&told, &events, 1);
  for (urma_jfs_t* one : jfs) EXPECT_EQ(urma_delete_jfs(one), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfc(first), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfc(second), URMA_SUCCESS);
  for (urma_jfce_t* one : jfce) EXPECT_EQ(urma_delete_jfce(one), URMA_SUCCESS);
}

TEST_F(LifecycleTest, InactivePartsAreRefused) {
  urma_jfc_t* jfc = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &jfc_cfg_, &jfc), URMA_SUCCESS);
  jfs_cfg_.jfc = jfc;
  EXPECT_EQ(urma_create_jfs(ctx_, &jfs_cfg_), nullptr);
  EXPECT_EQ(errno, EINVAL);
  jfs_cfg_.jfc = jfc_;
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfr(ctx_, &jfr_cfg_, &jfr), URMA_SUCCESS);
  jfr_cfg_.jfc = jfc;
  EXPECT_EQ(urma_create_jfr(ctx_, &jfr_cfg_), nullptr);
  urma_jetty_cfg_t cfg = jetty_config(jfr, jfs_cfg_);
  EXPECT_EQ(urma_create_jetty(ctx_, &cfg), nullptr);
  EXPECT_EQ(errno, EINVAL);
  urma_jfr_attr_t attr = {JFR_STATE, 0, URMA_JFR_STATE_READY};
  EXPECT_EQ(urma_modify_jfr(jfr, &attr), URMA_EINVAL);
  EXPECT_EQ(urma_free_jfr(jfr), URMA_SUCCESS);
  EXPECT_EQ(urma_free_jfc(jfc), URMA_SUCCESS);
}

TEST_F(LifecycleTest, ABoundJettyStaysActive) {
  jfs_cfg_.trans_mode = URMA_TM_RC;
  jfr_cfg_.trans_mode = URMA_TM_RC;
  urma_jfr_t* jfr = urma_create_jfr(ctx_, &jfr_cfg_);
  urma_jetty_cfg_t cfg = jetty_config(jfr, jfs_cfg_);
  urma_jetty_t* jetty = urma_create_jetty(ctx_, &cfg);
  urma_rjetty_t remote = remote_jetty(jetty->jetty_id, URMA_TM_RC);
  const ImportedJetty peer = urma_import_jetty(ctx_, &remote, nullptr);
  EXPECT_EQ(urma_bind_jetty(jetty, peer), URMA_SUCCESS);
  EXPECT_EQ(urma_deactive_jetty(jetty), URMA_ENOPERM);
  EXPECT_EQ(jetty->remote_jetty, peer);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_EAGAIN);
  EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_deactive_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_bind_jetty(jetty, peer), URMA_EINVAL);
  EXPECT_EQ(urma_free_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
}

}  // namespace
}  // namespace urma_test
