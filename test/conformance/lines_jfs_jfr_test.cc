// SPDX-License-Identifier: MIT
//
// Lines 13 to 15: creating, modifying and deleting send and receive queues.
#include <array>

#include "test/conformance/lines.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

// -------------------------------------------------------------------------------------------------
// Line 13
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_13a_CreateJfsWithoutArguments) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  EXPECT_NULL(urma_create_jfs(nullptr, &cfg));
  EXPECT_NULL(urma_create_jfs(ctx_, nullptr));
  cfg.jfc = nullptr;
  EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  EXPECT_EQ(cfg.flag.bs.order_type, URMA_DEF_ORDER);
  EXPECT_EQ(urma_delete_jfs(make_jfs(jfc)), URMA_SUCCESS);
}

TEST_F(DeviceLines, S1_13b_CreateJfsOfAnImpossibleModeOrOrder) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  for (const uint32_t mode : {0u, 3u, 8u, 0xffu}) {
    cfg.trans_mode = static_cast<urma_transport_mode_t>(mode);
    EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  }
  cfg.trans_mode = URMA_TM_RM;
  for (const uint32_t order : {URMA_OT, URMA_OL, URMA_NO}) {
    cfg.flag.bs.order_type = order;
    EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  }
  cfg.flag.bs.order_type = 5;
  EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  EXPECT_EQ(cfg.flag.bs.order_type, 5u);
}

TEST_F(DeviceLines, S1_13c_CreateJfsBeyondTheLimits) {
  const OwnedJfc jfc = make_jfc();
  const urma_jfs_cfg_t good = jfs_cfg(jfc);
  urma_jfs_cfg_t cfg = good;
  for (const uint32_t depth : {0u, caps().max_jfs_depth + 1}) {
    cfg.depth = depth;
    EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  }
  cfg = good;
  cfg.max_inline_data = caps().max_jfs_inline_len + 1;
  EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  cfg = good;
  if (caps().max_jfs_sge < UINT8_MAX) {
    cfg.max_sge = static_cast<uint8_t>(caps().max_jfs_sge + 1);
    EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  }
  cfg = good;
  if (caps().max_jfs_rsge < UINT8_MAX) {
    cfg.max_rsge = static_cast<uint8_t>(caps().max_jfs_rsge + 1);
    EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  }
  EXPECT_EQ(cfg.flag.bs.order_type, URMA_DEF_ORDER);
}

TEST_F(DeviceLines, S1_13d_CreateJfsFillsIn) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  const unsigned long before = refs();
  urma_jfs_t* jfs = urma_create_jfs(ctx_, &cfg);
  ASSERT_NE(jfs, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_EQ(cfg.flag.bs.order_type, URMA_OI);
  EXPECT_EQ(jfs->jfs_cfg.flag.bs.order_type, URMA_OI);
  EXPECT_EQ(jfs->urma_ctx, ctx_);
  EXPECT_NE(jfs->jfs_id.id, 0u);
  EXPECT_TRUE(jfs->urma_jfs_opt.is_actived);
  EXPECT_GE(jfs->jfs_cfg.depth, cfg.depth);
  EXPECT_GE(jfs->jfs_cfg.max_sge, cfg.max_sge);
  EXPECT_GE(jfs->jfs_cfg.max_inline_data, cfg.max_inline_data);
  EXPECT_CHANGE(urma_delete_jfs(jfs), -1);
}

TEST_F(ProviderLines, S1_13e_CreateJfsThatTheProviderRefuses) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  WITHOUT(create_jfs, EXPECT_NULL(urma_create_jfs(ctx_, &cfg)));
  module_->fails = true;
  EXPECT_NULL(urma_create_jfs(ctx_, &cfg));
  module_->error = ENOMEM;
  EXPECT_NULL_WITH(urma_create_jfs(ctx_, &cfg), ENOMEM);
}

TEST_F(DeviceLines, S1_13f_CreateJfrWithoutArguments) {
  const OwnedJfc jfc = make_jfc();
  urma_jfr_cfg_t cfg = jfr_cfg(jfc);
  EXPECT_NULL(urma_create_jfr(nullptr, &cfg));
  EXPECT_NULL(urma_create_jfr(ctx_, nullptr));
  cfg.jfc = nullptr;
  EXPECT_NULL(urma_create_jfr(ctx_, &cfg));
  EXPECT_EQ(cfg.flag.bs.order_type, URMA_DEF_ORDER);
}

