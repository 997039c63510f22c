// SPDX-License-Identifier: MIT
//
// The rest of line 22, and line 24: groups of jetties, and the channel number of a jetty.
#include <cstring>
#include <vector>

#include "test/conformance/lines.h"
#include "test/process/configs.h"

namespace urma_test {
namespace {

// Members of a group, and their queues.
struct Members {
  explicit Members(urma_context_t* context) : ctx(context) {
    urma_jfc_cfg_t jfc_cfg = jfc_config(64);
    jfc = urma_create_jfc(ctx, &jfc_cfg);
    EXPECT_NE(jfc, nullptr);
    urma_jfr_cfg_t jfr_cfg = jfr_config(jfc, 16);
    jfr = urma_create_jfr(ctx, &jfr_cfg);
    EXPECT_NE(jfr, nullptr);
  }
  urma_jetty_cfg_t cfg(urma_jetty_grp_t* group) const {
    urma_jetty_cfg_t cfg = {};
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.jfs_cfg.depth = 16;
    cfg.jfs_cfg.trans_mode = URMA_TM_RM;
    cfg.jfs_cfg.max_sge = cfg.jfs_cfg.max_rsge = 1;
    cfg.jfs_cfg.jfc = jfc;
    cfg.shared.jfr = jfr;
    cfg.jetty_grp = group;
    return cfg;
  }
  void add(urma_jetty_grp_t* group) {
    urma_jetty_cfg_t jetty_cfg = cfg(group);
    jetties.push_back(urma_create_jetty(ctx, &jetty_cfg));
    ASSERT_NE(jetties.back(), nullptr);
    EXPECT_EQ(group->jetty_cnt, jetties.size());
  }
  void remove(urma_jetty_grp_t* group) {
    EXPECT_EQ(urma_delete_jetty(jetties.back()), URMA_SUCCESS);
    jetties.pop_back();
    EXPECT_EQ(group->jetty_cnt, jetties.size());
  }
  Members(const Members&) = delete;
  ~Members() {
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  }

  urma_context_t* ctx;
  urma_jfc_t* jfc = nullptr;
  urma_jfr_t* jfr = nullptr;
  std::vector<urma_jetty_t*> jetties;
};

// From empty to full and back.
void fill_group(urma_context_t* ctx, urma_jetty_grp_t* group, uint32_t room) {
  const auto refs = [ctx] { return ctx->ref.atomic_cnt.load(); };
  Members members(ctx);
  EXPECT_EQ(group->jetty_cnt, 0u);
  members.add(group);
  EXPECT_ANSWER(urma_delete_jetty_grp(group), URMA_ENOPERM);
  members.remove(group);
  for (uint32_t i = 0; i < room; ++i) members.add(group);
  urma_jetty_cfg_t cfg = members.cfg(group);
  EXPECT_NULL_WITH(urma_create_jetty(ctx, &cfg), EPERM);
  EXPECT_EQ(group->jetty_cnt, room);
  members.remove(group);
  members.add(group);
  EXPECT_ANSWER(urma_delete_jetty_grp(group), URMA_ENOPERM);
  while (!members.jetties.empty()) members.remove(group);
  EXPECT_CHANGE(urma_delete_jetty_grp(group), -1);
}

TEST_F(ProviderLines, S1_22h_GroupCountsItsMembers) {
  urma_jetty_grp_cfg_t cfg = group_cfg("counting");
  urma_jetty_grp_t* group = urma_create_jetty_grp(ctx_, &cfg);
  ASSERT_NE(group, nullptr);
  fill_group(ctx_, group, kModuleMembers);
}

TEST_F(DeviceLines, S1_22i_GroupCountsItsMembers) {
  NEEDS_OPERATION(create_jetty_grp);
  urma_jetty_grp_cfg_t cfg = group_cfg("counting");
  urma_jetty_grp_t* group = urma_create_jetty_grp(ctx_, &cfg);
  ASSERT_NE(group, nullptr);
  fill_group(ctx_, group, caps().max_jetty_in_jetty_grp);
}

TEST_F(ProviderLines, S1_22j_GroupKeepsWhatTheProviderDoesNotDelete) {
  urma_jetty_grp_cfg_t cfg = group_cfg("keeping");
  urma_jetty_grp_t* group = urma_create_jetty_grp(ctx_, &cfg);
  ASSERT_NE(group, nullptr);
  Members members(ctx_);
  members.add(group);
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_delete_jetty(members.jetties[0]), URMA_EAGAIN);
  EXPECT_EQ(group->jetty_cnt, 1u);
  module_->status = URMA_SUCCESS;
  module_->fails = true;
  urma_jetty_cfg_t jetty_cfg = members.cfg(group);
  EXPECT_NULL(urma_create_jetty(ctx_, &jetty_cfg));
  EXPECT_EQ(group->jetty_cnt, 1u);
  module_->fails = false;
  members.remove(group);
  EXPECT_CHANGE(urma_delete_jetty_grp(group), -1);
}

// -------------------------------------------------------------------------------------------------
// Line 24
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_24a_CreateGroupWithoutArguments) {
  urma_jetty_grp_cfg_t cfg = group_cfg("nobody");
  EXPECT_NULL(urma_create_jetty_grp(nullptr, &cfg));
  EXPECT_NULL(urma_create_jetty_grp(ctx_, nullptr));
  std::memset(cfg.name, 'x', sizeof cfg.name);
  EXPECT_NULL(urma_create_jetty_grp(ctx_, &cfg));
}

TEST_F(ProviderLines, S1_24b_CreateGroupWithoutOperation) {
  urma_jetty_grp_cfg_t cfg = group_cfg("nobody");
  WITHOUT(create_jetty_grp, EXPECT_NULL(urma_create_jetty_grp(ctx_, &cfg)));
  module_->fails = true;
  module_->error = ENOSPC;
  EXPECT_NULL_WITH(urma_create_jetty_grp(ctx_, &cfg), ENOSPC);
}

TEST_F(DeviceLines, S1_24c_DeleteGroupWithoutGroup) {
  EXPECT_EINVAL(urma_delete_jetty_grp(nullptr));
}

TEST_F(ProviderLines, S1_24d_DeleteGroupThatTheProviderRefuses) {
  urma_jetty_grp_cfg_t cfg = group_cfg("staying");
  urma_jetty_grp_t* group = urma_create_jetty_grp(ctx_, &cfg);
  ASSERT_NE(group, nullptr);
  WITHOUT(delete_jetty_grp, EXPECT_EINVAL(urma_delete_jetty_grp(group)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_delete_jetty_grp(group), URMA_FAIL);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_jetty_grp(group), -1);
}

TEST_F(DeviceLines, S1_24e_GetTpn) {
  EXPECT_ANSWER(urma_get_tpn(nullptr), -URMA_EINVAL);
  NEEDS_OPERATION(get_tpn);
  NEEDS((caps().trans_mode & URMA_TM_RC) != 0, "mode RC");
  Loop loop(ctx_, URMA_TM_RC);
  EXPECT_GE(urma_get_tpn(loop.jetty), 0);
  loop.check();
}

TEST_F(ProviderLines, S1_24f_GetTpnAnswersWithTheProvider) {
  Loop loop(ctx_);
  WITHOUT(get_tpn, EXPECT_ANSWER(urma_get_tpn(loop.jetty), -URMA_EINVAL));
  module_->status = 17;
  EXPECT_ANSWER(urma_get_tpn(loop.jetty), 17);
  module_->status = 0;
}

}  // namespace
}  // namespace urma_test
