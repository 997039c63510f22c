// SPDX-License-Identifier: MIT
#include <atomic>
#include <thread>

#include "test/unit/core_fake.h"

namespace core_fake {
namespace {

TEST_F(CoreApi, JettyChecksItsHalves) {
  make_queues();
  const auto refuse = [&](auto change) {
    urma_jetty_cfg_t cfg = jetty_cfg_;
    change(cfg);
    const int calls = g_provider.calls;
    EXPECT_NULL(urma_create_jetty(&ctx_, &cfg), EINVAL);
    EXPECT_EQ(g_provider.calls, calls);
  };
  refuse([](auto& cfg) { cfg.jfs_cfg.jfc = nullptr; });
  refuse([](auto& cfg) { cfg.shared.jfr = nullptr; });
  refuse([](auto& cfg) { std::memset(&cfg.jfs_cfg.trans_mode, 0, 4); });
  refuse([](auto& cfg) { cfg.jfs_cfg.flag.bs.order_type = URMA_NO; });
  refuse([](auto& cfg) { cfg.jfs_cfg.trans_mode = URMA_TM_RC; });
  refuse([](auto& cfg) { cfg.jfs_cfg.depth = kDepth + 1; });
  refuse([&](auto& cfg) {
    cfg.flag.bs.share_jfr = URMA_NO_SHARE_JFR;
    cfg.jfr_cfg = &jfr_cfg_;
  });
  device_->type = URMA_TRANSPORT_IB;
  refuse([](auto& cfg) {
    cfg.flag.bs.share_jfr = URMA_NO_SHARE_JFR;
    cfg.jfr_cfg = nullptr;
  });
  urma_jfr_cfg_t rc = jfr_cfg_;
  rc.trans_mode = URMA_TM_RC;
  refuse([&](auto& cfg) {
    cfg.flag.bs.share_jfr = URMA_NO_SHARE_JFR;
    cfg.jfr_cfg = &rc;
  });
  device_->type = URMA_TRANSPORT_UB;
  urma_jetty_t* jetty = urma_create_jetty(&ctx_, &jetty_cfg_);
  ASSERT_NE(jetty, nullptr);
  EXPECT_EQ(jetty->jetty_cfg.jfs_cfg.flag.bs.order_type, uint32_t{URMA_OI});
  EXPECT_STATUS(urma_delete_jetty(jetty), URMA_SUCCESS);
  end_queues();
}

TEST_F(CoreApi, AllocatedJettyIsCheckedWhenActivated) {
  make_queues();
  urma_jetty_t* jetty = nullptr;
  EXPECT_STATUS(urma_alloc_jetty(&ctx_, &jetty_cfg_, &jetty), URMA_SUCCESS);
  uint32_t depth = kDepth + 1;
  EXPECT_STATUS(urma_set_jetty_opt(jetty, URMA_JFS_DEPTH, &depth, 4), URMA_SUCCESS);
  EXPECT_EQ(jetty->jetty_cfg.jfs_cfg.depth, kDepth + 1);
  EXPECT_STATUS(urma_active_jetty(jetty), URMA_EINVAL);
  depth = kDepth;
  EXPECT_STATUS(urma_set_jetty_opt(jetty, URMA_JFS_DEPTH, &depth, 4), URMA_SUCCESS);
  uint32_t id = 5;
  EXPECT_STATUS(urma_set_jetty_opt(jetty, URMA_JFS_ID, &id, 4), URMA_SUCCESS);
  EXPECT_EQ(jetty->urma_jetty_opt.jfs_opt.urma_jfs_id, 5u);
  EXPECT_EQ(jetty->urma_jetty_opt.jfs_opt.jfs_opt_mask.value, URMA_JFS_ID_MASK);
  urma_jetty_flag_t flag = {};
  EXPECT_STATUS(urma_set_jetty_opt(jetty, URMA_JETTY_FLAG, &flag, sizeof flag), URMA_EINVAL);
  jfr_->urma_jfr_opt.is_actived = false;
  EXPECT_STATUS(urma_active_jetty(jetty), URMA_EINVAL);
  jfr_->urma_jfr_opt.is_actived = true;
  EXPECT_STATUS(urma_active_jetty(jetty), URMA_SUCCESS);
  EXPECT_STATUS(urma_deactive_jetty(jetty), URMA_SUCCESS);
  EXPECT_STATUS(urma_free_jetty(jetty), URMA_SUCCESS);
  end_queues();
}

TEST_F(CoreApi, GroupsKnowTheirMembers) {
  urma_jetty_grp_cfg_t cfg = {};
  std::memset(cfg.name, 'x', sizeof cfg.name);
  EXPECT_NULL(urma_create_jetty_grp(&ctx_, &cfg), EINVAL);
  std::strcpy(cfg.name, "group");
  EXPECT_NULL(urma_create_jetty_grp(nullptr, &cfg), EINVAL);
  EXPECT_NULL(urma_create_jetty_grp(&ctx_, nullptr), EINVAL);
  urma_jetty_grp_t* group = urma_create_jetty_grp(&ctx_, &cfg);
  ASSERT_NE(group, nullptr);
  make_queues();
  jetty_cfg_.jetty_grp = group;
  urma_jetty_t* jetty = urma_create_jetty(&ctx_, &jetty_cfg_);
  EXPECT_EQ(group->jetty_cnt, 1u);
  EXPECT_EQ(group->jetty_list[0], jetty);
  EXPECT_STATUS(urma_delete_jetty_grp(group), URMA_ENOPERM);
  urma_jetty_t* other = urma_create_jetty(&ctx_, &jetty_cfg_);
  EXPECT_NULL(urma_create_jetty(&ctx_, &jetty_cfg_), EPERM);  // the device allows two
  EXPECT_EQ(group->jetty_cnt, 2u);
  g_provider.status = URMA_FAIL;
  EXPECT_STATUS(urma_delete_jetty(jetty), URMA_FAIL);
  EXPECT_EQ(group->jetty_list[0], jetty);
  g_provider.status = URMA_SUCCESS;
  urma_jetty_t* both[] = {jetty, other};
  urma_jetty_t* bad = nullptr;
  EXPECT_STATUS(urma_delete_jetty_batch(both, 2, &bad), URMA_SUCCESS);
  EXPECT_EQ(group->jetty_cnt, 0u);
  g_provider.fails = true;
  EXPECT_NULL(urma_create_jetty(&ctx_, &jetty_cfg_), EINVAL);
  EXPECT_EQ(group->jetty_cnt, 0u);
  g_provider.fails = false;
  group->cfg.token_value.token = 1;
  EXPECT_NULL(urma_create_jetty(&ctx_, &jetty_cfg_), EINVAL);
  EXPECT_STATUS(urma_delete_jetty_grp(group), URMA_SUCCESS);
  EXPECT_STATUS(urma_delete_jetty_grp(nullptr), URMA_EINVAL);
  end_queues();
}

TEST_F(CoreApi, BindingIsForRcPairs) {
  make_queues(URMA_TM_RC);
  urma_jetty_t* jetty = urma_create_jetty(&ctx_, &jetty_cfg_);
  ASSERT_NE(jetty, nullptr);
  urma_target_jetty_t rm = {}, peer = {}, other = {};
  rm.urma_ctx = peer.urma_ctx = other.urma_ctx = &ctx_;
  rm.trans_mode = URMA_TM_RM;
  peer.trans_mode = other.trans_mode = URMA_TM_RC;
  EXPECT_STATUS(urma_bind_jetty(nullptr, &peer), URMA_EINVAL);
  EXPECT_STATUS(urma_bind_jetty(jetty, nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_unbind_jetty(jetty), URMA_EINVAL);
  EXPECT_STATUS(urma_bind_jetty(jetty, &rm), URMA_ENOPERM);
  peer.flag.bs.order_type = URMA_OT;
  EXPECT_STATUS(urma_bind_jetty(jetty, &peer), URMA_ENOPERM);
  peer.flag.bs.order_type = URMA_OL;
  ops_.bind_jetty = nullptr;
  EXPECT_STATUS(urma_bind_jetty(jetty, &peer), URMA_SUCCESS);
  EXPECT_EQ(jetty->remote_jetty, &peer);
  const int calls = g_provider.calls;
  EXPECT_STATUS(urma_bind_jetty(jetty, &peer), URMA_SUCCESS);
  EXPECT_EQ(g_provider.calls, calls);
  EXPECT_STATUS(urma_bind_jetty(jetty, &other), URMA_EEXIST);
  EXPECT_STATUS(urma_bind_jetty_ex(jetty, &peer, nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_delete_jetty(jetty), URMA_ENOPERM);
  urma_jetty_t* bad = nullptr;
  EXPECT_STATUS(urma_delete_jetty_batch(&jetty, 1, &bad), URMA_ENOPERM);
  EXPECT_EQ(bad, jetty);
  g_provider.status = URMA_FAIL;
  EXPECT_STATUS(urma_unbind_jetty(jetty), URMA_FAIL);
  EXPECT_EQ(jetty->remote_jetty, &peer);
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_unbind_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(jetty->remote_jetty, nullptr);
  EXPECT_STATUS(urma_delete_jetty(jetty), URMA_SUCCESS);
  end_queues();
}

// The provider accepts the first of them.
std::atomic<urma_target_jetty_t*> g_bound;
urma_status_t bind_first(urma_jetty_t*, urma_target_jetty_t* target) {
  urma_target_jetty_t* nobody = nullptr;
  return g_bound.compare_exchange_strong(nobody, target) ? URMA_SUCCESS : URMA_EEXIST;
}

TEST_F(CoreApi, OneOfTwoThreadsBindsAJetty) {
  make_queues(URMA_TM_RC);
  urma_jetty_t* jetty = urma_create_jetty(&ctx_, &jetty_cfg_);
  ASSERT_NE(jetty, nullptr);
  ops_.bind_jetty = bind_first;
  for (int round = 0; round < 300; ++round) {
    g_bound = nullptr;
    urma_target_jetty_t targets[2] = {};
    urma_status_t results[2];
    std::atomic<int> ready{0};
    const auto bind = [&](int index) {
      targets[index].urma_ctx = &ctx_;
      targets[index].trans_mode = URMA_TM_RC;
      targets[index].flag.bs.order_type = URMA_OL;
      // As parallel as possible.
      for (++ready; ready < 2;) std::this_thread::yield();
      results[index] = urma_bind_jetty(jetty, &targets[index]);
    };
    std::thread other(bind, 1);
    bind(0);
    other.join();
    const int winner = results[0] == URMA_SUCCESS ? 0 : 1;
    ASSERT_EQ(results[winner], URMA_SUCCESS);
    ASSERT_EQ(results[1 - winner], URMA_EEXIST);
    ASSERT_EQ(jetty->remote_jetty, &targets[winner]);
    ASSERT_EQ(g_bound, &targets[winner]);
    EXPECT_STATUS(urma_unbind_jetty(jetty), URMA_SUCCESS);
  }
  EXPECT_STATUS(urma_delete_jetty(jetty), URMA_SUCCESS);
  end_queues();
}

TEST_F(CoreApi, AdviceIsNotNeededOnUb) {
  make_queues();
  urma_jfs_t* jfs = urma_create_jfs(&ctx_, &jfs_cfg_);
  urma_target_jetty_t target = {};
  target.urma_ctx = &ctx_;
  target.trans_mode = URMA_TM_RM;
  EXPECT_STATUS(urma_advise_jfr(nullptr, &target), URMA_EINVAL);
  EXPECT_STATUS(urma_advise_jfr(jfs, nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_advise_jfr(jfs, &target), URMA_SUCCESS);
  EXPECT_STATUS(urma_unadvise_jfr(jfs, &target), URMA_SUCCESS);
  const auto callback = [](urma_status_t, void*) { FAIL(); };
  EXPECT_STATUS(urma_advise_jfr_async(jfs, &target, nullptr, jfs), URMA_EINVAL);
  EXPECT_STATUS(urma_advise_jfr_async(jfs, &target, callback, nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_advise_jfr_async(jfs, &target, callback, jfs), URMA_SUCCESS);
  device_->type = URMA_TRANSPORT_IB;
  EXPECT_STATUS(urma_advise_jfr(jfs, &target), URMA_EINVAL);
  answer(ops_.advise_jfr);
  g_provider.status = URMA_EEXIST;
  EXPECT_STATUS(urma_advise_jfr(jfs, &target), URMA_EEXIST);
  g_provider.status = URMA_SUCCESS;
  target.trans_mode = URMA_TM_RC;
  EXPECT_STATUS(urma_advise_jfr(jfs, &target), URMA_EINVAL);
  EXPECT_STATUS(urma_delete_jfs(jfs), URMA_SUCCESS);
  end_queues();
}

TEST_F(CoreApi, NotifierReleasesWhatFails) {
  EXPECT_NULL(urma_create_notifier(nullptr), EINVAL);
  urma_notifier_t* notifier = urma_create_notifier(&ctx_);
  urma_rjetty_t rjetty = {};
  rjetty.trans_mode = URMA_TM_RM;
  urma_token_t token = {};
  urma_notify_t notify = {};
  EXPECT_NULL(urma_import_jetty_async(nullptr, &rjetty, &token, 0, 0), EINVAL);
  g_provider.fails = true;
  EXPECT_NULL(urma_import_jetty_async(notifier, &rjetty, &token, 0, 0), EINVAL);
  EXPECT_EQ(children(), 1u);
  g_provider.fails = false;
  urma_target_jetty_t* good = urma_import_jetty_async(notifier, &rjetty, &token, 0, 0);
  urma_target_jetty_t* failing = urma_import_jetty_async(notifier, &rjetty, &token, 0, 0);
  urma_target_jetty_t* pending = urma_import_jetty_async(notifier, &rjetty, &token, 0, 0);
  EXPECT_EQ(children(), 4u);
  EXPECT_EQ(urma_wait_notify(nullptr, 1, &notify, 0), -1);
  EXPECT_EQ(urma_wait_notify(notifier, 0, &notify, 0), 0);
  g_provider.notify.tjetty = good;
  EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, 0), 1);
  EXPECT_EQ(children(), 4u);
  g_provider.notify.tjetty = failing;
  g_provider.notify.status = URMA_ETIMEOUT;
  EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, 0), 1);
  EXPECT_EQ(children(), 3u);
  ops_.wait_notify = nullptr;
  EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, 0), -EINVAL);
  EXPECT_STATUS(urma_ack_notify(nullptr, 1, &notify), URMA_EINVAL);
  EXPECT_STATUS(urma_ack_notify(&ctx_, 1, &notify), URMA_SUCCESS);
  ops_.ack_notify = nullptr;
  EXPECT_STATUS(urma_ack_notify(&ctx_, 1, &notify), -EINVAL);
  EXPECT_STATUS(urma_unimport_jetty_async(good), URMA_SUCCESS);
  EXPECT_EQ(children(), 2u);
  EXPECT_STATUS(urma_delete_notifier(notifier), URMA_SUCCESS);  // and the pending import
  EXPECT_EQ(children(), 0u);
  EXPECT_STATUS(urma_delete_notifier(nullptr), URMA_EINVAL);
  delete failing;
  delete pending;
}

