// SPDX-License-Identifier: MIT
//
// Lines 10 to 12: completion queues and their event channels.
#include <array>

#include "test/conformance/lines.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

unsigned long refs_of(const urma_jfce_t* jfce) { return jfce->ref.atomic_cnt.load(); }

// -------------------------------------------------------------------------------------------------
// Line 10
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_10a_CreateJfcWithoutArguments) {
  urma_jfc_cfg_t cfg = jfc_cfg();
  EXPECT_NULL(urma_create_jfc(nullptr, &cfg));
  EXPECT_NULL(urma_create_jfc(ctx_, nullptr));
  EXPECT_NULL(urma_create_jfc(nullptr, nullptr));
  EXPECT_EQ(urma_delete_jfc(make_jfc()), URMA_SUCCESS);
}

TEST_F(DeviceLines, S1_10b_CreateJfcOfAnImpossibleDepth) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  for (const uint32_t depth : {0u, caps().max_jfc_depth + 1, UINT32_MAX}) {
    cfg.depth = depth;
    EXPECT_NULL(urma_create_jfc(ctx_, &cfg));
    EXPECT_EQ(refs_of(jfce), 1u);
    EXPECT_EQ(cfg.depth, depth);
  }
  cfg.depth = caps().max_jfc_depth;
  const OwnedJfc jfc = urma_create_jfc(ctx_, &cfg);
}

TEST_F(ProviderLines, S1_10c_CreateJfcWithoutOperation) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  WITHOUT(create_jfc, EXPECT_NULL(urma_create_jfc(ctx_, &cfg)));
  EXPECT_EQ(refs_of(jfce), 1u);
}

TEST_F(ProviderLines, S1_10d_CreateJfcThatTheProviderRefuses) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  module_->fails = true;
  EXPECT_NULL_WITH(urma_create_jfc(ctx_, &cfg), EINVAL);
  module_->error = ENOSPC;
  EXPECT_NULL_WITH(urma_create_jfc(ctx_, &cfg), ENOSPC);
  EXPECT_EQ(refs_of(jfce), 1u);
}

TEST_F(DeviceLines, S1_10e_CreateJfcCounts) {
  urma_jfce_t* jfce = urma_create_jfce(ctx_);
  ASSERT_NE(jfce, nullptr);
  EXPECT_EQ(refs(), 2u);
  EXPECT_EQ(refs_of(jfce), 1u);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  urma_jfc_t* jfc = urma_create_jfc(ctx_, &cfg);
  ASSERT_NE(jfc, nullptr);
  EXPECT_TRUE(jfc->urma_jfc_opt.is_actived);
  EXPECT_EQ(jfc->urma_ctx, ctx_);
  EXPECT_GE(jfc->jfc_cfg.depth, cfg.depth);
  EXPECT_EQ(jfc->jfc_cfg.jfce, jfce);
  EXPECT_EQ(jfc->jfc_cfg.user_ctx, cfg.user_ctx);
  EXPECT_NE(jfc->jfc_id.id, 0u);
  EXPECT_EQ(jfc->comp_events_acked, 0u);
  EXPECT_EQ(jfc->async_events_acked, 0u);
  EXPECT_EQ(refs(), 3u);
  EXPECT_EQ(refs_of(jfce), 2u);
  EXPECT_CHANGE(urma_delete_jfc(jfc), -1);
  EXPECT_EQ(refs_of(jfce), 1u);
  EXPECT_CHANGE(urma_delete_jfce(jfce), -1);
}

TEST_F(DeviceLines, S1_10f_ModifyJfcWithoutArguments) {
  Loop loop(ctx_);
  urma_jfc_attr_t attr = {JFC_MODERATE_COUNT, 1, 0};
  EXPECT_EINVAL(urma_modify_jfc(nullptr, &attr));
  EXPECT_EINVAL(urma_modify_jfc(loop.jfc, nullptr));
  EXPECT_EINVAL(urma_modify_jfc(nullptr, nullptr));
  loop.check();
}

