// SPDX-License-Identifier: MIT
//
// Lines 25 to 27: importing, binding and advising.
#include "test/conformance/lines.h"

namespace urma_test {
namespace {

// -------------------------------------------------------------------------------------------------
// Line 25
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_25a_ImportJfrWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_rjfr_t remote = loop.remote_jfr();
  urma_token_t token = {};
  EXPECT_NULL(urma_import_jfr(nullptr, &remote, &token));
  EXPECT_NULL(urma_import_jfr(ctx_, nullptr, &token));
  remote.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  EXPECT_NULL(urma_import_jfr(ctx_, &remote, nullptr));
  EXPECT_EQ(remote.flag.bs.order_type, URMA_DEF_ORDER);
  loop.check();
}

TEST_F(DeviceLines, S1_25b_ImportJfrCounts) {
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_rjfr_t remote = loop.remote_jfr();
  const unsigned long before = refs();
  urma_target_jetty_t* target = urma_import_jfr(ctx_, &remote, nullptr);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_EQ(remote.flag.bs.order_type, URMA_OI);
  EXPECT_EQ(target->id.id, loop.jfr->jfr_id.id);
  EXPECT_EQ(target->trans_mode, URMA_TM_RM);
  EXPECT_EQ(target->type, URMA_JFR);
  EXPECT_EQ(target->urma_ctx, ctx_);
  EXPECT_CHANGE(urma_unimport_jfr(target), -1);
}

TEST_F(ProviderLines, S1_25c_ImportJfrFallsBack) {
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_rjfr_t remote = loop.remote_jfr();
  urma_token_t token = {};
  auto* const import = ctx_->ops->import_jfr;
  ctx_->ops->import_jfr = nullptr;
  module_->channel.tp_handle = module_->channel.tag = 99;
  urma_target_jetty_t* target = urma_import_jfr(ctx_, &remote, &token);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(module_->channel.tp_handle, 0u);
  EXPECT_EQ(module_->channel.tag, 0u);
  EXPECT_CHANGE(urma_unimport_jfr(target), -1);
  remote.flag.bs.share_tp = 1;
  EXPECT_NULL(urma_import_jfr(ctx_, &remote, &token));
  remote.flag.bs.share_tp = 0;
  WITHOUT(import_jfr_ex, EXPECT_NULL(urma_import_jfr(ctx_, &remote, &token)));
  ctx_->ops->import_jfr = import;
  module_->fails = true;
  module_->error = ENOMEM;
  EXPECT_NULL_WITH(urma_import_jfr(ctx_, &remote, &token), ENOMEM);
}

TEST_F(DeviceLines, S1_25d_ImportJfrExWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_rjfr_t remote = loop.remote_jfr();
  urma_token_t token = {};
  urma_import_jfr_ex_cfg_t cfg = {};
  EXPECT_NULL(urma_import_jfr_ex(nullptr, &remote, &token, &cfg));
  EXPECT_NULL(urma_import_jfr_ex(ctx_, nullptr, &token, &cfg));
  EXPECT_NULL(urma_import_jfr_ex(ctx_, &remote, nullptr, &cfg));
  EXPECT_NULL(urma_import_jfr_ex(ctx_, &remote, &token, nullptr));
  loop.check();
}

TEST_F(ProviderLines, S1_25e_ImportJfrExAnswersWithTheProvider) {
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_rjfr_t remote = loop.remote_jfr();
  urma_token_t token = {};
  urma_import_jfr_ex_cfg_t cfg = {};
  cfg.tp_handle = 7;
  EXPECT_NULL(urma_import_jfr_ex(ctx_, &remote, nullptr, &cfg));
  WITHOUT(import_jfr_ex, EXPECT_NULL(urma_import_jfr_ex(ctx_, &remote, &token, &cfg)));
  urma_target_jetty_t* target = urma_import_jfr_ex(ctx_, &remote, &token, &cfg);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(module_->channel.tp_handle, 7u);
  EXPECT_CHANGE(urma_unimport_jfr(target), -1);
}

TEST_F(DeviceLines, S1_25f_UnimportWithoutTarget) {
  EXPECT_EINVAL(urma_unimport_jfr(nullptr));
  EXPECT_EINVAL(urma_unimport_jetty(nullptr));
}

TEST_F(ProviderLines, S1_25g_UnimportThatTheProviderRefuses) {
  Loop loop(ctx_, URMA_TM_RM, false);
  WITHOUT(unimport_jfr, EXPECT_EINVAL(urma_unimport_jfr(loop.target)));
  WITHOUT(unimport_jetty, EXPECT_EINVAL(urma_unimport_jetty(loop.target)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_unimport_jfr(loop.target), URMA_FAIL);
  module_->status = URMA_SUCCESS;
}

// -------------------------------------------------------------------------------------------------
// Line 26
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_26a_ImportJettyWithoutArguments) {
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  EXPECT_NULL(urma_import_jetty(nullptr, &remote, &token));
  EXPECT_NULL(urma_import_jetty(ctx_, nullptr, &token));
  loop.check();
}

TEST_F(DeviceLines, S1_26b_ImportJettyOfAnImpossibleMode) {
  Loop loop(ctx_);
  const urma_rjetty_t good = loop.remote_jetty();
  urma_rjetty_t remote = good;
  urma_token_t token = {};
  for (const uint32_t mode : {0u, 3u, 0xffu}) {
    remote.trans_mode = static_cast<urma_transport_mode_t>(mode);
    EXPECT_NULL(urma_import_jetty(ctx_, &remote, &token));
  }
  remote = good;
  remote.flag.bs.order_type = URMA_NO;
  EXPECT_NULL(urma_import_jetty(ctx_, &remote, &token));
  remote = good;
  remote.tp_type = URMA_UTP;
  EXPECT_NULL(urma_import_jetty(ctx_, &remote, &token));
  remote = good;
  remote.trans_mode = URMA_TM_UM;
  remote.tp_type = URMA_RTP;
  EXPECT_NULL(urma_import_jetty(ctx_, &remote, &token));
  EXPECT_EQ(remote.flag.bs.order_type, URMA_DEF_ORDER);
  loop.check();
}

TEST_F(DeviceLines, S1_26c_ImportJettyCounts) {
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  const unsigned long before = refs();
  urma_target_jetty_t* target = urma_import_jetty(ctx_, &remote, &token);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_EQ(remote.flag.bs.order_type, URMA_OI);
  EXPECT_EQ(target->id.id, loop.jetty->jetty_id.id);
  EXPECT_EQ(target->type, URMA_JETTY);
  EXPECT_CHANGE(urma_unimport_jetty(target), -1);
  loop.check();
}

TEST_F(ProviderLines, S1_26d_ImportJettyFallsBack) {
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  auto* const import = ctx_->ops->import_jetty;
  ctx_->ops->import_jetty = nullptr;
  module_->channel.tp_handle = 99;
  urma_target_jetty_t* target = urma_import_jetty(ctx_, &remote, &token);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(module_->channel.tp_handle, 0u);
  EXPECT_CHANGE(urma_unimport_jetty(target), -1);
  remote.flag.bs.share_tp = 1;
  EXPECT_NULL(urma_import_jetty(ctx_, &remote, &token));
  remote.flag.bs.share_tp = 0;
  WITHOUT(import_jetty_ex, EXPECT_NULL(urma_import_jetty(ctx_, &remote, &token)));
  ctx_->ops->import_jetty = import;
}

TEST_F(DeviceLines, S1_26e_BindWithoutArguments) {
  NEEDS((caps().trans_mode & URMA_TM_RC) != 0, "mode RC");
  Loop loop(ctx_, URMA_TM_RC);
  urma_bind_jetty_ex_cfg_t cfg = {};
  EXPECT_EINVAL(urma_bind_jetty(nullptr, loop.target));
  EXPECT_EINVAL(urma_bind_jetty(loop.jetty, nullptr));
  EXPECT_EINVAL(urma_bind_jetty_ex(nullptr, loop.target, &cfg));
  EXPECT_EINVAL(urma_bind_jetty_ex(loop.jetty, nullptr, &cfg));
  EXPECT_EINVAL(urma_bind_jetty_ex(loop.jetty, loop.target, nullptr));
  EXPECT_EQ(loop.jetty->remote_jetty, loop.target);
  loop.check();
}

TEST_F(DeviceLines, S1_26f_BindOnceAndAgain) {
  NEEDS((caps().trans_mode & URMA_TM_RC) != 0, "mode RC");
  Loop loop(ctx_, URMA_TM_RC);
  EXPECT_ANSWER(urma_bind_jetty(loop.jetty, loop.target), URMA_SUCCESS);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  urma_target_jetty_t* other = urma_import_jetty(ctx_, &remote, &token);
  ASSERT_NE(other, nullptr);
  EXPECT_ANSWER(urma_bind_jetty(loop.jetty, other), URMA_EEXIST);
  EXPECT_EQ(loop.jetty->remote_jetty, loop.target);
  EXPECT_EQ(urma_unimport_jetty(other), URMA_SUCCESS);
  loop.check();
  EXPECT_EQ(urma_unbind_jetty(loop.jetty), URMA_SUCCESS);
  EXPECT_EQ(loop.jetty->remote_jetty, nullptr);
  EXPECT_EINVAL(urma_unbind_jetty(loop.jetty));
  EXPECT_EQ(urma_bind_jetty(loop.jetty, loop.target), URMA_SUCCESS);
  loop.check();
}

TEST_F(DeviceLines, S1_26g_BindIsForRc) {
  Loop loop(ctx_);
  EXPECT_ANSWER(urma_bind_jetty(loop.jetty, loop.target), URMA_ENOPERM);
  EXPECT_EQ(loop.jetty->remote_jetty, nullptr);
  EXPECT_EINVAL(urma_unbind_jetty(nullptr));
  EXPECT_EINVAL(urma_unbind_jetty(loop.jetty));
  loop.check();
}

TEST_F(ProviderLines, S1_26h_BindFallsBack) {
  Loop loop(ctx_, URMA_TM_RC);
  urma_bind_jetty_ex_cfg_t cfg = {};
  EXPECT_EQ(loop.jetty->remote_jetty, loop.target);
  WITHOUT(unbind_jetty, EXPECT_EINVAL(urma_unbind_jetty(loop.jetty)));
  EXPECT_EQ(urma_unbind_jetty(loop.jetty), URMA_SUCCESS);
  WITHOUT(bind_jetty, EXPECT_ANSWER(urma_bind_jetty(loop.jetty, loop.target), URMA_SUCCESS));
  EXPECT_EQ(loop.jetty->remote_jetty, loop.target);
  EXPECT_EQ(urma_unbind_jetty(loop.jetty), URMA_SUCCESS);
  auto* const bind = ctx_->ops->bind_jetty;
  ctx_->ops->bind_jetty = nullptr;
  WITHOUT(bind_jetty_ex, EXPECT_EINVAL(urma_bind_jetty(loop.jetty, loop.target)));
  ctx_->ops->bind_jetty = bind;
  EXPECT_EINVAL(urma_bind_jetty_ex(loop.jetty, loop.target, nullptr));
  WITHOUT(bind_jetty_ex, EXPECT_EINVAL(urma_bind_jetty_ex(loop.jetty, loop.target, &cfg)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_bind_jetty(loop.jetty, loop.target), URMA_FAIL);
  EXPECT_ANSWER(urma_bind_jetty_ex(loop.jetty, loop.target, &cfg), URMA_FAIL);
  EXPECT_EQ(loop.jetty->remote_jetty, nullptr);
  module_->status = URMA_SUCCESS;
  EXPECT_ANSWER(urma_bind_jetty_ex(loop.jetty, loop.target, &cfg), URMA_SUCCESS);
  EXPECT_EQ(loop.jetty->remote_jetty, loop.target);
}

// -------------------------------------------------------------------------------------------------
// Line 27
// -------------------------------------------------------------------------------------------------

int g_advised;
void on_advised(urma_status_t, void*) { ++g_advised; }

TEST_F(DeviceLines, S1_27a_AdviseWithoutArguments) {
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  int argument = 0;
  EXPECT_EINVAL(urma_advise_jfr(nullptr, with_jfs.target));
  EXPECT_EINVAL(urma_advise_jfr(with_jfs.jfs, nullptr));
  EXPECT_EINVAL(urma_unadvise_jfr(nullptr, with_jfs.target));
  EXPECT_EINVAL(urma_unadvise_jfr(with_jfs.jfs, nullptr));
  EXPECT_EINVAL(urma_advise_jetty(nullptr, with_jetty.target));
  EXPECT_EINVAL(urma_advise_jetty(with_jetty.jetty, nullptr));
  EXPECT_EINVAL(urma_unadvise_jetty(nullptr, with_jetty.target));
  EXPECT_EINVAL(urma_unadvise_jetty(with_jetty.jetty, nullptr));
  EXPECT_EINVAL(urma_advise_jfr_async(nullptr, with_jfs.target, on_advised, &argument));
  EXPECT_EINVAL(urma_advise_jfr_async(with_jfs.jfs, nullptr, on_advised, &argument));
  EXPECT_EINVAL(urma_advise_jfr_async(with_jfs.jfs, with_jfs.target, nullptr, &argument));
  EXPECT_EINVAL(urma_advise_jfr_async(with_jfs.jfs, with_jfs.target, on_advised, nullptr));
  with_jetty.check();
  with_jfs.check();
}

TEST_F(DeviceLines, S1_27b_AdviseOfAUbDeviceSucceeds) {
  NEEDS(device_->type == URMA_TRANSPORT_UB, "type UB");
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  int argument = 0;
  g_advised = 0;
  EXPECT_EQ(urma_advise_jfr(with_jfs.jfs, with_jfs.target), URMA_SUCCESS);
  EXPECT_EQ(urma_advise_jfr_async(with_jfs.jfs, with_jfs.target, on_advised, &argument),
            URMA_SUCCESS);
  EXPECT_EQ(urma_unadvise_jfr(with_jfs.jfs, with_jfs.target), URMA_SUCCESS);
  EXPECT_EQ(urma_advise_jetty(with_jetty.jetty, with_jetty.target), URMA_SUCCESS);
  EXPECT_EQ(urma_unadvise_jetty(with_jetty.jetty, with_jetty.target), URMA_SUCCESS);
  EXPECT_EQ(g_advised, 0);
  with_jetty.check();
  with_jfs.check();
}

TEST_F(ProviderLines, S1_27c_AdviseOfAUbDeviceNeedsNoOperation) {
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  ctx_->ops->advise_jfr = nullptr, ctx_->ops->unadvise_jfr = nullptr;
  ctx_->ops->advise_jetty = nullptr, ctx_->ops->unadvise_jetty = nullptr;
  EXPECT_ANSWER(urma_advise_jfr(with_jfs.jfs, with_jfs.target), URMA_SUCCESS);
  EXPECT_ANSWER(urma_unadvise_jfr(with_jfs.jfs, with_jfs.target), URMA_SUCCESS);
  EXPECT_ANSWER(urma_advise_jetty(with_jetty.jetty, with_jetty.target), URMA_SUCCESS);
  EXPECT_ANSWER(urma_unadvise_jetty(with_jetty.jetty, with_jetty.target), URMA_SUCCESS);
}

TEST_F(ProviderLines, S1_27d_AdviseOfAnotherDeviceAnswersWithTheProvider) {
  reopen(kModuleIb);
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  int argument = 0;
  for (const int status : {URMA_SUCCESS, URMA_EEXIST, URMA_FAIL}) {
    module_->status = status;
    EXPECT_ANSWER(urma_advise_jfr(with_jfs.jfs, with_jfs.target), status);
    EXPECT_ANSWER(urma_unadvise_jfr(with_jfs.jfs, with_jfs.target), status);
    EXPECT_ANSWER(urma_advise_jetty(with_jetty.jetty, with_jetty.target), status);
    EXPECT_ANSWER(urma_unadvise_jetty(with_jetty.jetty, with_jetty.target), status);
    EXPECT_ANSWER(urma_advise_jfr_async(with_jfs.jfs, with_jfs.target, on_advised, &argument),
                  status);
  }
  module_->status = URMA_SUCCESS;
  ctx_->ops->advise_jfr = nullptr, ctx_->ops->unadvise_jfr = nullptr;
  ctx_->ops->advise_jetty = nullptr, ctx_->ops->unadvise_jetty = nullptr;
  ctx_->ops->advise_jfr_async = nullptr;
  EXPECT_EINVAL(urma_advise_jfr(with_jfs.jfs, with_jfs.target));
  EXPECT_EINVAL(urma_unadvise_jfr(with_jfs.jfs, with_jfs.target));
  EXPECT_EINVAL(urma_advise_jetty(with_jetty.jetty, with_jetty.target));
  EXPECT_EINVAL(urma_unadvise_jetty(with_jetty.jetty, with_jetty.target));
  EXPECT_EINVAL(urma_advise_jfr_async(with_jfs.jfs, with_jfs.target, on_advised, &argument));
}

}  // namespace
}  // namespace urma_test
