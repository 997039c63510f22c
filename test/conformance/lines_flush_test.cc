// SPDX-License-Identifier: MIT
//
// Lines 16 and 17: returning requests, and activating send and receive queues.
#include <array>

#include "test/conformance/lines.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

// -------------------------------------------------------------------------------------------------
// Line 16
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_16a_FlushJfsWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  EXPECT_UNTOUCHED(urma_cr_t, cr);
  EXPECT_ANSWER(urma_flush_jfs(nullptr, 1, &cr), -URMA_EINVAL);
  EXPECT_ANSWER(urma_flush_jfs(loop.jfs, 0, &cr), -URMA_EINVAL);
  EXPECT_ANSWER(urma_flush_jfs(loop.jfs, -1, &cr), -URMA_EINVAL);
  EXPECT_ANSWER(urma_flush_jfs(loop.jfs, 1, nullptr), -URMA_EINVAL);
  const int too_many = static_cast<int>(loop.jfs->jfs_cfg.depth) + 1;
  EXPECT_ANSWER(urma_flush_jfs(loop.jfs, too_many, &cr), -URMA_EINVAL);
  loop.check();
}

TEST_F(DeviceLines, S1_16b_FlushJettyWithoutArguments) {
  Loop loop(ctx_);
  EXPECT_UNTOUCHED(urma_cr_t, cr);
  EXPECT_ANSWER(urma_flush_jetty(nullptr, 1, &cr), -URMA_EINVAL);
  EXPECT_ANSWER(urma_flush_jetty(loop.jetty, 0, &cr), -URMA_EINVAL);
  EXPECT_ANSWER(urma_flush_jetty(loop.jetty, -1, &cr), -URMA_EINVAL);
  EXPECT_ANSWER(urma_flush_jetty(loop.jetty, 1, nullptr), -URMA_EINVAL);
  const int too_many = static_cast<int>(loop.jetty->jetty_cfg.jfs_cfg.depth) + 1;
  EXPECT_ANSWER(urma_flush_jetty(loop.jetty, too_many, &cr), -URMA_EINVAL);
  loop.check();
}

TEST_F(ProviderLines, S1_16c_FlushAnswersWithTheProvider) {
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  std::array<urma_cr_t, 16> crs = {};
  EXPECT_ANSWER(urma_flush_jfs(with_jfs.jfs, 16, crs.data()), 15);
  EXPECT_ANSWER(urma_flush_jetty(with_jetty.jetty, 16, crs.data()), 15);
  EXPECT_ANSWER(urma_flush_jfs(with_jfs.jfs, 1, crs.data()), 0);
  EXPECT_ANSWER(urma_flush_jetty(with_jetty.jetty, 1, crs.data()), 0);
  module_->status = -EIO;
  EXPECT_ANSWER(urma_flush_jfs(with_jfs.jfs, 1, crs.data()), -EIO);
  EXPECT_ANSWER(urma_flush_jetty(with_jetty.jetty, 1, crs.data()), -EIO);
  module_->status = 0;
  WITHOUT(flush_jfs, EXPECT_ANSWER(urma_flush_jfs(with_jfs.jfs, 1, crs.data()), -URMA_EINVAL));
  WITHOUT(flush_jetty,
          EXPECT_ANSWER(urma_flush_jetty(with_jetty.jetty, 1, crs.data()), -URMA_EINVAL));
}

TEST_F(DeviceLines, S1_16d_FlushWithNothingToReturn) {
  NEEDS_OPERATION(flush_jfs);
  NEEDS_OPERATION(flush_jetty);
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  EXPECT_UNTOUCHED(urma_cr_t, cr);
  EXPECT_EQ(urma_flush_jfs(with_jfs.jfs, 1, &cr), 0);
  EXPECT_EQ(urma_flush_jetty(with_jetty.jetty, 1, &cr), 0);
  with_jetty.check();
  with_jfs.check();
}