TEST_F(ProviderLines, S1_10g_ModifyJfcAnswersWithTheProvider) {
  const OwnedJfc jfc = make_jfc();
  urma_jfc_attr_t attr = {JFC_MODERATE_COUNT, 1, 0};
  WITHOUT(modify_jfc, EXPECT_EINVAL(urma_modify_jfc(jfc, &attr)));
  for (const int status : {URMA_FAIL, URMA_ENOPERM, URMA_SUCCESS}) {
    module_->status = status;
    EXPECT_ANSWER(urma_modify_jfc(jfc, &attr), status);
  }
}

TEST_F(DeviceLines, S1_10h_DeleteJfcWithoutJfc) { EXPECT_EINVAL(urma_delete_jfc(nullptr)); }

TEST_F(DeviceLines, S1_10i_DeleteJfcThatIsInactive) {
  NEEDS_OPERATION(alloc_jfc);
  urma_jfc_cfg_t cfg = jfc_cfg();
  urma_jfc_t* jfc = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &cfg, &jfc), URMA_SUCCESS);
  EXPECT_EINVAL(urma_delete_jfc(jfc));
  EXPECT_EQ(urma_active_jfc(jfc), URMA_SUCCESS);
  EXPECT_TRUE(has_nothing(jfc));
  EXPECT_CHANGE(urma_delete_jfc(jfc), -1);
}

TEST_F(ProviderLines, S1_10j_DeleteJfcThatTheProviderRefuses) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  urma_jfc_t* jfc = urma_create_jfc(ctx_, &cfg);
  WITHOUT(delete_jfc, EXPECT_EINVAL(urma_delete_jfc(jfc)));
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_delete_jfc(jfc), URMA_EAGAIN);
  EXPECT_EQ(refs_of(jfce), 2u);
  EXPECT_TRUE(jfc->urma_jfc_opt.is_actived);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_jfc(jfc), -1);
  EXPECT_EQ(refs_of(jfce), 1u);
}

TEST_F(DeviceLines, S1_10k_DeleteJfcThatIsUsed) {
  Loop loop(ctx_);
  const unsigned long before = refs();
  EXPECT_EQ(urma_delete_jfc(loop.jfc), URMA_EAGAIN);
  EXPECT_EQ(refs(), before);
  loop.check();
}

// -------------------------------------------------------------------------------------------------
// Line 11
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_11a_DeleteJfcBatchWithoutArguments) {
  urma_jfc_t* jfc = make_jfc();
  EXPECT_UNTOUCHED(urma_jfc_t*, bad);
  EXPECT_EINVAL(urma_delete_jfc_batch(nullptr, 1, &bad));
  EXPECT_EINVAL(urma_delete_jfc_batch(&jfc, 0, &bad));
  EXPECT_EINVAL(urma_delete_jfc_batch(&jfc, -1, &bad));
  EXPECT_EINVAL(urma_delete_jfc_batch(&jfc, 1, nullptr));
  EXPECT_TRUE(has_nothing(jfc));
  EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
}

TEST_F(DeviceLines, S1_11b_DeleteJfcBatchWithABrokenElement) {
  std::array<urma_jfc_t*, 3> jfcs = {make_jfc(), nullptr, make_jfc()};
  urma_jfc_t* bad = nullptr;
  EXPECT_EINVAL(urma_delete_jfc_batch(jfcs.data(), 3, &bad));
  EXPECT_EQ(bad, jfcs[0]);
  urma_jfc_t broken = {};
  jfcs[1] = &broken;
  bad = nullptr;
  EXPECT_EINVAL(urma_delete_jfc_batch(jfcs.data(), 3, &bad));
  EXPECT_EQ(bad, jfcs[0]);
  for (urma_jfc_t* jfc : {jfcs[0], jfcs[2]}) {
    EXPECT_TRUE(has_nothing(jfc));
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  }
  jfcs = {};
  bad = &broken;
  EXPECT_EINVAL(urma_delete_jfc_batch(jfcs.data(), 3, &bad));
  EXPECT_EQ(bad, nullptr);
}

