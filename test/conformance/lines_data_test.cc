// SPDX-License-Identifier: MIT
//
// Lines 31 to 33: posting, polling, arming and waiting.
#include <poll.h>

#include <array>
#include <cstring>

#include "test/conformance/lines.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr uint32_t kSize = Loop::kPart;

urma_jfs_wr_flag_t completing(bool with_inline = false) {
  urma_jfs_wr_flag_t flag = {};
  flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  flag.bs.inline_flag = with_inline ? URMA_INLINE_ENABLE : URMA_INLINE_DISABLE;
  return flag;
}

// -------------------------------------------------------------------------------------------------
// Line 31
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_31a_WriteWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  const auto flag = completing();
  const auto write = [&](urma_jfs_t* jfs, urma_target_jetty_t* target, urma_target_seg_t* dst) {
    return urma_write(jfs, target, dst, loop.segment, loop.in(), loop.out(), kSize, flag, 1);
  };
  EXPECT_EINVAL(write(nullptr, loop.target, loop.imported));
  EXPECT_EINVAL(write(loop.jfs, nullptr, loop.imported));
  EXPECT_EINVAL(write(loop.jfs, loop.target, nullptr));
  EXPECT_TRUE(has_nothing(loop.jfc));
  loop.check();
}

TEST_F(DeviceLines, S1_31b_WriteNeedsNoLocalSegmentInline) {
  NEEDS(caps().max_jfs_inline_len >= 8, "inline data");
  Loop loop(ctx_, URMA_TM_RM, false);
  char data[] = "inlined";
  EXPECT_EQ(urma_write(loop.jfs, loop.target, loop.imported, nullptr, loop.in(),
                       reinterpret_cast<uint64_t>(data), sizeof data, completing(true), 41),
            URMA_SUCCESS);
  EXPECT_EQ(wait_for_success(loop.jfc, 41).flag.bs.s_r, 0);
  EXPECT_EQ(std::memcmp(loop.memory.data(), data, sizeof data), 0);
  loop.check();
}

TEST_F(ProviderLines, S1_31c_FlatCallsReachTheProvider) {
  Loop loop(ctx_, URMA_TM_RM, false);
  EXPECT_ANSWER(urma_write(loop.jfs, loop.target, loop.imported, nullptr, 1, 2, 3, {}, 4),
                URMA_SUCCESS);
  EXPECT_EQ(module_->opcode, URMA_OPC_WRITE);
  EXPECT_EQ(module_->tseg, nullptr);
  EXPECT_ANSWER(urma_read(loop.jfs, loop.target, loop.segment, loop.imported, 1, 2, 3, {}, 4),
                URMA_SUCCESS);
  EXPECT_EQ(module_->opcode, URMA_OPC_READ);
  EXPECT_EQ(module_->tseg, loop.segment);
  EXPECT_ANSWER(urma_send(loop.jfs, loop.target, nullptr, 1, 2, completing(true), 4), URMA_SUCCESS);
  EXPECT_EQ(module_->opcode, URMA_OPC_SEND);
  for (const int status : {URMA_ENOMEM, URMA_FAIL}) {
    module_->status = status;
    EXPECT_ANSWER(urma_write(loop.jfs, loop.target, loop.imported, nullptr, 1, 2, 3, {}, 4),
                  status);
    EXPECT_ANSWER(urma_recv(loop.jfr, loop.segment, 1, 2, 3), status);
  }
  module_->status = URMA_SUCCESS;
  EXPECT_ANSWER(urma_recv(loop.jfr, loop.segment, 1, 2, 3), URMA_SUCCESS);
  WITHOUT(post_jfs_wr, EXPECT_EINVAL(urma_send(loop.jfs, loop.target, loop.segment, 1, 2, {}, 3)));
  WITHOUT(post_jfr_wr, EXPECT_EINVAL(urma_recv(loop.jfr, loop.segment, 1, 2, 3)));
}

