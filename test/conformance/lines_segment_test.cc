// SPDX-License-Identifier: MIT
//
// Lines 29 and 30: descriptors for importers, token ids and segments.
#include <cstring>
#include <string>
#include <vector>

#include "test/conformance/lines.h"
#include "test/process/configs.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

// -------------------------------------------------------------------------------------------------
// Line 29
// -------------------------------------------------------------------------------------------------

bool is_aggregated(const urma_device_t* device) {
  return std::string(device->name).rfind("bonding_dev", 0) == 0;
}

TEST_F(DeviceLines, S1_29a_DescriptorsWithoutArguments) {
  Loop loop(ctx_);
  EXPECT_UNTOUCHED(urma_rjetty_t*, rjetty);
  EXPECT_UNTOUCHED(urma_seg_t*, seg);
  EXPECT_UNTOUCHED(uint32_t, length);
  EXPECT_EINVAL(urma_get_rjetty(nullptr, &rjetty, &length));
  EXPECT_EINVAL(urma_get_rjetty(loop.jetty, nullptr, &length));
  EXPECT_EINVAL(urma_get_rjetty(loop.jetty, &rjetty, nullptr));
  EXPECT_EINVAL(urma_get_seg_ctx(nullptr, &seg, &length));
  EXPECT_EINVAL(urma_get_seg_ctx(loop.segment, nullptr, &length));
  EXPECT_EINVAL(urma_get_seg_ctx(loop.segment, &seg, nullptr));
  urma_put_rjetty(nullptr);
  urma_put_seg_ctx(nullptr);
  loop.check();
}

// A plain device adds nothing; an aggregated one may.
void expect_length(const urma_device_t* device, uint32_t length, size_t plain) {
  if (is_aggregated(device)) {
    EXPECT_GE(length, plain);
  } else {
    EXPECT_EQ(length, plain);
  }
}

TEST_F(DeviceLines, S1_29b_DescriptorsServeAnImport) {
  static_assert(sizeof(urma_rjetty_t) == 48 && sizeof(urma_seg_t) == 48);
  Loop loop(ctx_);
  urma_rjetty_t* rjetty = nullptr;
  uint32_t length = 0;
  EXPECT_EQ(urma_get_rjetty(loop.jetty, &rjetty, &length), URMA_SUCCESS);
  expect_length(device_, length, sizeof(urma_rjetty_t));
  ASSERT_NE(rjetty, nullptr);
  EXPECT_EQ(rjetty->jetty_id.id, loop.jetty->jetty_id.id);
  EXPECT_EQ(rjetty->trans_mode, URMA_TM_RM);
  EXPECT_EQ(rjetty->type, URMA_JETTY);
  urma_seg_t* seg = nullptr;
  length = 0;
  EXPECT_EQ(urma_get_seg_ctx(loop.segment, &seg, &length), URMA_SUCCESS);
  expect_length(device_, length, sizeof(urma_seg_t));
  ASSERT_NE(seg, nullptr);
  EXPECT_EQ(std::memcmp(seg, &loop.segment->seg, sizeof *seg), 0);
  urma_token_t token = {};
  urma_target_jetty_t* target = urma_import_jetty(ctx_, rjetty, &token);
  urma_target_seg_t* imported = urma_import_seg(ctx_, seg, &token, 0, {});
  ASSERT_NE(target, nullptr);
  ASSERT_NE(imported, nullptr);
  EXPECT_EQ(urma_unimport_seg(imported), URMA_SUCCESS);
  EXPECT_EQ(urma_unimport_jetty(target), URMA_SUCCESS);
  urma_put_rjetty(rjetty);
  urma_put_seg_ctx(seg);
}

