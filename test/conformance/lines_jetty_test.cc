// SPDX-License-Identifier: MIT
//
// Lines 21 to 23: creating, deleting and activating jetties.
#include <array>

#include "test/conformance/lines.h"
#include "test/process/configs.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

// The queues that a jetty needs, and a configuration that names them.
struct Parts {
  explicit Parts(urma_context_t* ctx, urma_transport_mode_t mode = URMA_TM_RM) {
    urma_jfc_cfg_t jfc_cfg = jfc_config(64);
    jfc = urma_create_jfc(ctx, &jfc_cfg);
    EXPECT_NE(jfc, nullptr);
    cfg.jfs_cfg.depth = 16;
    cfg.jfs_cfg.trans_mode = mode;
    cfg.jfs_cfg.max_sge = cfg.jfs_cfg.max_rsge = 1;
    cfg.jfs_cfg.jfc = jfc;
    receive.depth = 16;
    receive.trans_mode = mode;
    receive.max_sge = 1;
    receive.jfc = jfc;
    urma_jfr_cfg_t jfr_cfg = receive;
    jfr = urma_create_jfr(ctx, &jfr_cfg);
    EXPECT_NE(jfr, nullptr);
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.shared.jfr = jfr;
    cfg.shared.jfc = jfc;
  }
  Parts(const Parts&) = delete;
  ~Parts() {
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  }
  urma_jetty_t* make(urma_context_t* ctx) const {
    urma_jetty_cfg_t copy = cfg;
    urma_jetty_t* jetty = urma_create_jetty(ctx, &copy);
    EXPECT_NE(jetty, nullptr);
    return jetty;
  }

  urma_jfc_t* jfc = nullptr;
  urma_jfr_t* jfr = nullptr;
  urma_jfr_cfg_t receive = {};  // for a jetty without a shared JFR
  urma_jetty_cfg_t cfg = {};
};

// -------------------------------------------------------------------------------------------------
// Line 21
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_21a_CreateJettyWithoutArguments) {
  Parts parts(ctx_);
  urma_jetty_cfg_t cfg = parts.cfg;
  EXPECT_NULL(urma_create_jetty(nullptr, &cfg));
  EXPECT_NULL(urma_create_jetty(ctx_, nullptr));
  cfg.jfs_cfg.jfc = nullptr;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  cfg = parts.cfg;
  cfg.shared.jfr = nullptr;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  EXPECT_EQ(cfg.jfs_cfg.flag.bs.order_type, URMA_DEF_ORDER);
  EXPECT_EQ(urma_delete_jetty(parts.make(ctx_)), URMA_SUCCESS);
}

TEST_F(DeviceLines, S1_21b_CreateJettyOfAnImpossibleModeOrOrder) {
  Parts parts(ctx_);
  urma_jetty_cfg_t cfg = parts.cfg;
  for (const uint32_t mode : {0u, 3u, 0xffu}) {
    cfg.jfs_cfg.trans_mode = static_cast<urma_transport_mode_t>(mode);
    EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  }
  cfg = parts.cfg;
  for (const uint32_t order : {uint32_t{URMA_NO}, uint32_t{URMA_OT}, uint32_t{URMA_OL}, 5u}) {
    cfg.jfs_cfg.flag.bs.order_type = order;
    EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  }
  // The JFR is of mode RM.
  cfg = parts.cfg;
  cfg.jfs_cfg.trans_mode = URMA_TM_RC;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  cfg.jfs_cfg.trans_mode = URMA_TM_UM;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
}

TEST_F(DeviceLines, S1_21c_CreateJettyNeedsASharedJfr) {
  NEEDS(device_->type == URMA_TRANSPORT_UB, "type UB");
  Parts parts(ctx_);
  urma_jetty_cfg_t cfg = parts.cfg;
  cfg.flag.bs.share_jfr = URMA_NO_SHARE_JFR;
  cfg.jfr_cfg = &parts.receive;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  cfg.jfr_cfg = nullptr;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
}

