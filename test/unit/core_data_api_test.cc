// SPDX-License-Identifier: MIT
#include "test/unit/core_fake.h"

namespace core_fake {
namespace {

TEST_F(CoreApi, TokenIdsAreCountedBySegments) {
  EXPECT_NULL(urma_alloc_token_id(nullptr), EINVAL);
  urma_token_id_flag_t multi = {};
  multi.bs.multi_seg = 1;
  EXPECT_NULL(urma_alloc_token_id_ex(&ctx_, multi), EINVAL);
  urma_token_id_t* token_id = urma_alloc_token_id(&ctx_);
  urma_seg_cfg_t cfg = {};
  cfg.va = 0x1000;
  cfg.len = 100;
  cfg.token_id = token_id;
  EXPECT_NULL(urma_register_seg(&ctx_, &cfg), EINVAL);  // token_id_valid is 0
  cfg.flag.bs.token_id_valid = 1;
  cfg.flag.bs.dsva = 1;
  urma_target_seg_t* tseg = urma_register_seg(&ctx_, &cfg);
  ASSERT_NE(tseg, nullptr);
  EXPECT_EQ(tseg->token_id, token_id);
  EXPECT_EQ(tseg->seg.ubva.va, 0x1000u);
  EXPECT_EQ(tseg->seg.ubva.uasid, 77u);
  EXPECT_EQ(tseg->seg.attr.bs.user_token_id, 1u);
  EXPECT_EQ(tseg->seg.attr.bs.dsva, 0u);
  EXPECT_EQ(children(), 2u);
  urma_seg_t* seg = nullptr;
  uint32_t size = 0;
  EXPECT_STATUS(urma_get_seg_ctx(tseg, &seg, nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_get_seg_ctx(tseg, &seg, &size), URMA_SUCCESS);
  EXPECT_EQ(size, sizeof(urma_seg_t));
  EXPECT_EQ(seg->len, 100u);
  urma_put_seg_ctx(seg);
  EXPECT_STATUS(urma_free_token_id(token_id), URMA_EINVAL);
  g_provider.status = URMA_EAGAIN;
  EXPECT_STATUS(urma_unregister_seg(tseg), URMA_FAIL);
  EXPECT_EQ(token_id->ref.atomic_cnt, 1u);
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_unregister_seg(tseg), URMA_SUCCESS);
  EXPECT_EQ(token_id->ref.atomic_cnt, 0u);
  EXPECT_STATUS(urma_free_token_id(token_id), URMA_SUCCESS);
  EXPECT_STATUS(urma_free_token_id(nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_unregister_seg(nullptr), URMA_EINVAL);
}

TEST_F(CoreApi, SegmentWithoutTokenIdGetsAPrivateOne) {
  urma_seg_cfg_t cfg = {};
  EXPECT_NULL(urma_register_seg(&ctx_, &cfg), EINVAL);  // va is 0
  cfg.va = 0x1000;
  urma_target_seg_t* tseg = urma_register_seg(&ctx_, &cfg);
  ASSERT_NE(tseg, nullptr);
  EXPECT_EQ(g_provider.calls, 2);
  EXPECT_NE(g_provider.seg_cfg.token_id, nullptr);
  EXPECT_EQ(g_provider.seg_cfg.flag.bs.token_id_valid, 1u);
  EXPECT_EQ(tseg->seg.attr.bs.user_token_id, 0u);
  EXPECT_EQ(cfg.token_id, nullptr);
  EXPECT_EQ(children(), 1u);
  EXPECT_STATUS(urma_unregister_seg(tseg), URMA_SUCCESS);
  EXPECT_EQ(g_provider.calls, 4);
  ops_.alloc_token_id = nullptr;
  EXPECT_NULL(urma_register_seg(&ctx_, &cfg), EINVAL);
}

TEST_F(CoreApi, AccessRights) {
  urma_seg_cfg_t cfg = {};
  cfg.va = 0x1000;
  for (uint32_t access = 0; access < 16; ++access) {
    cfg.flag.bs.access = access;
    urma_target_seg_t* tseg = urma_register_seg(&ctx_, &cfg);
    const bool possible = access == 0 || access == 1 || access == 2 || access == 6 || access == 14;
    EXPECT_EQ(tseg != nullptr, possible) << access;
    if (tseg != nullptr) {
      EXPECT_EQ(urma_unregister_seg(tseg), URMA_SUCCESS);
    }
  }
  urma_seg_t seg = {};
  seg.attr.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  EXPECT_NULL(urma_import_seg(&ctx_, &seg, nullptr, 0, {}), EINVAL);
  seg.attr.bs.token_policy = URMA_TOKEN_NONE;
  urma_target_seg_t* imported = urma_import_seg(&ctx_, &seg, nullptr, 0, {});
  ASSERT_NE(imported, nullptr);
  EXPECT_STATUS(urma_unimport_seg(imported), URMA_SUCCESS);
  EXPECT_STATUS(urma_unimport_seg(nullptr), URMA_EINVAL);
}

TEST_F(CoreApi, FlatCallsBuildOneRequest) {
  make_queues();
  urma_jfs_t* jfs = urma_create_jfs(&ctx_, &jfs_cfg_);
  urma_target_jetty_t target = {};
  target.urma_ctx = &ctx_;
  urma_target_seg_t near = {}, far = {};
  urma_jfs_wr_flag_t flag = {};
  flag.bs.complete_enable = 1;
  EXPECT_STATUS(urma_write(nullptr, &target, &far, &near, 1, 2, 3, flag, 4), URMA_EINVAL);
  EXPECT_STATUS(urma_write(jfs, nullptr, &far, &near, 1, 2, 3, flag, 4), URMA_EINVAL);
  EXPECT_STATUS(urma_write(jfs, &target, &far, nullptr, 1, 2, 3, flag, 4), URMA_SUCCESS);
  EXPECT_EQ(g_provider.send_wr.opcode, URMA_OPC_WRITE);
  EXPECT_EQ(g_provider.send_wr.user_ctx, 4u);
  EXPECT_EQ(g_provider.send_wr.tjetty, &target);
  EXPECT_EQ(g_provider.send_wr.flag.value, flag.value);
  EXPECT_EQ(g_provider.send_wr.next, nullptr);
  EXPECT_EQ(g_provider.dst.addr, 1u);
  EXPECT_EQ(g_provider.dst.tseg, &far);
  EXPECT_EQ(g_provider.src.addr, 2u);
  EXPECT_EQ(g_provider.src.len, 3u);
  EXPECT_EQ(g_provider.src.user_tseg, nullptr);
  EXPECT_STATUS(urma_read(jfs, &target, &near, nullptr, 1, 2, 3, flag, 4), URMA_EINVAL);
  EXPECT_STATUS(urma_read(jfs, &target, &near, &far, 1, 2, 3, flag, 4), URMA_SUCCESS);
  EXPECT_EQ(g_provider.send_wr.opcode, URMA_OPC_READ);
  EXPECT_EQ(g_provider.src.tseg, &far);
  EXPECT_EQ(g_provider.dst.tseg, &near);
  EXPECT_STATUS(urma_send(jfs, nullptr, &near, 2, 3, flag, 4), URMA_EINVAL);
  EXPECT_STATUS(urma_send(jfs, &target, nullptr, 2, 3, flag, 4), URMA_EINVAL);
  flag.bs.inline_flag = 1;
  g_provider.status = URMA_ENOMEM;
  EXPECT_STATUS(urma_send(jfs, &target, nullptr, 2, 3, flag, 4), URMA_ENOMEM);
  EXPECT_EQ(g_provider.src.addr, 2u);
  g_provider.status = URMA_SUCCESS;
  EXPECT_STATUS(urma_recv(nullptr, &near, 1, 2, 3), URMA_EINVAL);
  EXPECT_STATUS(urma_recv(jfr_, nullptr, 1, 2, 3), URMA_EINVAL);
  EXPECT_STATUS(urma_recv(jfr_, &near, 0, 2, 3), URMA_FAIL);
  EXPECT_STATUS(urma_recv(jfr_, &near, 1, 2, 3), URMA_SUCCESS);
  EXPECT_EQ(g_provider.recv_wr.user_ctx, 3u);
  EXPECT_EQ(g_provider.src.addr, 1u);
  EXPECT_STATUS(urma_delete_jfs(jfs), URMA_SUCCESS);
  end_queues();
}

TEST_F(CoreApi, PollArmWaitAck) {
  make_queues();
  urma_jfce_t* jfce = urma_create_jfce(&ctx_);
  urma_cr_t cr;
  EXPECT_EQ(urma_poll_jfc(nullptr, 1, &cr), -1);
  EXPECT_EQ(urma_poll_jfc(jfc_, -1, &cr), -1);
  EXPECT_EQ(urma_poll_jfc(jfc_, 1, nullptr), -1);
  int calls = g_provider.calls;
  EXPECT_EQ(urma_poll_jfc(jfc_, 0, &cr), 0);
  EXPECT_EQ(g_provider.calls, calls);
  g_provider.status = -EIO;
  EXPECT_EQ(urma_poll_jfc(jfc_, 1, &cr), -EIO);
  g_provider.status = 1;
  EXPECT_EQ(urma_poll_jfc(jfc_, 1, &cr), 1);
  g_provider.status = 0;
  EXPECT_STATUS(urma_rearm_jfc(nullptr, false), URMA_EINVAL);
  EXPECT_STATUS(urma_rearm_jfc(jfc_, false), URMA_SUCCESS);
  urma_jfc_t* fired = nullptr;
  EXPECT_EQ(urma_wait_jfc(nullptr, 1, 0, &fired), -1);
  EXPECT_EQ(urma_wait_jfc(jfce, 0, 0, &fired), -1);
  EXPECT_EQ(urma_wait_jfc(jfce, 1, 0, nullptr), -1);
  EXPECT_EQ(urma_wait_jfc(jfce, 1, 0, &fired), 0);
  urma_jfc_t* jfcs[] = {nullptr, jfc_};
  uint32_t events[] = {1, 1};
  calls = g_provider.calls;
  urma_ack_jfc(nullptr, events, 2);
  urma_ack_jfc(jfcs, nullptr, 2);
  urma_ack_jfc(jfcs, events, 0);
  urma_ack_jfc(jfcs, events, 1);
  EXPECT_EQ(g_provider.calls, calls);
  urma_ack_jfc(jfcs, events, 2);
  EXPECT_EQ(g_provider.calls, calls + 1);
  EXPECT_STATUS(urma_delete_jfce(jfce), URMA_SUCCESS);
  end_queues();
}

TEST(CoreEid, Strings) {
  urma_eid_t eid;
  for (const char* text :
       {"1", "12", "not-an-eid", "abc", "-123", " -123", "4294967296", "12x4", "0x", "1.2.3", ""}) {
    EXPECT_EQ(urma_str_to_eid(text, &eid), -EINVAL) << text;
  }
  EXPECT_EQ(urma_str_to_eid(nullptr, &eid), -EINVAL);
  EXPECT_EQ(urma_str_to_eid("1.2.3.4", nullptr), -EINVAL);
  const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 10, 1};
  ASSERT_EQ(urma_str_to_eid("192.168.10.1", &eid), 0);
  EXPECT_EQ(std::memcmp(eid.raw, mapped, sizeof mapped), 0);
  ASSERT_EQ(urma_str_to_eid("0xc0a80a01", &eid), 0);
  EXPECT_EQ(std::memcmp(eid.raw, mapped, sizeof mapped), 0);
  ASSERT_EQ(urma_str_to_eid(" 3232238081", &eid), 0);
  EXPECT_EQ(std::memcmp(eid.raw, mapped, sizeof mapped), 0);
  ASSERT_EQ(urma_str_to_eid("2001:db8::1", &eid), 0);
  EXPECT_EQ(eid.raw[0], 0x20);
  EXPECT_EQ(eid.raw[15], 1);
}

TEST_F(CoreApi, PerfMeasuresOnlyWhileStarted) {
  make_queues();
  urma_cr_t cr;
  char text[4096];
  uint32_t length = 1;
  EXPECT_STATUS(urma_start_perf(), URMA_SUCCESS);
  for (int i = 0; i < 5; ++i) urma_poll_jfc(jfc_, 1, &cr);
  EXPECT_STATUS(urma_stop_perf(), URMA_SUCCESS);
  urma_poll_jfc(jfc_, 1, &cr);
  EXPECT_STATUS(urma_get_perf_info(nullptr, &length), URMA_EINVAL);
  EXPECT_STATUS(urma_get_perf_info(text, nullptr), URMA_EINVAL);
  EXPECT_STATUS(urma_get_perf_info(text, &length), URMA_EINVAL);
  EXPECT_EQ(length, 1u);
  length = sizeof text;
  EXPECT_STATUS(urma_get_perf_info(text, &length), URMA_SUCCESS);
  EXPECT_EQ(length, std::strlen(text) + 1);
  EXPECT_NE(std::strstr(text, "UB_JFS_POST_SEND"), nullptr);
  const std::string row = std::strstr(text, "\nUB_POLL_JFC") + std::strlen("\nUB_POLL_JFC");
  EXPECT_EQ(std::stoi(row), 5);
  end_queues();
}

}  // namespace
}  // namespace core_fake