// What polls return after the queue has been put into ERROR: first the two requests, then the
// marker.
void expect_drained(urma_jfc_t* jfc, uint32_t id, bool with_jetty) {
  for (const uint64_t user_ctx : {21u, 22u}) {
    const urma_cr_t cr = wait_for(jfc);
    EXPECT_EQ(cr.status, URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(cr.user_ctx, user_ctx);
    EXPECT_EQ(cr.flag.bs.s_r, 0);
    EXPECT_EQ(cr.local_id, id);
  }
  const urma_cr_t marker = wait_for(jfc);
  EXPECT_EQ(marker.status, URMA_CR_WR_FLUSH_ERR_DONE);
  EXPECT_EQ(marker.local_id, id);
  EXPECT_EQ(marker.flag.bs.s_r, 0);
  EXPECT_EQ(marker.flag.bs.jetty, with_jetty ? 1 : 0);
  EXPECT_EQ(marker.flag.bs.flush_err_done, 1);
  EXPECT_TRUE(has_nothing(jfc));
}

// Posted after the marker: returned by a flush, and not polled any more.
void expect_handed_back(Loop& loop) {
  urma_jfs_wr_t late = loop.message(23), *bad = nullptr;
  EXPECT_EQ(loop.post(&late, &bad), URMA_SUCCESS);
  urma_cr_t cr = {};
  EXPECT_EQ(loop.jetty != nullptr ? urma_flush_jetty(loop.jetty, 1, &cr)
                                  : urma_flush_jfs(loop.jfs, 1, &cr),
            1);
  EXPECT_EQ(cr.status, URMA_CR_WR_UNHANDLED);
  EXPECT_EQ(cr.user_ctx, 23u);
  EXPECT_EQ(cr.local_id, loop.jetty != nullptr ? loop.jetty->jetty_id.id : loop.jfs->jfs_id.id);
  EXPECT_EQ(cr.flag.bs.jetty, loop.jetty != nullptr ? 1 : 0);
  EXPECT_EQ(loop.jetty != nullptr ? urma_flush_jetty(loop.jetty, 1, &cr)
                                  : urma_flush_jfs(loop.jfs, 1, &cr),
            0);
  EXPECT_TRUE(has_nothing(loop.jfc));
}

// Two requests wait for a receive that never comes.
void post_two(Loop& loop) {
  for (const uint64_t user_ctx : {21u, 22u}) {
    urma_jfs_wr_t wr = loop.message(user_ctx), *bad = nullptr;
    EXPECT_EQ(loop.post(&wr, &bad), URMA_SUCCESS);
  }
}

TEST_F(DeviceLines, S1_16e_FlushJfsAfterTheMarker) {
  NEEDS_OPERATION(modify_jfs);
  NEEDS_OPERATION(flush_jfs);
  Loop loop(ctx_, URMA_TM_RM, false);
  post_two(loop);
  urma_jfs_attr_t attr = {JFS_STATE, URMA_JETTY_STATE_ERROR};
  EXPECT_EQ(urma_modify_jfs(loop.jfs, &attr), URMA_SUCCESS);
  urma_cr_t cr = {};
  EXPECT_EQ(urma_flush_jfs(loop.jfs, 1, &cr), 0);
  expect_drained(loop.jfc, loop.jfs->jfs_id.id, false);
  expect_handed_back(loop);
  attr.state = URMA_JETTY_STATE_READY;
  EXPECT_EQ(urma_modify_jfs(loop.jfs, &attr), URMA_SUCCESS);
  loop.check();
}

TEST_F(DeviceLines, S1_16f_FlushJettyAfterTheMarker) {
  NEEDS_OPERATION(modify_jetty);
  NEEDS_OPERATION(flush_jetty);
  Loop loop(ctx_);
  post_two(loop);
  urma_jetty_attr_t attr = {JETTY_STATE, 0, URMA_JETTY_STATE_ERROR};
  EXPECT_EQ(urma_modify_jetty(loop.jetty, &attr), URMA_SUCCESS);
  EXPECT_EQ(urma_modify_jetty(loop.jetty, &attr), URMA_SUCCESS);
  urma_cr_t cr = {};
  EXPECT_EQ(urma_flush_jetty(loop.jetty, 1, &cr), 0);
  expect_drained(loop.jfc, loop.jetty->jetty_id.id, true);
  expect_handed_back(loop);
  attr.state = URMA_JETTY_STATE_READY;
  EXPECT_EQ(urma_modify_jetty(loop.jetty, &attr), URMA_SUCCESS);
  loop.check();
}

// -------------------------------------------------------------------------------------------------
// Line 17
// -------------------------------------------------------------------------------------------------

// Sets an option of an inactive queue.
template <typename Queue, typename Value>
void set(urma_status_t (*call)(Queue*, uint64_t, void*, uint32_t), Queue* queue, uint64_t option,
         Value value) {
  EXPECT_EQ(call(queue, option, &value, sizeof value), URMA_SUCCESS) << std::hex << option;
}

// What both kinds of test do with a JFS: each field of the configuration that prevents activation.
// In the end it is inactive with a valid one.
void refuse_to_activate(urma_jfs_t* jfs, const urma_device_cap_t& caps) {
  const auto refs = [jfs] { return jfs->urma_ctx->ref.atomic_cnt.load(); };
  const auto mode = jfs->jfs_cfg.trans_mode;
  set(urma_set_jfs_opt, jfs, URMA_JFS_TRANS_MODE, uint32_t{0xff});
  EXPECT_EINVAL(urma_active_jfs(jfs));
  set(urma_set_jfs_opt, jfs, URMA_JFS_TRANS_MODE, mode);
  urma_jfs_flag_t flag = {};
  flag.bs.order_type = URMA_OT;
  set(urma_set_jfs_opt, jfs, URMA_JFS_FLAG, flag);
  EXPECT_EINVAL(urma_active_jfs(jfs));
  set(urma_set_jfs_opt, jfs, URMA_JFS_FLAG, urma_jfs_flag_t{});
  set(urma_set_jfs_opt, jfs, URMA_JFS_DEPTH, caps.max_jfs_depth + 1);
  EXPECT_EINVAL(urma_active_jfs(jfs));
  set(urma_set_jfs_opt, jfs, URMA_JFS_DEPTH, uint32_t{0});
  EXPECT_EINVAL(urma_active_jfs(jfs));
  set(urma_set_jfs_opt, jfs, URMA_JFS_DEPTH, uint32_t{16});
  EXPECT_FALSE(jfs->urma_jfs_opt.is_actived);
}

void refuse_to_activate(urma_jfr_t* jfr, const urma_device_cap_t& caps) {
  const auto refs = [jfr] { return jfr->urma_ctx->ref.atomic_cnt.load(); };
  const auto mode = jfr->jfr_cfg.trans_mode;
  set(urma_set_jfr_opt, jfr, URMA_JFR_TRANS_MODE, uint32_t{0xff});
  EXPECT_EINVAL(urma_active_jfr(jfr));
  set(urma_set_jfr_opt, jfr, URMA_JFR_TRANS_MODE, mode);
  set(urma_set_jfr_opt, jfr, URMA_JFR_DEPTH, caps.max_jfr_depth + 1);
  EXPECT_EINVAL(urma_active_jfr(jfr));
  set(urma_set_jfr_opt, jfr, URMA_JFR_DEPTH, uint32_t{0});
  EXPECT_EINVAL(urma_active_jfr(jfr));
  set(urma_set_jfr_opt, jfr, URMA_JFR_DEPTH, uint32_t{16});
  EXPECT_FALSE(jfr->urma_jfr_opt.is_actived);
}

TEST_F(DeviceLines, S1_17a_ActiveJfsRefuses) {
  NEEDS_OPERATION(alloc_jfs);
  NEEDS_OPERATION(alloc_jfc);
  EXPECT_EINVAL(urma_active_jfs(nullptr));
  urma_jfc_cfg_t completion_cfg = jfc_cfg();
  urma_jfc_t* jfc = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &completion_cfg, &jfc), URMA_SUCCESS);
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  urma_jfs_t* jfs = nullptr;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &cfg, &jfs), URMA_SUCCESS);
  EXPECT_EINVAL(urma_active_jfs(jfs));
  EXPECT_EQ(urma_active_jfc(jfc), URMA_SUCCESS);
  refuse_to_activate(jfs, caps());
  EXPECT_CHANGE(urma_active_jfs(jfs), 0);
  EXPECT_NE(jfs->jfs_id.id, 0u);
  EXPECT_TRUE(jfs->urma_jfs_opt.is_actived);
  EXPECT_EINVAL(urma_active_jfs(jfs));
  EXPECT_TRUE(jfs->urma_jfs_opt.is_actived);
  EXPECT_CHANGE(urma_delete_jfs(jfs), -1);
  EXPECT_CHANGE(urma_delete_jfc(jfc), -1);
}