TEST_F(DeviceLines, S1_21d_CreateJettyBeyondTheLimits) {
  Parts parts(ctx_);
  urma_jetty_cfg_t cfg = parts.cfg;
  for (const uint32_t depth : {0u, caps().max_jfs_depth + 1}) {
    cfg.jfs_cfg.depth = depth;
    EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  }
  cfg = parts.cfg;
  cfg.jfs_cfg.max_inline_data = caps().max_jfs_inline_len + 1;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  cfg = parts.cfg;
  if (caps().max_jfs_sge < UINT8_MAX) {
    cfg.jfs_cfg.max_sge = static_cast<uint8_t>(caps().max_jfs_sge + 1);
    EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  }
  EXPECT_EQ(cfg.jfs_cfg.flag.bs.order_type, URMA_DEF_ORDER);
}

TEST_F(DeviceLines, S1_21e_CreateJettyFillsIn) {
  Parts parts(ctx_);
  const unsigned long before = refs();
  urma_jetty_cfg_t cfg = parts.cfg;
  urma_jetty_t* jetty = urma_create_jetty(ctx_, &cfg);
  ASSERT_NE(jetty, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_EQ(cfg.jfs_cfg.flag.bs.order_type, URMA_OI);
  EXPECT_EQ(jetty->urma_ctx, ctx_);
  EXPECT_NE(jetty->jetty_id.id, 0u);
  EXPECT_EQ(jetty->jetty_id.uasid, ctx_->uasid);
  EXPECT_EQ(jetty->remote_jetty, nullptr);
  EXPECT_EQ(jetty->jetty_cfg.shared.jfr, parts.jfr);
  EXPECT_TRUE(jetty->urma_jetty_opt.is_actived);
  EXPECT_CHANGE(urma_delete_jetty(jetty), -1);
}

TEST_F(ProviderLines, S1_21f_CreateJettyThatTheProviderRefuses) {
  Parts parts(ctx_);
  urma_jetty_cfg_t cfg = parts.cfg;
  WITHOUT(create_jetty, EXPECT_NULL(urma_create_jetty(ctx_, &cfg)));
  module_->fails = true;
  module_->error = EEXIST;
  EXPECT_NULL_WITH(urma_create_jetty(ctx_, &cfg), EEXIST);
}

TEST_F(ProviderLines, S1_21g_CreateJettyWithItsOwnReceiveHalf) {
  reopen(kModuleIb);
  Parts parts(ctx_);
  urma_jetty_cfg_t cfg = parts.cfg;
  cfg.flag.bs.share_jfr = URMA_NO_SHARE_JFR;
  cfg.jfr_cfg = nullptr;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  urma_jfr_cfg_t receive = parts.receive;
  cfg.jfr_cfg = &receive;
  receive.trans_mode = URMA_TM_RC;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  receive = parts.receive;
  receive.jfc = nullptr;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  receive = parts.receive;
  receive.depth = kModuleDepth + 1;
  EXPECT_NULL(urma_create_jetty(ctx_, &cfg));
  receive = parts.receive;
  const OwnedJetty jetty = urma_create_jetty(ctx_, &cfg);
}

// A jetty that cannot join a group: its token, its policy or its mode differs.
void expect_no_member(urma_context_t* ctx, urma_jetty_grp_t* group) {
  const auto refs = [ctx] { return ctx->ref.atomic_cnt.load(); };
  Parts parts(ctx), connected(ctx, URMA_TM_RC);
  urma_jetty_cfg_t cfg = parts.cfg;
  cfg.jetty_grp = group;
  EXPECT_NULL(urma_create_jetty(ctx, &cfg));
  urma_jfr_cfg_t receive = parts.receive;
  receive.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  receive.token_value.token = 6;
  const OwnedJfr other = urma_create_jfr(ctx, &receive);
  cfg.shared.jfr = other;
  EXPECT_NULL(urma_create_jetty(ctx, &cfg));
  cfg = connected.cfg;
  cfg.jetty_grp = group;
  EXPECT_NULL(urma_create_jetty(ctx, &cfg));
  EXPECT_EQ(group->jetty_cnt, 0u);
}

urma_jetty_grp_t* make_guarded_group(urma_context_t* ctx, urma_jetty_grp_cfg_t cfg) {
  cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  cfg.token_value.token = 5;
  urma_jetty_grp_t* group = urma_create_jetty_grp(ctx, &cfg);
  EXPECT_NE(group, nullptr);
  return group;
}

TEST_F(ProviderLines, S1_21h_CreateJettyThatDoesNotFitItsGroup) {
  urma_jetty_grp_t* group = make_guarded_group(ctx_, group_cfg("guarded"));
  expect_no_member(ctx_, group);
  EXPECT_CHANGE(urma_delete_jetty_grp(group), -1);
}

TEST_F(DeviceLines, S1_21i_CreateJettyThatDoesNotFitItsGroup) {
  NEEDS_OPERATION(create_jetty_grp);
  urma_jetty_grp_t* group = make_guarded_group(ctx_, group_cfg("guarded"));
  ASSERT_NE(group, nullptr);
  expect_no_member(ctx_, group);
  EXPECT_CHANGE(urma_delete_jetty_grp(group), -1);
}

// -------------------------------------------------------------------------------------------------
// Line 22
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_22a_DeleteJettyWithoutJetty) { EXPECT_EINVAL(urma_delete_jetty(nullptr)); }

