// SPDX-License-Identifier: MIT
#include "test/unit/core_fake.h"
#include "urma/core/process/detours.h"

namespace core_fake {
namespace {

TEST_F(CoreApi, GateRefusesIncompleteObjects) {
  EXPECT_NULL(urma_create_jfc(nullptr, &jfc_cfg_), EINVAL);
  EXPECT_NULL(urma_create_jfc(&ctx_, nullptr), EINVAL);
  ops_.create_jfc = nullptr;
  EXPECT_NULL(urma_create_jfc(&ctx_, &jfc_cfg_), EINVAL);
  ctx_.ops = nullptr;
  EXPECT_NULL(urma_create_jfce(&ctx_), EINVAL);
  ctx_.ops = &ops_;
  urma_device_t stranger = *device_;
  stranger.sysfs_dev = nullptr;
  ctx_.dev = &stranger;
  EXPECT_NULL(urma_create_jfce(&ctx_), EINVAL);
  ctx_.dev = nullptr;
  EXPECT_STATUS(urma_delete_context(&ctx_), URMA_EINVAL);
  EXPECT_EQ(g_provider.calls, 0);
}

TEST_F(CoreApi, ForkedChildIsRefused) {
  make_queues();
  urma_cr_t cr;
  urma_jfr_wr_t wr = {}, *bad;
  urma::core::begin_detour(urma::core::kForked);
  const int calls = g_provider.calls;
  EXPECT_NULL(urma_create_jfce(&ctx_), EINVAL);
  EXPECT_STATUS(urma_delete_jfc(jfc_), URMA_EINVAL);
  EXPECT_STATUS(urma_post_jfr_wr(jfr_, &wr, &bad), URMA_EINVAL);
  EXPECT_EQ(urma_poll_jfc(jfc_, 1, &cr), -1);
  EXPECT_STATUS(urma_delete_context(&ctx_), URMA_EINVAL);
  urma::core::end_detour(urma::core::kForked);
  EXPECT_EQ(g_provider.calls, calls);
  end_queues();
}

TEST_F(CoreApi, NullKeepsTheErrnoOfTheProvider) {
  g_provider.fails = true;
  EXPECT_NULL(urma_create_jfc(&ctx_, &jfc_cfg_), EINVAL);
  g_provider.error = EEXIST;
  EXPECT_NULL(urma_create_jfc(&ctx_, &jfc_cfg_), EEXIST);
  g_provider.fails = false;
  errno = EPROTO;
  urma_jfce_t* jfce = urma_create_jfce(&ctx_);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_STATUS(urma_delete_jfce(jfce), URMA_SUCCESS);
}

TEST_F(CoreApi, ExceptionsDoNotLeaveTheLibrary) {
  ops_.create_jfc = [](urma_context_t*, urma_jfc_cfg_t*) -> urma_jfc_t* { throw std::bad_alloc(); };
  urma_jfce_t* jfce = urma_create_jfce(&ctx_);
  jfc_cfg_.jfce = jfce;
  EXPECT_NULL(urma_create_jfc(&ctx_, &jfc_cfg_), ENOMEM);
  EXPECT_EQ(jfce->ref.atomic_cnt, 1u);
  EXPECT_STATUS(urma_delete_jfce(jfce), URMA_SUCCESS);
}

TEST_F(CoreApi, DepthIsCheckedAgainstTheDevice) {
  jfc_cfg_.depth = 0;
  EXPECT_NULL(urma_create_jfc(&ctx_, &jfc_cfg_), EINVAL);
  jfc_cfg_.depth = kDepth + 1;
  EXPECT_NULL(urma_create_jfc(&ctx_, &jfc_cfg_), EINVAL);
  EXPECT_EQ(g_provider.calls, 0);
}

TEST_F(CoreApi, OrderTypesMatchModes) {
  make_queues();
  struct {
    uint32_t mode, order, result;  // result 5: refused
  } cases[] = {{1, 0, 2}, {1, 1, 5}, {1, 2, 2}, {1, 3, 5}, {1, 4, 5},   {2, 0, 3}, {2, 1, 1},
               {2, 2, 5}, {2, 3, 3}, {2, 4, 4}, {4, 0, 4}, {4, 1, 5},   {4, 2, 5}, {4, 3, 5},
               {4, 4, 4}, {4, 9, 5}, {3, 0, 5}, {0, 0, 5}, {0xff, 0, 5}};
  for (const auto& c : cases) {
    urma_jfs_cfg_t cfg = jfs_cfg_;
    std::memcpy(&cfg.trans_mode, &c.mode, sizeof c.mode);
    cfg.flag.bs.order_type = c.order;
    urma_jfs_t* jfs = urma_create_jfs(&ctx_, &cfg);
    EXPECT_EQ(jfs == nullptr, c.result == 5) << c.mode << " " << c.order;
    EXPECT_EQ(cfg.flag.bs.order_type, c.result == 5 ? c.order : c.result);
    if (jfs != nullptr) {
      EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
    }
  }
  end_queues();
}

TEST_F(CoreApi, SendAndReceiveQueuesCheckTheirLimits) {
  EXPECT_NULL(urma_create_jfs(&ctx_, &jfs_cfg_), EINVAL);  // no JFC
  EXPECT_NULL(urma_create_jfr(&ctx_, &jfr_cfg_), EINVAL);
  make_queues();
  const int calls = g_provider.calls;
  for (auto change : {+[](urma_jfs_cfg_t& cfg) { cfg.depth = kDepth + 1; },
                      +[](urma_jfs_cfg_t& cfg) { cfg.depth = 0; },
                      +[](urma_jfs_cfg_t& cfg) { cfg.max_inline_data = 33; },
                      +[](urma_jfs_cfg_t& cfg) { cfg.max_sge = 5; },
                      +[](urma_jfs_cfg_t& cfg) { cfg.max_rsge = 5; }}) {
    urma_jfs_cfg_t cfg = jfs_cfg_;
    change(cfg);
    EXPECT_NULL(urma_create_jfs(&ctx_, &cfg), EINVAL);
  }
  for (auto change : {+[](urma_jfr_cfg_t& cfg) { cfg.depth = kDepth + 1; },
                      +[](urma_jfr_cfg_t& cfg) { cfg.max_sge = 5; }}) {
    urma_jfr_cfg_t cfg = jfr_cfg_;
    change(cfg);
    EXPECT_NULL(urma_create_jfr(&ctx_, &cfg), EINVAL);
  }
  EXPECT_EQ(g_provider.calls, calls);
  end_queues();
}

TEST_F(CoreApi, BatchDropsTheReferencesOfDeletedElements) {
  make_queues();
  urma_jfs_t* jfs[3];
  for (auto& one : jfs) one = urma_create_jfs(&ctx_, &jfs_cfg_);
  urma_jfs_t* all[3] = {jfs[0], jfs[1], jfs[2]};
  urma_jfs_t* bad = nullptr;
  EXPECT_STATUS(urma_delete_jfs_batch(nullptr, 1, &bad), URMA_EINVAL);
  EXPECT_STATUS(urma_delete_jfs_batch(all, 0, &bad), URMA_EINVAL);
  EXPECT_STATUS(urma_delete_jfs_batch(all, 1, nullptr), URMA_EINVAL);
  EXPECT_EQ(bad, nullptr);
  all[2] = nullptr;
  EXPECT_STATUS(urma_delete_jfs_batch(all, 3, &bad), URMA_EINVAL);
  EXPECT_EQ(bad, all[0]);
  all[2] = jfs[2];
  EXPECT_EQ(children(), 5u);
  g_provider.status = URMA_EAGAIN;
  g_provider.survivors_from = 2;
  EXPECT_STATUS(urma_delete_jfs_batch(all, 3, &bad), URMA_EAGAIN);
  EXPECT_EQ(bad, jfs[2]);
  EXPECT_EQ(children(), 3u);
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_delete_jfs_batch(&all[2], 1, &bad), URMA_SUCCESS);
  EXPECT_EQ(children(), 2u);
  ops_.delete_jfr_batch = nullptr;
  urma_jfr_t* bad_jfr = nullptr;
  EXPECT_STATUS(urma_delete_jfr_batch(&jfr_, 1, &bad_jfr), URMA_EINVAL);
  EXPECT_EQ(bad_jfr, jfr_);
  end_queues();
}

TEST_F(CoreApi, TwoStepLifeCycle) {
  make_queues();
  urma_jfs_t* jfs = nullptr;
  jfs_cfg_.depth = 0;  // not checked before activation
  EXPECT_STATUS(urma_alloc_jfs(nullptr, &jfs_cfg_, &jfs), URMA_EINVAL);
  EXPECT_STATUS(urma_alloc_jfs(&ctx_, nullptr, &jfs), URMA_EINVAL);
  EXPECT_STATUS(urma_alloc_jfs(&ctx_, &jfs_cfg_, nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_alloc_jfs(&ctx_, &jfs_cfg_, &jfs), URMA_SUCCESS);
  ASSERT_NE(jfs, nullptr);
  EXPECT_EQ(children(), 3u);
  EXPECT_STATUS(urma_delete_jfs(jfs), URMA_EINVAL);
  EXPECT_STATUS(urma_active_jfs(jfs), URMA_EINVAL);
  uint32_t depth = kDepth;
  uint8_t byte = 1;
  uint64_t address = 0x1000;
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, nullptr, 4), URMA_EINVAL);
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, 0), URMA_EINVAL);
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &byte, 1), URMA_EINVAL);
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &address, 8), URMA_EINVAL);
  EXPECT_STATUS(urma_set_jfs_opt(jfs, 0x7777, &depth, 4), URMA_EINVAL);
  g_provider.status = URMA_FAIL;
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, 4), URMA_FAIL);
  EXPECT_EQ(jfs->jfs_cfg.depth, 0u);
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, 4), URMA_SUCCESS);
  EXPECT_EQ(jfs->jfs_cfg.depth, kDepth);
  EXPECT_EQ(jfs->urma_jfs_opt.jfs_opt_mask.value, 0u);
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_SQE_BASE_ADDR, &address, 8), URMA_SUCCESS);
  EXPECT_EQ(jfs->urma_jfs_opt.urma_jfs_sqe_base_addr, address);
  EXPECT_EQ(jfs->urma_jfs_opt.jfs_opt_mask.value, URMA_JFS_SQE_BASE_ADDR_MASK);

  EXPECT_STATUS(urma_deactive_jfs(jfs), URMA_EINVAL);
  jfc_->urma_jfc_opt.is_actived = false;
  EXPECT_STATUS(urma_active_jfs(jfs), URMA_EINVAL);
  jfc_->urma_jfc_opt.is_actived = true;
  g_provider.status = URMA_EAGAIN;
  EXPECT_STATUS(urma_active_jfs(jfs), URMA_EAGAIN);
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_active_jfs(jfs), URMA_SUCCESS);
  EXPECT_STATUS(urma_active_jfs(jfs), URMA_EINVAL);
  EXPECT_STATUS(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, 4), URMA_EINVAL);
  EXPECT_STATUS(urma_get_jfs_opt(jfs, 0, &depth, 4), URMA_EINVAL);
  EXPECT_STATUS(urma_get_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, 0), URMA_EINVAL);
  EXPECT_STATUS(urma_get_jfs_opt(jfs, URMA_JFS_DEPTH, &depth, 4), URMA_SUCCESS);
  EXPECT_STATUS(urma_free_jfs(jfs), URMA_EINVAL);
  EXPECT_STATUS(urma_deactive_jfs(jfs), URMA_SUCCESS);
  EXPECT_STATUS(urma_free_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(children(), 2u);
  g_provider.fails = true;
  urma_jfc_t* unused = nullptr;
  EXPECT_STATUS(urma_alloc_jfc(&ctx_, &jfc_cfg_, &unused), URMA_ENOMEM);
  end_queues();
}