TEST_F(DeviceLines, S1_31d_ReadWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  const auto flag = completing();
  const auto read = [&](urma_jfs_t* jfs, urma_target_jetty_t* target, urma_target_seg_t* dst,
                        urma_target_seg_t* src) {
    return urma_read(jfs, target, dst, src, loop.in(), loop.out(), kSize, flag, 1);
  };
  EXPECT_EINVAL(read(nullptr, loop.target, loop.segment, loop.imported));
  EXPECT_EINVAL(read(loop.jfs, nullptr, loop.segment, loop.imported));
  EXPECT_EINVAL(read(loop.jfs, loop.target, nullptr, loop.imported));
  EXPECT_EINVAL(read(loop.jfs, loop.target, loop.segment, nullptr));
  EXPECT_TRUE(has_nothing(loop.jfc));
  std::memset(loop.memory.data() + kSize, 'r', kSize);
  EXPECT_EQ(read(loop.jfs, loop.target, loop.segment, loop.imported), URMA_SUCCESS);
  wait_for_success(loop.jfc, 1);
  EXPECT_EQ(loop.memory[0], 'r');
  EXPECT_EQ(loop.memory[kSize - 1], 'r');
  loop.check();
}

TEST_F(DeviceLines, S1_31e_SendWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  const auto send = [&](urma_jfs_t* jfs, urma_target_jetty_t* target, urma_target_seg_t* src) {
    return urma_send(jfs, target, src, loop.out(), kSize, completing(), 1);
  };
  EXPECT_EINVAL(send(nullptr, loop.target, loop.segment));
  EXPECT_EINVAL(send(loop.jfs, nullptr, loop.segment));
  EXPECT_EINVAL(send(loop.jfs, loop.target, nullptr));
  EXPECT_TRUE(has_nothing(loop.jfc));
  loop.check();
}

TEST_F(DeviceLines, S1_31f_SendNeedsNoLocalSegmentInline) {
  NEEDS(caps().max_jfs_inline_len >= 8, "inline data");
  Loop loop(ctx_, URMA_TM_RM, false);
  char data[] = "inlined";
  EXPECT_EQ(urma_recv(loop.jfr, loop.segment, loop.in(), kSize, 42), URMA_SUCCESS);
  EXPECT_EQ(urma_send(loop.jfs, loop.target, nullptr, reinterpret_cast<uint64_t>(data), sizeof data,
                      completing(true), 42),
            URMA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(wait_for_success(loop.jfc, 42).completion_len, sizeof data);
  }
  EXPECT_EQ(std::memcmp(loop.memory.data(), data, sizeof data), 0);
  loop.check();
}

TEST_F(DeviceLines, S1_31g_RecvWithoutArguments) {
  Loop loop(ctx_, URMA_TM_RM, false);
  EXPECT_EINVAL(urma_recv(nullptr, loop.segment, loop.in(), kSize, 1));
  EXPECT_EINVAL(urma_recv(loop.jfr, nullptr, loop.in(), kSize, 1));
  EXPECT_ANSWER(urma_recv(loop.jfr, loop.segment, 0, kSize, 1), URMA_FAIL);
  // A receive that had been posted would be consumed first.
  loop.check();
}

// -------------------------------------------------------------------------------------------------
// Line 32
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_32a_PollWithoutArguments) {
  Loop loop(ctx_);
  {
    EXPECT_UNTOUCHED(urma_cr_t, cr);
    EXPECT_EQ(urma_poll_jfc(nullptr, 1, &cr), -1);
    EXPECT_EQ(urma_poll_jfc(loop.jfc, -1, &cr), -1);
    EXPECT_EQ(urma_poll_jfc(loop.jfc, 1, nullptr), -1);
    EXPECT_EQ(urma_poll_jfc(loop.jfc, 0, &cr), 0);
    EXPECT_EQ(urma_poll_jfc(loop.jfc, 1, &cr), 0);
  }
  loop.check();
}

TEST_F(ProviderLines, S1_32b_PollAnswersWithTheProvider) {
  Loop loop(ctx_);
  urma_cr_t cr = {};
  for (const int status : {-EIO, -1, 0, 1}) {
    module_->status = status;
    EXPECT_ANSWER(urma_poll_jfc(loop.jfc, 1, &cr), status);
  }
  module_->status = 0;
  WITHOUT(poll_jfc, EXPECT_EQ(urma_poll_jfc(loop.jfc, 1, &cr), -1));
}

TEST_F(DeviceLines, S1_32c_RearmWithoutJfc) {
  EXPECT_EINVAL(urma_rearm_jfc(nullptr, false));
  EXPECT_EINVAL(urma_rearm_jfc(nullptr, true));
}

