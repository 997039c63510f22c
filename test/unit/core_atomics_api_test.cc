// SPDX-License-Identifier: MIT
//
// The flat atomics, and the older names of the access rights.
#include <array>

#include "test/unit/core_fake.h"
#include "urma_ext.h"
#include "urma_legacy.h"

namespace core_fake {
namespace {

// What the provider was given. The pieces only live during the call.
struct Seen {
  urma_jfs_wr_t wr;
  urma_sge_t local, remote;
};
Seen g_seen;

urma_status_t post_atomic(urma_jfs_t*, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) {
  g_seen = {*wr, *wr->cas.src, *wr->cas.dst};
  if (g_provider.status != URMA_SUCCESS) *bad_wr = wr;
  return g_provider.status;
}

class FlatAtomics : public CoreApi {
 protected:
  void SetUp() override {
    CoreApi::SetUp();
    ops_.post_jfs_wr = post_atomic;
    make_queues();
    jfs_ = urma_create_jfs(&ctx_, &jfs_cfg_);
    ASSERT_NE(jfs_, nullptr);
    target_.urma_ctx = &ctx_;
    g_seen = {};
  }
  void TearDown() override {
    EXPECT_EQ(urma_delete_jfs(jfs_), URMA_SUCCESS);
    end_queues();
    CoreApi::TearDown();
  }
  void expect_seen(urma_opcode_t opcode) {
    EXPECT_EQ(g_seen.wr.opcode, opcode);
    EXPECT_EQ(g_seen.wr.tjetty, &target_);
    EXPECT_EQ(g_seen.wr.user_ctx, 9u);
    EXPECT_EQ(g_seen.wr.next, nullptr);
    EXPECT_EQ(g_seen.wr.flag.bs.complete_enable, 1u);
    EXPECT_EQ(g_seen.wr.flag.bs.fence, 1u);
    EXPECT_EQ(g_seen.remote.tseg, &there_);
    EXPECT_EQ(g_seen.remote.addr, 0x1000u);
    EXPECT_EQ(g_seen.remote.len, 8u);
    EXPECT_EQ(g_seen.local.tseg, &here_);
    EXPECT_EQ(g_seen.local.addr, 0x2000u);
    EXPECT_EQ(g_seen.local.len, 8u);
  }
  static urma_jfs_wr_flag_t fenced() {
    urma_jfs_wr_flag_t flag = {};
    flag.bs.fence = 1;
    return flag;
  }

  urma_jfs_t* jfs_ = nullptr;
  urma_target_jetty_t target_ = {};
  urma_target_seg_t there_ = {}, here_ = {};
};

TEST_F(FlatAtomics, AreOneRequestWithACompletion) {
  EXPECT_STATUS(urma_cas(jfs_, &target_, &there_, &here_, 0x1000, 0x2000, 8, 11, 12, fenced(), 9),
                URMA_SUCCESS);
  expect_seen(URMA_OPC_CAS);
  EXPECT_EQ(g_seen.wr.cas.cmp_data, 11u);
  EXPECT_EQ(g_seen.wr.cas.swap_data, 12u);
  for (auto* call : {urma_faa, urma_fao}) {
    g_seen = {};
    EXPECT_STATUS(call(jfs_, &target_, &there_, &here_, 0x1000, 0x2000, 8, 13, fenced(), 9),
                  URMA_SUCCESS);
    expect_seen(URMA_OPC_FADD);
    EXPECT_EQ(g_seen.wr.faa.operand, 13u);
  }
}

TEST_F(FlatAtomics, ReturnWhatThePostReturns) {
  g_provider.status = URMA_ENOMEM;
  EXPECT_STATUS(urma_cas(jfs_, &target_, &there_, &here_, 8, 8, 8, 1, 2, {}, 0), URMA_ENOMEM);
  EXPECT_STATUS(urma_faa(jfs_, &target_, &there_, &here_, 8, 8, 8, 1, {}, 0), URMA_ENOMEM);
  EXPECT_STATUS(urma_fao(jfs_, &target_, &there_, &here_, 8, 8, 8, 1, {}, 0), URMA_ENOMEM);
  g_provider.status = URMA_SUCCESS;
}

TEST_F(FlatAtomics, NeedAllTheirPointers) {
  for (int missing = 0; missing < 4; ++missing) {
    urma_jfs_t* jfs = missing == 0 ? nullptr : jfs_;
    urma_target_jetty_t* target = missing == 1 ? nullptr : &target_;
    urma_target_seg_t* there = missing == 2 ? nullptr : &there_;
    urma_target_seg_t* here = missing == 3 ? nullptr : &here_;
    EXPECT_STATUS(urma_cas(jfs, target, there, here, 8, 8, 8, 1, 2, {}, 0), URMA_EINVAL);
    EXPECT_STATUS(urma_faa(jfs, target, there, here, 8, 8, 8, 1, {}, 0), URMA_EINVAL);
    EXPECT_STATUS(urma_fao(jfs, target, there, here, 8, 8, 8, 1, {}, 0), URMA_EINVAL);
  }
  EXPECT_EQ(g_seen.wr.opcode, 0);
}

// The specification's requirements on rights also hold for sources that use the older names.
TEST_F(FlatAtomics, OlderAccessNamesRegister) {
  const std::array accesses = {
      URMA_ACCESS_LOCAL_WRITE,
      URMA_ACCESS_REMOTE_READ,
      URMA_ACCESS_LOCAL_WRITE | URMA_ACCESS_REMOTE_READ,
      URMA_ACCESS_LOCAL_WRITE | URMA_ACCESS_REMOTE_WRITE,
      URMA_ACCESS_LOCAL_WRITE | URMA_ACCESS_REMOTE_ATOMIC,
      URMA_ACCESS_LOCAL_WRITE | URMA_ACCESS_REMOTE_READ | URMA_ACCESS_REMOTE_WRITE |
          URMA_ACCESS_REMOTE_ATOMIC,
  };
  const std::array meant = {0, URMA_ACCESS_READ, URMA_ACCESS_READ, 6, 14, 14};
  for (size_t i = 0; i < accesses.size(); ++i) {
    urma_seg_cfg_t cfg = {};
    cfg.va = 0x1000;
    cfg.flag.bs.access = static_cast<uint32_t>(accesses[i]);
    urma_target_seg_t* tseg = urma_register_seg(&ctx_, &cfg);
    ASSERT_NE(tseg, nullptr) << i;
    EXPECT_EQ(g_provider.seg_cfg.flag.bs.access, static_cast<uint32_t>(meant[i]));
    EXPECT_EQ(urma_unregister_seg(tseg), URMA_SUCCESS);
  }
}

}  // namespace
}  // namespace core_fake