TEST_F(DeviceLines, S1_13g_CreateJfrBeyondTheLimits) {
  const OwnedJfc jfc = make_jfc();
  const urma_jfr_cfg_t good = jfr_cfg(jfc);
  urma_jfr_cfg_t cfg = good;
  for (const uint32_t mode : {0u, 3u, 8u, 0xffu}) {
    cfg.trans_mode = static_cast<urma_transport_mode_t>(mode);
    EXPECT_NULL(urma_create_jfr(ctx_, &cfg));
  }
  cfg = good;
  for (const uint32_t depth : {0u, caps().max_jfr_depth + 1}) {
    cfg.depth = depth;
    EXPECT_NULL(urma_create_jfr(ctx_, &cfg));
  }
  cfg = good;
  if (caps().max_jfr_sge < UINT8_MAX) {
    cfg.max_sge = static_cast<uint8_t>(caps().max_jfr_sge + 1);
    EXPECT_NULL(urma_create_jfr(ctx_, &cfg));
  }
  EXPECT_EQ(urma_delete_jfr(make_jfr(jfc)), URMA_SUCCESS);
}

TEST_F(DeviceLines, S1_13h_CreateJfrFillsIn) {
  const OwnedJfc jfc = make_jfc();
  urma_jfr_cfg_t cfg = jfr_cfg(jfc);
  const unsigned long before = refs();
  urma_jfr_t* jfr = urma_create_jfr(ctx_, &cfg);
  ASSERT_NE(jfr, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_EQ(cfg.flag.bs.order_type, URMA_OI);
  EXPECT_NE(jfr->jfr_id.id, 0u);
  EXPECT_EQ(jfr->urma_ctx, ctx_);
  EXPECT_TRUE(jfr->urma_jfr_opt.is_actived);
  EXPECT_GE(jfr->jfr_cfg.depth, cfg.depth);
  EXPECT_CHANGE(urma_delete_jfr(jfr), -1);
}

TEST_F(ProviderLines, S1_13i_CreateJfrThatTheProviderRefuses) {
  const OwnedJfc jfc = make_jfc();
  urma_jfr_cfg_t cfg = jfr_cfg(jfc);
  WITHOUT(create_jfr, EXPECT_NULL(urma_create_jfr(ctx_, &cfg)));
  module_->fails = true;
  module_->error = ENOMEM;
  EXPECT_NULL_WITH(urma_create_jfr(ctx_, &cfg), ENOMEM);
}

// -------------------------------------------------------------------------------------------------
// Line 14
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_14a_ModifyWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_jfs_attr_t jfs_attr = {JFS_STATE, URMA_JETTY_STATE_ERROR};
  urma_jfr_attr_t jfr_attr = {JFR_STATE, 0, URMA_JFR_STATE_ERROR};
  EXPECT_EINVAL(urma_modify_jfs(nullptr, &jfs_attr));
  EXPECT_EINVAL(urma_modify_jfs(loop.jfs, nullptr));
  EXPECT_EINVAL(urma_modify_jfr(nullptr, &jfr_attr));
  EXPECT_EINVAL(urma_modify_jfr(loop.jfr, nullptr));
  loop.check();
}

TEST_F(DeviceLines, S1_14b_QueryWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  EXPECT_UNTOUCHED(urma_jfs_cfg_t, send_cfg);
  EXPECT_UNTOUCHED(urma_jfr_cfg_t, receive_cfg);
  EXPECT_UNTOUCHED(urma_jfs_attr_t, jfs_attr);
  EXPECT_UNTOUCHED(urma_jfr_attr_t, jfr_attr);
  EXPECT_EINVAL(urma_query_jfs(nullptr, &send_cfg, &jfs_attr));
  EXPECT_EINVAL(urma_query_jfs(loop.jfs, nullptr, &jfs_attr));
  EXPECT_EINVAL(urma_query_jfs(loop.jfs, &send_cfg, nullptr));
  EXPECT_EINVAL(urma_query_jfr(nullptr, &receive_cfg, &jfr_attr));
  EXPECT_EINVAL(urma_query_jfr(loop.jfr, nullptr, &jfr_attr));
  EXPECT_EINVAL(urma_query_jfr(loop.jfr, &receive_cfg, nullptr));
  loop.check();
}

TEST_F(ProviderLines, S1_14c_ModifyAndQueryAnswerWithTheProvider) {
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_jfs_attr_t jfs_attr = {};
  urma_jfr_attr_t jfr_attr = {};
  urma_jfs_cfg_t send_cfg = {};
  urma_jfr_cfg_t receive_cfg = {};
  for (const int status : {URMA_ENOPERM, URMA_EAGAIN, URMA_FAIL, URMA_SUCCESS}) {
    module_->status = status;
    EXPECT_ANSWER(urma_modify_jfs(loop.jfs, &jfs_attr), status);
    EXPECT_ANSWER(urma_modify_jfr(loop.jfr, &jfr_attr), status);
    EXPECT_ANSWER(urma_query_jfs(loop.jfs, &send_cfg, &jfs_attr), status);
    EXPECT_ANSWER(urma_query_jfr(loop.jfr, &receive_cfg, &jfr_attr), status);
  }
  WITHOUT(modify_jfs, EXPECT_EINVAL(urma_modify_jfs(loop.jfs, &jfs_attr)));
  WITHOUT(modify_jfr, EXPECT_EINVAL(urma_modify_jfr(loop.jfr, &jfr_attr)));
  WITHOUT(query_jfs, EXPECT_EINVAL(urma_query_jfs(loop.jfs, &send_cfg, &jfs_attr)));
  WITHOUT(query_jfr, EXPECT_EINVAL(urma_query_jfr(loop.jfr, &receive_cfg, &jfr_attr)));
}