TEST_F(DeviceLines, S1_22b_DeleteJettyThatIsInactive) {
  NEEDS_OPERATION(alloc_jetty);
  Parts parts(ctx_);
  urma_jetty_t* jetty = nullptr;
  ASSERT_EQ(urma_alloc_jetty(ctx_, &parts.cfg, &jetty), URMA_SUCCESS);
  EXPECT_EINVAL(urma_delete_jetty(jetty));
  EXPECT_EQ(urma_active_jetty(jetty), URMA_SUCCESS);
  EXPECT_CHANGE(urma_delete_jetty(jetty), -1);
}

TEST_F(DeviceLines, S1_22c_DeleteJettyThatIsBound) {
  NEEDS((caps().trans_mode & URMA_TM_RC) != 0, "mode RC");
  Loop loop(ctx_, URMA_TM_RC);
  EXPECT_ANSWER(urma_delete_jetty(loop.jetty), URMA_ENOPERM);
  EXPECT_EQ(loop.jetty->remote_jetty, loop.target);
  loop.check();
}

TEST_F(ProviderLines, S1_22d_DeleteJettyThatTheProviderRefuses) {
  Parts parts(ctx_);
  urma_jetty_t* jetty = parts.make(ctx_);
  WITHOUT(delete_jetty, EXPECT_EINVAL(urma_delete_jetty(jetty)));
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_delete_jetty(jetty), URMA_EAGAIN);
  EXPECT_TRUE(jetty->urma_jetty_opt.is_actived);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_jetty(jetty), -1);
}

TEST_F(DeviceLines, S1_22e_DeleteJettyBatchWithoutArguments) {
  Loop loop(ctx_);
  urma_jetty_t* jetty = loop.jetty;
  EXPECT_UNTOUCHED(urma_jetty_t*, bad);
  EXPECT_EINVAL(urma_delete_jetty_batch(nullptr, 1, &bad));
  EXPECT_EINVAL(urma_delete_jetty_batch(&jetty, 0, &bad));
  EXPECT_EINVAL(urma_delete_jetty_batch(&jetty, -1, &bad));
  EXPECT_EINVAL(urma_delete_jetty_batch(&jetty, 1, nullptr));
  std::array<urma_jetty_t*, 2> jetties = {jetty, nullptr};
  urma_jetty_t* first = nullptr;
  EXPECT_EINVAL(urma_delete_jetty_batch(jetties.data(), 2, &first));
  EXPECT_EQ(first, jetty);
  loop.check();
}

TEST_F(DeviceLines, S1_22f_DeleteJettyBatchWithOneThatIsBound) {
  NEEDS_OPERATION(delete_jetty_batch);
  NEEDS((caps().trans_mode & URMA_TM_RC) != 0, "mode RC");
  Loop bound(ctx_, URMA_TM_RC);
  Parts parts(ctx_, URMA_TM_RC);
  std::array<urma_jetty_t*, 2> jetties = {parts.make(ctx_), bound.jetty};
  urma_jetty_t* bad = nullptr;
  EXPECT_ANSWER(urma_delete_jetty_batch(jetties.data(), 2, &bad), URMA_ENOPERM);
  EXPECT_EQ(bad, jetties[0]);
  bound.check();
  bound.end();
  EXPECT_CHANGE(urma_delete_jetty_batch(jetties.data(), 1, &bad), -1);
}