TEST_F(ProviderLines, S1_29c_DescriptorsThatTheProviderRefuses) {
  reopen(kModuleBonding);
  Loop loop(ctx_);
  module_->answered = 100;
  for (const int status : {EIO, EPERM}) {
    module_->status = status;
    urma_rjetty_t* rjetty = nullptr;
    urma_seg_t* seg = nullptr;
    EXPECT_UNTOUCHED(uint32_t, length);
    EXPECT_ANSWER(urma_get_rjetty(loop.jetty, &rjetty, &length), URMA_FAIL);
    EXPECT_EQ(module_->command.opcode, 9u);
    EXPECT_ANSWER(urma_get_seg_ctx(loop.segment, &seg, &length), URMA_FAIL);
    EXPECT_EQ(module_->command.opcode, 10u);
    EXPECT_EQ(rjetty, nullptr);
    EXPECT_EQ(seg, nullptr);
  }
  module_->status = 0;
}

TEST_F(ProviderLines, S1_29d_DescriptorsOfAnAggregatedDevice) {
  reopen(kModuleBonding);
  Loop loop(ctx_);
  module_->answered = 100;
  urma_rjetty_t* rjetty = nullptr;
  urma_seg_t* seg = nullptr;
  uint32_t rjetty_length = 0, seg_length = 0;
  EXPECT_ANSWER(urma_get_rjetty(loop.jetty, &rjetty, &rjetty_length), URMA_SUCCESS);
  EXPECT_ANSWER(urma_get_seg_ctx(loop.segment, &seg, &seg_length), URMA_SUCCESS);
  EXPECT_NE(rjetty, nullptr);
  EXPECT_NE(seg, nullptr);
  EXPECT_EQ(rjetty_length, 100u);
  EXPECT_EQ(seg_length, 100u);
  urma_put_rjetty(rjetty);
  urma_put_seg_ctx(seg);
}

// -------------------------------------------------------------------------------------------------
// Line 30
// -------------------------------------------------------------------------------------------------

class Memory {
 public:
  urma_seg_cfg_t cfg() {
    urma_seg_cfg_t cfg = seg_config(bytes_.data(), bytes_.size(), kAllAccess);
    return cfg;
  }
  urma_seg_cfg_t cfg(urma_token_id_t* token_id) {
    urma_seg_cfg_t with = cfg();
    with.flag.bs.token_id_valid = URMA_TOKEN_ID_VALID;
    with.token_id = token_id;
    return with;
  }

 private:
  std::vector<char> bytes_ = std::vector<char>(4096);
};

TEST_F(DeviceLines, S1_30a_AllocTokenIdWithoutContext) {
  EXPECT_NULL(urma_alloc_token_id(nullptr));
  EXPECT_NULL(urma_alloc_token_id_ex(nullptr, {}));
}

TEST_F(ProviderLines, S1_30b_AllocTokenIdThatTheProviderRefuses) {
  WITHOUT(alloc_token_id, EXPECT_NULL(urma_alloc_token_id(ctx_)));
  WITHOUT(alloc_token_id_ex, EXPECT_NULL(urma_alloc_token_id_ex(ctx_, {})));
  module_->fails = true;
  module_->error = ENOSPC;
  EXPECT_NULL_WITH(urma_alloc_token_id(ctx_), ENOSPC);
  EXPECT_NULL_WITH(urma_alloc_token_id_ex(ctx_, {}), ENOSPC);
}

TEST_F(ProviderLines, S1_30c_AllocTokenIdForManySegmentsNeedsTheFeature) {
  urma_token_id_flag_t flag = {};
  flag.bs.multi_seg = 1;
  const int calls = module_->calls;
  EXPECT_NULL(urma_alloc_token_id_ex(ctx_, flag));
  EXPECT_EQ(module_->calls, calls);
  flag.bs.multi_seg = 0;
  urma_token_id_t* token_id = urma_alloc_token_id_ex(ctx_, flag);
  ASSERT_NE(token_id, nullptr);
  EXPECT_CHANGE(urma_free_token_id(token_id), -1);
}

