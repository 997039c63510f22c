// SPDX-License-Identifier: MIT
//
// The provider behind the C interface: a message that is the first on its connection, and whose
// queue is deleted right after it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "test/verbs/module_fixture.h"

namespace urma::verbs {
namespace {

constexpr int kRounds = 20;

// A message of a JFS that is gone when this returns.
void send_and_delete(const Loop& loop, urma_target_jetty_t* to) {
  urma_jfs_cfg_t cfg = loop.jfs->jfs_cfg;
  urma_jfs_t* jfs = urma_create_jfs(loop.ctx, &cfg);
  ASSERT_NE(jfs, nullptr);
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND;
  wr.tjetty = to;
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(urma_post_jfs_wr(jfs, &wr, &bad), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
}

TEST_F(ModuleTest, TheFirstMessageArrivesThoughItsQueueIsDeleted) {
  start({});
  const Loop loop(ctx_);
  for (int round = 0; round < kRounds; ++round) {
    loop.post_receive();
    send_and_delete(loop, loop.target);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
  }
}

TEST_F(ModuleTest, TheFirstMessageArrivesThoughItsImportEnds) {
  start({});
  const Loop loop(ctx_);
  for (int round = 0; round < kRounds; ++round) {
    loop.post_receive();
    urma_target_jetty_t* target = loop.import(loop.jfr->jfr_id);
    EXPECT_EQ(loop.send(target), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_jfr(target), URMA_SUCCESS);
    // Of the message, and of the receive.
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
  }
}

TEST_F(ModuleTest, AnEndDoesNotWaitForAMissingPeer) {
  ::setenv("URMA_VERBS_TIMEOUT_MS", "100", 1);
  start({});
  ::unsetenv("URMA_VERBS_TIMEOUT_MS");
  const Loop loop(ctx_);
  urma_jfr_id_t nobody = loop.jfr->jfr_id;
  nobody.id = 4711;
  urma_target_jetty_t* target = loop.import(nobody);
  send_and_delete(loop, target);
  EXPECT_EQ(urma_unimport_jfr(target), URMA_SUCCESS);
  // Like a process that is stopped.
  fake->set_datagrams({.lost = 1});
  send_and_delete(loop, loop.target);
  EXPECT_EQ(loop.send(loop.target), URMA_SUCCESS);
  urma_jfs_attr_t attr = {};
  attr.mask = JFS_STATE;
  attr.state = URMA_JETTY_STATE_ERROR;
  EXPECT_EQ(urma_modify_jfs(loop.jfs, &attr), URMA_SUCCESS);
  EXPECT_EQ(loop.status(), URMA_CR_WR_FLUSH_ERR);
  EXPECT_EQ(loop.status(), URMA_CR_WR_FLUSH_ERR_DONE);
  fake->set_datagrams({});
}

// While it waits, its JFC stays: another thread cannot delete it.
TEST_F(ModuleTest, AnEndThatWaitsKeepsItsJfc) {
  ::setenv("URMA_VERBS_TIMEOUT_MS", "100", 1);
  start({});
  ::unsetenv("URMA_VERBS_TIMEOUT_MS");
  const Loop loop(ctx_);
  urma_jfc_cfg_t jfc_cfg = loop.jfc->jfc_cfg;
  urma_jfc_t* jfc = urma_create_jfc(ctx_, &jfc_cfg);
  ASSERT_NE(jfc, nullptr);
  urma_jfs_cfg_t cfg = loop.jfs->jfs_cfg;
  cfg.jfc = jfc;
  urma_jfs_t* jfs = urma_create_jfs(ctx_, &cfg);
  ASSERT_NE(jfs, nullptr);
  fake->set_datagrams({.lost = 1});
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND;
  wr.tjetty = loop.target;
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(urma_post_jfs_wr(jfs, &wr, &bad), URMA_SUCCESS);
  std::thread end([jfs] { EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS); });
  EXPECT_TRUE(soon([jfc] { return urma_delete_jfc(jfc) == URMA_SUCCESS; }));
  end.join();
  fake->set_datagrams({});
}

// If the message finds no receive.
TEST_F(ModuleTest, DeletingDoesNotWaitForAReceive) {
  start({});
  const Loop loop(ctx_);
  send_and_delete(loop, loop.target);
}

// In a process of its own, as nobody can delete such a context.
TEST_F(ModuleTest, PeersLoseWhatOutlivesTheLibrary) {
  const auto use = [this] {
    start({});
    static char memory[64];
    if (add(memory, sizeof(memory)) == nullptr) return 1;
    // Nobody ends it.
    auto* const loop = new Loop(ctx_);
    loop->post_receive();
    if (loop->send(loop->target) != URMA_SUCCESS || loop->status() != URMA_CR_SUCCESS) return 2;
    urma_jfr_cfg_t cfg = urma_test::jfr_config(loop->jfc, 16, URMA_TM_RM);
    cfg.id = 77;
    if (urma_create_jfr(ctx_, &cfg) == nullptr) return 3;
    if (fake->queue_pairs().empty() || fake->locked_bytes() == 0) return 4;
    if (urma_uninit() != URMA_SUCCESS) return 5;
    if (!fake->queue_pairs().empty() || fake->locked_bytes() != 0) return 6;
    // The next one may choose the same id.
    if (urma_module_entry(kUrmaHostVersion, host()) != 0 || urma_init(nullptr) != URMA_SUCCESS) {
      return 7;
    }
    char name[] = "urma_fake0";
    urma_context_t* const next = urma_create_context(urma_get_device_by_name(name), 0);
    urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(64);
    cfg.jfc = urma_create_jfc(next, &jfc_cfg);
    return urma_create_jfr(next, &cfg) == nullptr ? 8 : 0;
  };
  EXPECT_EXIT(std::_Exit(use()), testing::ExitedWithCode(0), "");
  start({});
}

}  // namespace
}  // namespace urma::verbs