// What a notifier at the same address imports while the old one ends.
urma_target_jetty_t* g_later;
urma_status_t replace_notifier(urma_notifier_t* notifier) {
  if (g_provider.status != URMA_SUCCESS) return g_provider.status;
  urma_rjetty_t rjetty = {};
  rjetty.trans_mode = URMA_TM_RM;
  urma_token_t token = {};
  g_later = urma_import_jetty_async(notifier, &rjetty, &token, 0, 0);
  return URMA_SUCCESS;
}

TEST_F(CoreApi, NotifierEndsOnlyItsOwnImports) {
  urma_notifier_t* notifier = urma_create_notifier(&ctx_);
  urma_rjetty_t rjetty = {};
  rjetty.trans_mode = URMA_TM_RM;
  urma_token_t token = {};
  urma_target_jetty_t* pending = urma_import_jetty_async(notifier, &rjetty, &token, 0, 0);
  ops_.delete_notifier = replace_notifier;
  g_provider.status = URMA_FAIL;
  EXPECT_STATUS(urma_delete_notifier(notifier), URMA_FAIL);
  EXPECT_EQ(children(), 2u);
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_delete_notifier(notifier), URMA_SUCCESS);
  EXPECT_EQ(children(), 1u);
  EXPECT_STATUS(urma_unimport_jetty_async(g_later), URMA_SUCCESS);
  EXPECT_EQ(children(), 0u);
  delete pending;
  delete notifier;
}

}  // namespace
}  // namespace core_fake