TEST_F(DeviceLines, S1_14d_QueryTellsConfigurationAndState) {
  NEEDS_OPERATION(query_jfs);
  NEEDS_OPERATION(query_jfr);
  Loop loop(ctx_, URMA_TM_RM, false);
  urma_jfs_cfg_t send_cfg = {};
  urma_jfs_attr_t jfs_attr = {JFS_STATE, URMA_JETTY_STATE_ERROR};
  EXPECT_EQ(urma_query_jfs(loop.jfs, &send_cfg, &jfs_attr), URMA_SUCCESS);
  EXPECT_EQ(jfs_attr.mask, 0u);
  EXPECT_EQ(jfs_attr.state, URMA_JETTY_STATE_READY);
  EXPECT_EQ(send_cfg.depth, loop.jfs->jfs_cfg.depth);
  EXPECT_EQ(send_cfg.jfc, loop.jfc);
  urma_jfr_cfg_t receive_cfg = {};
  urma_jfr_attr_t jfr_attr = {JFR_STATE, 7, URMA_JFR_STATE_ERROR};
  EXPECT_EQ(urma_query_jfr(loop.jfr, &receive_cfg, &jfr_attr), URMA_SUCCESS);
  EXPECT_EQ(jfr_attr.mask, 0u);
  EXPECT_EQ(jfr_attr.state, URMA_JFR_STATE_READY);
  EXPECT_EQ(jfr_attr.rx_threshold, 0u);
  EXPECT_EQ(receive_cfg.depth, loop.jfr->jfr_cfg.depth);
  EXPECT_EQ(receive_cfg.jfc, loop.jfc);
  loop.check();
}

TEST_F(DeviceLines, S1_14h_ModifyAndQueryJettyWithoutArguments) {
  Loop loop(ctx_);
  urma_jetty_attr_t change = {JETTY_STATE, 0, URMA_JETTY_STATE_ERROR};
  EXPECT_EINVAL(urma_modify_jetty(nullptr, &change));
  EXPECT_EINVAL(urma_modify_jetty(loop.jetty, nullptr));
  EXPECT_UNTOUCHED(urma_jetty_cfg_t, cfg);
  EXPECT_UNTOUCHED(urma_jetty_attr_t, attr);
  EXPECT_EINVAL(urma_query_jetty(nullptr, &cfg, &attr));
  EXPECT_EINVAL(urma_query_jetty(loop.jetty, nullptr, &attr));
  EXPECT_EINVAL(urma_query_jetty(loop.jetty, &cfg, nullptr));
  loop.check();
}

TEST_F(DeviceLines, S1_14e_DeleteWithoutQueue) {
  EXPECT_EINVAL(urma_delete_jfs(nullptr));
  EXPECT_EINVAL(urma_delete_jfr(nullptr));
}

TEST_F(DeviceLines, S1_14f_DeleteOfAnInactiveQueue) {
  NEEDS_OPERATION(alloc_jfs);
  NEEDS_OPERATION(alloc_jfr);
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t send_cfg = jfs_cfg(jfc);
  urma_jfr_cfg_t receive_cfg = jfr_cfg(jfc);
  urma_jfs_t* jfs = nullptr;
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &send_cfg, &jfs), URMA_SUCCESS);
  ASSERT_EQ(urma_alloc_jfr(ctx_, &receive_cfg, &jfr), URMA_SUCCESS);
  EXPECT_EINVAL(urma_delete_jfs(jfs));
  EXPECT_EINVAL(urma_delete_jfr(jfr));
  EXPECT_EQ(urma_active_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_active_jfr(jfr), URMA_SUCCESS);
  EXPECT_CHANGE(urma_delete_jfs(jfs), -1);
  EXPECT_CHANGE(urma_delete_jfr(jfr), -1);
}