TEST_F(CoreApi, JfcMovesBetweenChannels) {
  urma_jfce_t* first = urma_create_jfce(&ctx_);
  urma_jfce_t* second = urma_create_jfce(&ctx_);
  jfc_cfg_.jfce = first;
  urma_jfc_t* jfc = nullptr;
  EXPECT_STATUS(urma_alloc_jfc(&ctx_, &jfc_cfg_, &jfc), URMA_SUCCESS);
  g_provider.status = URMA_FAIL;
  EXPECT_STATUS(urma_set_jfc_opt(jfc, URMA_JFC_BIND_JFCE, &second, 8), URMA_FAIL);
  EXPECT_EQ(first->ref.atomic_cnt, 2u);
  EXPECT_EQ(second->ref.atomic_cnt, 1u);
  EXPECT_STATUS(urma_set_jfc_opt(jfc, 0x7777, &second, 8), URMA_FAIL);  // asked of the provider
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_set_jfc_opt(jfc, 0x7777, &second, 8), URMA_EINVAL);
  EXPECT_STATUS(urma_set_jfc_opt(jfc, URMA_JFC_BIND_JFCE, &second, 8), URMA_SUCCESS);
  EXPECT_EQ(first->ref.atomic_cnt, 1u);
  EXPECT_EQ(second->ref.atomic_cnt, 2u);
  EXPECT_STATUS(urma_free_jfc(jfc), URMA_SUCCESS);
  EXPECT_STATUS(urma_delete_jfce(first), URMA_SUCCESS);
  EXPECT_STATUS(urma_delete_jfce(second), URMA_SUCCESS);
}

}  // namespace
}  // namespace core_fake