TEST_F(ProviderLines, S1_32d_RearmAndWaitAnswerWithTheProvider) {
  const OwnedJfc jfc = make_jfc();
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_t* ready = nullptr;
  WITHOUT(rearm_jfc, EXPECT_EINVAL(urma_rearm_jfc(jfc, false)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_rearm_jfc(jfc, false), URMA_FAIL);
  module_->status = 1;
  EXPECT_ANSWER(urma_wait_jfc(jfce, 1, 0, &ready), 1);
  module_->status = 0;
  WITHOUT(wait_jfc, EXPECT_MINUS_ONE(urma_wait_jfc(jfce, 1, 0, &ready)));
}

TEST_F(DeviceLines, S1_32e_WaitWithoutArguments) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  EXPECT_UNTOUCHED(urma_jfc_t*, ready);
  EXPECT_MINUS_ONE(urma_wait_jfc(nullptr, 1, 0, &ready));
  EXPECT_MINUS_ONE(urma_wait_jfc(jfce, 0, 0, &ready));
  EXPECT_MINUS_ONE(urma_wait_jfc(jfce, 1, 0, nullptr));
  EXPECT_EQ(urma_wait_jfc(jfce, 1, 0, &ready), 0);
}

TEST_F(DeviceLines, S1_32f_AckWithoutArguments) {
  Loop loop(ctx_);
  std::array<urma_jfc_t*, 2> jfcs = {nullptr, loop.jfc};
  std::array<uint32_t, 2> events = {1, 0};
  urma_ack_jfc(nullptr, events.data(), 2);
  urma_ack_jfc(jfcs.data(), nullptr, 2);
  urma_ack_jfc(jfcs.data(), events.data(), 0);
  urma_ack_jfc(jfcs.data(), events.data(), 2);
  urma_ack_jfc(nullptr, nullptr, 0);
  EXPECT_EQ(loop.jfc->comp_events_acked, 0u);
  loop.check();
}

TEST_F(DeviceLines, S1_32g_AnEventFromArmingToAck) {
  const OwnedJfce jfce = urma_create_jfce(ctx_);
  urma_jfc_cfg_t cfg = jfc_cfg(jfce);
  const OwnedJfc jfc = urma_create_jfc(ctx_, &cfg);
  urma_jfs_cfg_t send_cfg = jfs_cfg(jfc);
  const OwnedJfs jfs = urma_create_jfs(ctx_, &send_cfg);
  Loop loop(ctx_, URMA_TM_RM, false);
  EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
  EXPECT_EQ(urma_write(jfs, loop.target, loop.imported, loop.segment, loop.in(), loop.out(), kSize,
                       completing(), 43),
            URMA_SUCCESS);
  pollfd readable = {jfce->fd, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 10000), 1);
  urma_jfc_t* ready = nullptr;
  EXPECT_EQ(urma_wait_jfc(jfce, 1, 10000, &ready), 1);
  EXPECT_EQ(ready, jfc);
  wait_for_success(jfc, 43);
  uint32_t events = 1;
  urma_ack_jfc(&ready, &events, 1);
  EXPECT_EQ(jfc->comp_events_acked, 1u);
  EXPECT_EQ(urma_wait_jfc(jfce, 1, 0, &ready), 0);
}

// -------------------------------------------------------------------------------------------------
// Line 33
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_33a_PostWithoutArguments) {
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  urma_jfs_wr_t sending = with_jfs.message();
  urma_jfr_wr_t receiving = with_jfs.receive();
  {
    EXPECT_UNTOUCHED(urma_jfs_wr_t*, bad);
    EXPECT_UNTOUCHED(urma_jfr_wr_t*, bad_receive);
    EXPECT_EINVAL(urma_post_jfs_wr(nullptr, &sending, &bad));
    EXPECT_EINVAL(urma_post_jfs_wr(with_jfs.jfs, nullptr, &bad));
    EXPECT_EINVAL(urma_post_jfs_wr(with_jfs.jfs, &sending, nullptr));
    EXPECT_EINVAL(urma_post_jfr_wr(nullptr, &receiving, &bad_receive));
    EXPECT_EINVAL(urma_post_jfr_wr(with_jfs.jfr, nullptr, &bad_receive));
    EXPECT_EINVAL(urma_post_jfr_wr(with_jfs.jfr, &receiving, nullptr));
    EXPECT_EINVAL(urma_post_jetty_send_wr(nullptr, &sending, &bad));
    EXPECT_EINVAL(urma_post_jetty_send_wr(with_jetty.jetty, nullptr, &bad));
    EXPECT_EINVAL(urma_post_jetty_send_wr(with_jetty.jetty, &sending, nullptr));
    EXPECT_EINVAL(urma_post_jetty_recv_wr(nullptr, &receiving, &bad_receive));
    EXPECT_EINVAL(urma_post_jetty_recv_wr(with_jetty.jetty, nullptr, &bad_receive));
    EXPECT_EINVAL(urma_post_jetty_recv_wr(with_jetty.jetty, &receiving, nullptr));
  }
  with_jetty.check();
  with_jfs.check();
}