TEST_F(DeviceLines, S1_17b_ActiveJfrRefuses) {
  NEEDS_OPERATION(alloc_jfr);
  NEEDS_OPERATION(alloc_jfc);
  EXPECT_EINVAL(urma_active_jfr(nullptr));
  urma_jfc_cfg_t completion_cfg = jfc_cfg();
  urma_jfc_t* jfc = nullptr;
  ASSERT_EQ(urma_alloc_jfc(ctx_, &completion_cfg, &jfc), URMA_SUCCESS);
  urma_jfr_cfg_t cfg = jfr_cfg(jfc);
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfr(ctx_, &cfg, &jfr), URMA_SUCCESS);
  EXPECT_EINVAL(urma_active_jfr(jfr));
  EXPECT_EQ(urma_active_jfc(jfc), URMA_SUCCESS);
  refuse_to_activate(jfr, caps());
  EXPECT_CHANGE(urma_active_jfr(jfr), 0);
  EXPECT_NE(jfr->jfr_id.id, 0u);
  EXPECT_TRUE(jfr->urma_jfr_opt.is_actived);
  EXPECT_EINVAL(urma_active_jfr(jfr));
  EXPECT_CHANGE(urma_delete_jfr(jfr), -1);
  EXPECT_CHANGE(urma_delete_jfc(jfc), -1);
}