TEST_F(DeviceLines, S1_30d_AllocTokenIdForManySegments) {
  urma_token_id_flag_t flag = {};
  flag.bs.multi_seg = 1;
  if (caps().feature.bs.muti_seg_per_token_id == 0) {
    EXPECT_NULL(urma_alloc_token_id_ex(ctx_, flag));
    return;
  }
  Memory first, second;
  urma_token_id_t* token_id = urma_alloc_token_id_ex(ctx_, flag);
  ASSERT_NE(token_id, nullptr);
  urma_seg_cfg_t first_cfg = first.cfg(token_id), second_cfg = second.cfg(token_id);
  urma_target_seg_t* one = urma_register_seg(ctx_, &first_cfg);
  urma_target_seg_t* two = urma_register_seg(ctx_, &second_cfg);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(one->seg.token_id, two->seg.token_id);
  EXPECT_CHANGE(urma_unregister_seg(one), -1);
  EXPECT_CHANGE(urma_unregister_seg(two), -1);
  EXPECT_CHANGE(urma_free_token_id(token_id), -1);
}

TEST_F(DeviceLines, S1_30e_FreeTokenIdWithoutTokenId) {
  EXPECT_EINVAL(urma_free_token_id(nullptr));
}

TEST_F(DeviceLines, S1_30f_FreeTokenIdThatIsUsed) {
  Memory memory;
  const unsigned long before = refs();
  urma_token_id_t* token_id = urma_alloc_token_id(ctx_);
  ASSERT_NE(token_id, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_EQ(token_id->ref.atomic_cnt.load(), 0u);
  urma_seg_cfg_t cfg = memory.cfg(token_id);
  urma_target_seg_t* segment = urma_register_seg(ctx_, &cfg);
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(refs(), before + 2);
  EXPECT_EQ(token_id->ref.atomic_cnt.load(), 1u);
  EXPECT_EQ(segment->token_id, token_id);
  EXPECT_EQ(segment->seg.attr.bs.user_token_id, 1u);
  EXPECT_EINVAL(urma_free_token_id(token_id));
  EXPECT_CHANGE(urma_unregister_seg(segment), -1);
  EXPECT_EQ(token_id->ref.atomic_cnt.load(), 0u);
  EXPECT_CHANGE(urma_free_token_id(token_id), -1);
}

TEST_F(ProviderLines, S1_30g_FreeTokenIdThatTheProviderRefuses) {
  urma_token_id_t* token_id = urma_alloc_token_id(ctx_);
  WITHOUT(free_token_id, EXPECT_EINVAL(urma_free_token_id(token_id)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_free_token_id(token_id), URMA_FAIL);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_free_token_id(token_id), -1);
}

TEST_F(DeviceLines, S1_30h_ImportSegWithoutArguments) {
  Loop loop(ctx_);
  urma_seg_t seg = loop.segment->seg;
  urma_token_t token = {};
  EXPECT_NULL(urma_import_seg(nullptr, &seg, &token, 0, {}));
  EXPECT_NULL(urma_import_seg(ctx_, nullptr, &token, 0, {}));
  seg.attr.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  EXPECT_NULL(urma_import_seg(ctx_, &seg, nullptr, 0, {}));
  seg.attr.bs.token_policy = URMA_TOKEN_NONE;
  const unsigned long before = refs();
  urma_target_seg_t* imported = urma_import_seg(ctx_, &seg, nullptr, 0, {});
  ASSERT_NE(imported, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_EQ(imported->token_id, nullptr);
  EXPECT_EQ(imported->urma_ctx, ctx_);
  EXPECT_EQ(imported->seg.len, seg.len);
  EXPECT_CHANGE(urma_unimport_seg(imported), -1);
  loop.check();
}

TEST_F(ProviderLines, S1_30i_ImportSegThatTheProviderRefuses) {
  Loop loop(ctx_);
  urma_seg_t seg = loop.segment->seg;
  WITHOUT(import_seg, EXPECT_NULL(urma_import_seg(ctx_, &seg, nullptr, 0, {})));
  module_->fails = true;
  module_->error = EEXIST;
  EXPECT_NULL_WITH(urma_import_seg(ctx_, &seg, nullptr, 0, {}), EEXIST);
  module_->fails = false;
  WITHOUT(unimport_seg, EXPECT_EINVAL(urma_unimport_seg(loop.imported)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_unimport_seg(loop.imported), URMA_FAIL);
  module_->status = URMA_SUCCESS;
}

TEST_F(DeviceLines, S1_30j_RegisterSegWithoutArguments) {
  Memory memory;
  urma_seg_cfg_t cfg = memory.cfg();
  EXPECT_NULL(urma_register_seg(nullptr, &cfg));
  EXPECT_NULL(urma_register_seg(ctx_, nullptr));
  cfg.va = 0;
  EXPECT_NULL(urma_register_seg(ctx_, &cfg));
}

TEST_F(DeviceLines, S1_30k_RegisterSegWithImpossibleRights) {
  Memory memory;
  urma_seg_cfg_t cfg = memory.cfg();
  for (const uint32_t access :
       {16u, 2u | 32u, 1u | 2u, 1u | 4u, 1u | 8u, 4u, 8u, 2u | 8u, 4u | 8u}) {
    cfg.flag.bs.access = access;
    EXPECT_NULL(urma_register_seg(ctx_, &cfg));
  }
  for (const uint32_t access : {1u, 2u, 2u | 4u, 2u | 4u | 8u}) {
    cfg.flag.bs.access = access;
    urma_target_seg_t* segment = urma_register_seg(ctx_, &cfg);
    ASSERT_NE(segment, nullptr) << access;
    EXPECT_EQ(segment->seg.attr.bs.access, access);
    EXPECT_CHANGE(urma_unregister_seg(segment), -1);
  }
}

TEST_F(DeviceLines, S1_30l_RegisterSegWithHalfATokenId) {
  NEEDS(device_->type == URMA_TRANSPORT_UB, "type UB");
  Memory memory;
  const OwnedTokenId token_id = urma_alloc_token_id(ctx_);
  urma_seg_cfg_t cfg = memory.cfg(token_id);
  cfg.token_id = nullptr;
  EXPECT_NULL(urma_register_seg(ctx_, &cfg));
  cfg = memory.cfg();
  cfg.token_id = token_id;
  EXPECT_NULL(urma_register_seg(ctx_, &cfg));
  EXPECT_EQ(token_id->ref.atomic_cnt.load(), 0u);
}

TEST_F(ProviderLines, S1_30m_RegisterSegThatTheProviderRefuses) {
  Memory memory;
  urma_token_id_t* token_id = urma_alloc_token_id(ctx_);
  urma_seg_cfg_t cfg = memory.cfg(token_id);
  WITHOUT(register_seg, EXPECT_NULL(urma_register_seg(ctx_, &cfg)));
  module_->fails = true;
  module_->error = ENOMEM;
  EXPECT_NULL_WITH(urma_register_seg(ctx_, &cfg), ENOMEM);
  EXPECT_EQ(token_id->ref.atomic_cnt.load(), 0u);
  module_->fails = false;
  urma_target_seg_t* segment = urma_register_seg(ctx_, &cfg);
  ASSERT_NE(segment, nullptr);
  WITHOUT(unregister_seg, EXPECT_EINVAL(urma_unregister_seg(segment)));
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_unregister_seg(segment), URMA_FAIL);
  EXPECT_EQ(token_id->ref.atomic_cnt.load(), 1u);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_unregister_seg(segment), -1);
  EXPECT_CHANGE(urma_free_token_id(token_id), -1);
}

TEST_F(DeviceLines, S1_30n_UnregisterWithoutSegment) {
  EXPECT_EINVAL(urma_unregister_seg(nullptr));
  EXPECT_EINVAL(urma_unimport_seg(nullptr));
}

}  // namespace
}  // namespace urma_test