TEST_F(ProviderLines, S1_14g_DeleteThatTheProviderRefuses) {
  Loop loop(ctx_, URMA_TM_RM, false);
  WITHOUT(delete_jfs, EXPECT_EINVAL(urma_delete_jfs(loop.jfs)));
  WITHOUT(delete_jfr, EXPECT_EINVAL(urma_delete_jfr(loop.jfr)));
  for (const int status : {URMA_FAIL, URMA_EAGAIN}) {
    module_->status = status;
    EXPECT_ANSWER(urma_delete_jfs(loop.jfs), status);
    EXPECT_ANSWER(urma_delete_jfr(loop.jfr), status);
  }
  EXPECT_TRUE(loop.jfs->urma_jfs_opt.is_actived);
  EXPECT_TRUE(loop.jfr->urma_jfr_opt.is_actived);
  module_->status = URMA_SUCCESS;
}

// -------------------------------------------------------------------------------------------------
// Line 15
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_15a_BatchWithoutArguments) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_t* jfs = make_jfs(jfc);
  urma_jfr_t* jfr = make_jfr(jfc);
  EXPECT_UNTOUCHED(urma_jfs_t*, bad_jfs);
  EXPECT_UNTOUCHED(urma_jfr_t*, bad_jfr);
  EXPECT_EINVAL(urma_delete_jfs_batch(nullptr, 1, &bad_jfs));
  EXPECT_EINVAL(urma_delete_jfr_batch(nullptr, 1, &bad_jfr));
  for (const int count : {0, -1}) {
    EXPECT_EINVAL(urma_delete_jfs_batch(&jfs, count, &bad_jfs));
    EXPECT_EINVAL(urma_delete_jfr_batch(&jfr, count, &bad_jfr));
  }
  EXPECT_EINVAL(urma_delete_jfs_batch(&jfs, 1, nullptr));
  EXPECT_EINVAL(urma_delete_jfr_batch(&jfr, 1, nullptr));
  EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
}

TEST_F(DeviceLines, S1_15b_BatchWithAMissingElement) {
  Loop loop(ctx_, URMA_TM_RM, false);
  std::array<urma_jfs_t*, 2> jfss = {loop.jfs, nullptr};
  std::array<urma_jfr_t*, 2> jfrs = {loop.jfr, nullptr};
  urma_jfs_t* bad_jfs = nullptr;
  urma_jfr_t* bad_jfr = nullptr;
  EXPECT_EINVAL(urma_delete_jfs_batch(jfss.data(), 2, &bad_jfs));
  EXPECT_EINVAL(urma_delete_jfr_batch(jfrs.data(), 2, &bad_jfr));
  EXPECT_EQ(bad_jfs, loop.jfs);
  EXPECT_EQ(bad_jfr, loop.jfr);
  loop.check();
}

TEST_F(ProviderLines, S1_15c_BatchThatTheProviderRefuses) {
  const OwnedJfc jfc = make_jfc();
  std::array<urma_jfs_t*, 2> jfss = {make_jfs(jfc), make_jfs(jfc)};
  std::array<urma_jfr_t*, 2> jfrs = {make_jfr(jfc), make_jfr(jfc)};
  urma_jfs_t* bad_jfs = nullptr;
  urma_jfr_t* bad_jfr = nullptr;
  WITHOUT(delete_jfs_batch, EXPECT_EINVAL(urma_delete_jfs_batch(jfss.data(), 2, &bad_jfs)));
  WITHOUT(delete_jfr_batch, EXPECT_EINVAL(urma_delete_jfr_batch(jfrs.data(), 2, &bad_jfr)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_delete_jfs_batch(jfss.data(), 2, &bad_jfs), URMA_FAIL);
  EXPECT_ANSWER(urma_delete_jfr_batch(jfrs.data(), 2, &bad_jfr), URMA_FAIL);
  EXPECT_EQ(bad_jfs, jfss[0]);
  EXPECT_EQ(bad_jfr, jfrs[0]);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_jfs_batch(jfss.data(), 2, &bad_jfs), -2);
  EXPECT_CHANGE(urma_delete_jfr_batch(jfrs.data(), 2, &bad_jfr), -2);
}

TEST_F(DeviceLines, S1_15d_BatchDeletesAll) {
  NEEDS_OPERATION(delete_jfs_batch);
  NEEDS_OPERATION(delete_jfr_batch);
  const OwnedJfc jfc = make_jfc();
  std::array<urma_jfs_t*, 3> jfss;
  std::array<urma_jfr_t*, 3> jfrs;
  for (urma_jfs_t*& jfs : jfss) jfs = make_jfs(jfc);
  for (urma_jfr_t*& jfr : jfrs) jfr = make_jfr(jfc);
  EXPECT_UNTOUCHED(urma_jfs_t*, bad_jfs);
  EXPECT_UNTOUCHED(urma_jfr_t*, bad_jfr);
  EXPECT_CHANGE(urma_delete_jfs_batch(jfss.data(), 3, &bad_jfs), -3);
  EXPECT_CHANGE(urma_delete_jfr_batch(jfrs.data(), 3, &bad_jfr), -3);
}

}  // namespace
}  // namespace urma_test