TEST_F(ProviderLines, S1_11c_DeleteJfcBatchThatTheProviderRefuses) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  std::array<urma_jfc_t*, 3> jfcs;
  for (urma_jfc_t*& jfc : jfcs) jfc = urma_create_jfc(ctx_, &cfg);
  urma_jfc_t* bad = nullptr;
  WITHOUT(delete_jfc_batch, EXPECT_EINVAL(urma_delete_jfc_batch(jfcs.data(), 3, &bad)));
  EXPECT_EQ(bad, jfcs[0]);
  module_->status = URMA_EAGAIN;
  module_->survivor = 0;
  EXPECT_ANSWER(urma_delete_jfc_batch(jfcs.data(), 3, &bad), URMA_EAGAIN);
  EXPECT_EQ(bad, jfcs[0]);
  EXPECT_EQ(refs_of(jfce), 4u);
  // The first one is gone then, and no longer counts.
  module_->survivor = 1;
  EXPECT_EQ(urma_delete_jfc_batch(jfcs.data(), 3, &bad), URMA_EAGAIN);
  EXPECT_EQ(bad, jfcs[1]);
  EXPECT_EQ(refs_of(jfce), 3u);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_jfc_batch(&jfcs[1], 2, &bad), -2);
  EXPECT_EQ(refs_of(jfce), 1u);
}

TEST_F(DeviceLines, S1_11d_DeleteJfcBatchDeletesAll) {
  NEEDS_OPERATION(delete_jfc_batch);
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  std::array<urma_jfc_t*, 3> jfcs;
  for (urma_jfc_t*& jfc : jfcs) jfc = urma_create_jfc(ctx_, &cfg);
  EXPECT_UNTOUCHED(urma_jfc_t*, bad);
  EXPECT_CHANGE(urma_delete_jfc_batch(jfcs.data(), 3, &bad), -3);
  EXPECT_EQ(refs_of(jfce), 1u);
}

TEST_F(DeviceLines, S1_11e_DeleteJfcBatchStopsAtOneThatIsUsed) {
  NEEDS_OPERATION(delete_jfc_batch);
  Loop loop(ctx_);
  urma_jfc_t* last = make_jfc();
  std::array<urma_jfc_t*, 3> jfcs = {make_jfc(), loop.jfc, last};
  const unsigned long before = refs();
  urma_jfc_t* bad = nullptr;
  EXPECT_EQ(urma_delete_jfc_batch(jfcs.data(), 3, &bad), URMA_EAGAIN);
  EXPECT_EQ(bad, loop.jfc);
  EXPECT_EQ(refs(), before - 1);
  EXPECT_TRUE(has_nothing(last));
  EXPECT_EQ(urma_delete_jfc(last), URMA_SUCCESS);
  loop.check();
}

// -------------------------------------------------------------------------------------------------
// Line 12
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_12a_CreateJfceWithoutContext) { EXPECT_NULL(urma_create_jfce(nullptr)); }

TEST_F(ProviderLines, S1_12b_CreateJfceWithoutOperation) {
  WITHOUT(create_jfce, EXPECT_NULL(urma_create_jfce(ctx_)));
  module_->fails = true;
  module_->error = EMFILE;
  EXPECT_NULL_WITH(urma_create_jfce(ctx_), EMFILE);
}

TEST_F(DeviceLines, S1_12c_DeleteJfceWithoutJfce) { EXPECT_EINVAL(urma_delete_jfce(nullptr)); }

TEST_F(DeviceLines, S1_12d_DeleteJfceThatIsUsed) {
  urma_jfce_t* jfce = urma_create_jfce(ctx_);
  ASSERT_NE(jfce, nullptr);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  urma_jfc_t* jfc = urma_create_jfc(ctx_, &cfg);
  ASSERT_NE(jfc, nullptr);
  EXPECT_ANSWER(urma_delete_jfce(jfce), URMA_FAIL);
  EXPECT_EQ(refs_of(jfce), 2u);
  EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
  urma_jfc_t* ready = nullptr;
  EXPECT_EQ(urma_wait_jfc(jfce, 1, 0, &ready), 0);
  EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  EXPECT_CHANGE(urma_delete_jfce(jfce), -1);
}

TEST_F(ProviderLines, S1_12e_DeleteJfceThatTheProviderRefuses) {
  urma_jfce_t* jfce = urma_create_jfce(ctx_);
  WITHOUT(delete_jfce, EXPECT_EINVAL(urma_delete_jfce(jfce)));
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_delete_jfce(jfce), URMA_EAGAIN);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_jfce(jfce), -1);
}

}  // namespace
}  // namespace urma_test