TEST_F(ProviderLines, S1_22g_DeleteJettyBatchThatTheProviderRefuses) {
  Parts parts(ctx_, URMA_TM_RC);
  std::array<urma_jetty_t*, 2> jetties = {parts.make(ctx_), parts.make(ctx_)};
  urma_jetty_t* bad = nullptr;
  WITHOUT(delete_jetty_batch, EXPECT_EINVAL(urma_delete_jetty_batch(jetties.data(), 2, &bad)));
  EXPECT_EQ(bad, jetties[0]);
  urma_target_jetty_t peer = {};
  jetties[1]->remote_jetty = &peer;
  bad = nullptr;
  EXPECT_ANSWER(urma_delete_jetty_batch(jetties.data(), 2, &bad), URMA_ENOPERM);
  EXPECT_EQ(bad, jetties[0]);
  jetties[1]->remote_jetty = nullptr;
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_delete_jetty_batch(jetties.data(), 2, &bad), URMA_FAIL);
  EXPECT_EQ(bad, jetties[0]);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_jetty_batch(jetties.data(), 2, &bad), -2);
}

// -------------------------------------------------------------------------------------------------
// Line 23
// -------------------------------------------------------------------------------------------------

template <typename Value>
void set(urma_jetty_t* jetty, uint64_t option, Value value) {
  EXPECT_EQ(urma_set_jetty_opt(jetty, option, &value, sizeof value), URMA_SUCCESS);
}

void refuse_to_activate(urma_jetty_t* jetty, const urma_device_cap_t& caps) {
  const auto refs = [jetty] { return jetty->urma_ctx->ref.atomic_cnt.load(); };
  set(jetty, URMA_JFS_TRANS_MODE, uint32_t{0xff});
  EXPECT_EINVAL(urma_active_jetty(jetty));
  set(jetty, URMA_JFS_TRANS_MODE, URMA_TM_RM);
  set(jetty, URMA_JFS_DEPTH, caps.max_jfs_depth + 1);
  EXPECT_EINVAL(urma_active_jetty(jetty));
  set(jetty, URMA_JFS_DEPTH, uint32_t{16});
  EXPECT_FALSE(jetty->urma_jetty_opt.is_actived);
}

TEST_F(DeviceLines, S1_23a_ActiveJettyRefuses) {
  EXPECT_EINVAL(urma_active_jetty(nullptr));
  NEEDS_OPERATION(alloc_jetty);
  NEEDS_OPERATION(alloc_jfr);
  Parts parts(ctx_);
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfr(ctx_, &parts.receive, &jfr), URMA_SUCCESS);
  parts.cfg.shared.jfr = jfr;
  urma_jetty_t* jetty = nullptr;
  ASSERT_EQ(urma_alloc_jetty(ctx_, &parts.cfg, &jetty), URMA_SUCCESS);
  EXPECT_EINVAL(urma_active_jetty(jetty));
  EXPECT_EQ(urma_active_jfr(jfr), URMA_SUCCESS);
  refuse_to_activate(jetty, caps());
  EXPECT_CHANGE(urma_active_jetty(jetty), 0);
  EXPECT_NE(jetty->jetty_id.id, 0u);
  EXPECT_EINVAL(urma_active_jetty(jetty));
  EXPECT_CHANGE(urma_delete_jetty(jetty), -1);
  EXPECT_CHANGE(urma_delete_jfr(jfr), -1);
}

TEST_F(ProviderLines, S1_23b_ActiveJettyAnswersWithTheProvider) {
  Parts parts(ctx_);
  urma_jetty_t* jetty = nullptr;
  ASSERT_EQ(urma_alloc_jetty(ctx_, &parts.cfg, &jetty), URMA_SUCCESS);
  refuse_to_activate(jetty, caps());
  WITHOUT(active_jetty, EXPECT_EINVAL(urma_active_jetty(jetty)));
  parts.jfr->urma_jfr_opt.is_actived = false;
  EXPECT_EINVAL(urma_active_jetty(jetty));
  parts.jfr->urma_jfr_opt.is_actived = true;
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_active_jetty(jetty), URMA_EAGAIN);
  EXPECT_FALSE(jetty->urma_jetty_opt.is_actived);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_active_jetty(jetty), 0);
  EXPECT_CHANGE(urma_delete_jetty(jetty), -1);
}

}  // namespace
}  // namespace urma_test