TEST_F(ProviderLines, S1_17c_ActiveJfsAnswersWithTheProvider) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  urma_jfs_t* jfs = nullptr;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &cfg, &jfs), URMA_SUCCESS);
  refuse_to_activate(jfs, caps());
  WITHOUT(active_jfs, EXPECT_EINVAL(urma_active_jfs(jfs)));
  for (const int status : {URMA_FAIL, URMA_EAGAIN}) {
    module_->status = status;
    EXPECT_ANSWER(urma_active_jfs(jfs), status);
    EXPECT_FALSE(jfs->urma_jfs_opt.is_actived);
  }
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_active_jfs(jfs), 0);
  EXPECT_EINVAL(urma_active_jfs(jfs));
  EXPECT_CHANGE(urma_delete_jfs(jfs), -1);
}

TEST_F(ProviderLines, S1_17d_ActiveJfsTakesRcWithoutOrder) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t cfg = jfs_cfg(jfc, URMA_TM_RC);
  cfg.flag.bs.order_type = URMA_NO;
  urma_jfs_t* jfs = nullptr;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &cfg, &jfs), URMA_SUCCESS);
  EXPECT_CHANGE(urma_active_jfs(jfs), 0);
  EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
}

TEST_F(ProviderLines, S1_17e_ActiveJfrAnswersWithTheProvider) {
  const OwnedJfc jfc = make_jfc();
  urma_jfr_cfg_t cfg = jfr_cfg(jfc);
  urma_jfr_t* jfr = nullptr;
  ASSERT_EQ(urma_alloc_jfr(ctx_, &cfg, &jfr), URMA_SUCCESS);
  refuse_to_activate(jfr, caps());
  WITHOUT(active_jfr, EXPECT_EINVAL(urma_active_jfr(jfr)));
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_active_jfr(jfr), URMA_EAGAIN);
  EXPECT_FALSE(jfr->urma_jfr_opt.is_actived);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_active_jfr(jfr), 0);
  EXPECT_EINVAL(urma_active_jfr(jfr));
  EXPECT_CHANGE(urma_delete_jfr(jfr), -1);
}

}  // namespace
}  // namespace urma_test