TEST_F(ProviderLines, S1_33b_PostAnswersWithTheProvider) {
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  urma_jfs_wr_t second = with_jfs.message(), first = second, *bad = nullptr;
  first.next = &second;
  urma_jfr_wr_t second_receive = {}, first_receive = {}, *bad_receive = nullptr;
  first_receive.next = &second_receive;
  for (const int status : {URMA_ENOMEM, URMA_EINVAL, URMA_FAIL}) {
    module_->status = status;
    bad = nullptr;
    EXPECT_ANSWER(urma_post_jfs_wr(with_jfs.jfs, &first, &bad), status);
    EXPECT_EQ(bad, &second);
    bad = nullptr;
    EXPECT_ANSWER(urma_post_jetty_send_wr(with_jetty.jetty, &first, &bad), status);
    EXPECT_EQ(bad, &second);
    bad_receive = nullptr;
    EXPECT_ANSWER(urma_post_jfr_wr(with_jfs.jfr, &first_receive, &bad_receive), status);
    EXPECT_EQ(bad_receive, &second_receive);
    bad_receive = nullptr;
    EXPECT_ANSWER(urma_post_jetty_recv_wr(with_jetty.jetty, &first_receive, &bad_receive), status);
    EXPECT_EQ(bad_receive, &second_receive);
  }
  module_->status = URMA_SUCCESS;
  ctx_->ops->post_jfs_wr = nullptr, ctx_->ops->post_jetty_send_wr = nullptr;
  ctx_->ops->post_jfr_wr = nullptr, ctx_->ops->post_jetty_recv_wr = nullptr;
  EXPECT_EINVAL(urma_post_jfs_wr(with_jfs.jfs, &first, &bad));
  EXPECT_EINVAL(urma_post_jetty_send_wr(with_jetty.jetty, &first, &bad));
  EXPECT_EINVAL(urma_post_jfr_wr(with_jfs.jfr, &first_receive, &bad_receive));
  EXPECT_EINVAL(urma_post_jetty_recv_wr(with_jetty.jetty, &first_receive, &bad_receive));
}

// The one before is posted; the invalid one and the one after it are not.
void post_a_list(Loop& loop) {
  urma_jfr_wr_t receiving = loop.receive(51), *bad_receive = nullptr;
  EXPECT_EQ(loop.jetty != nullptr ? urma_post_jetty_recv_wr(loop.jetty, &receiving, &bad_receive)
                                  : urma_post_jfr_wr(loop.jfr, &receiving, &bad_receive),
            URMA_SUCCESS);
  urma_jfs_wr_t third = loop.message(54), second = loop.message(53), first = loop.message(52);
  const uint32_t no_opcode = 0x7f;
  std::memcpy(&second.opcode, &no_opcode, sizeof no_opcode);
  first.next = &second;
  second.next = &third;
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(loop.post(&first, &bad), URMA_EINVAL);
  EXPECT_EQ(bad, &second);
  for (int i = 0; i < 2; ++i) {
    const urma_cr_t cr = wait_for(loop.jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.user_ctx, cr.flag.bs.s_r == 1 ? 51u : 52u);
  }
  EXPECT_TRUE(has_nothing(loop.jfc));
}

TEST_F(DeviceLines, S1_33c_PostStopsAtTheBadRequest) {
  Loop with_jetty(ctx_), with_jfs(ctx_, URMA_TM_RM, false);
  post_a_list(with_jetty);
  post_a_list(with_jfs);
  with_jetty.check();
  with_jfs.check();
}

}  // namespace
}  // namespace urma_test
