// SPDX-License-Identifier: MIT
//
// The faults of URMA_FAULT over a device: the rules of docs/reference/faults.md.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>

#include "test/process/configs.h"
#include "test/verbs/module_fixture.h"

namespace urma::verbs {
namespace {

class ModuleFaultTest : public ModuleTest {
 protected:
  ~ModuleFaultTest() override { ::unsetenv("URMA_FAULT"); }

  void start_with(const char* faults) {
    ASSERT_EQ(::setenv("URMA_FAULT", faults, 1), 0);
    start({});
    segment_ = add(memory_, sizeof(memory_));
    urma_token_t token = {0};
    imported_ = urma_import_seg(ctx_, &segment_->seg, &token, 0, urma_import_seg_flag_t{});
    ASSERT_NE(imported_, nullptr);
  }
  void end() {
    EXPECT_EQ(urma_unimport_seg(imported_), URMA_SUCCESS);
    EXPECT_EQ(urma_unregister_seg(segment_), URMA_SUCCESS);
  }
  // One word to the next.
  void post_write(const Loop& loop) {
    ++memory_[0];
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, piece(segment_, address(&memory_[0]), 8),
                        piece(imported_, address(&memory_[1]), 8)),
              URMA_SUCCESS);
  }
  // Its status, and whether it was executed.
  void write(const Loop& loop, urma_cr_status_t status) {
    post_write(loop);
    EXPECT_EQ(loop.status(), status);
    EXPECT_EQ(memory_[1] == memory_[0], status == URMA_CR_SUCCESS);
  }
  void expect_event(urma_async_event_type_t type) {
    urma_async_event_t event;
    ASSERT_EQ(urma_get_async_event(ctx_, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, type);
    urma_ack_async_event(&event);
  }
  static uint64_t sending_connection() {
    for (const urma_ext_connection_t& end : all(urma_ext_query_connections)) {
      if (end.incoming == 0) return end.handle;
    }
    return 0;
  }

  alignas(8) uint64_t memory_[2] = {};
  urma_target_seg_t* segment_ = nullptr;
  urma_target_seg_t* imported_ = nullptr;
};

TEST_F(ModuleFaultTest, FaultsFollowThePlan) {
  start_with("token:op=write,after=1,count=1;rnr:after=1,count=1");
  {
    const Loop loop(ctx_);
    write(loop, URMA_CR_SUCCESS);
    write(loop, URMA_CR_REM_ACCESS_ABORT_ERR);
    write(loop, URMA_CR_SUCCESS);
    loop.post_receive();
    loop.post_receive();
    for (const urma_cr_status_t status :
         {URMA_CR_SUCCESS, URMA_CR_RNR_RETRY_CNT_EXC_ERR, URMA_CR_SUCCESS}) {
      ASSERT_EQ(loop.send(loop.target), URMA_SUCCESS);
      EXPECT_EQ(loop.status(), status);
      // That of the receive.
      if (status == URMA_CR_SUCCESS) {
        EXPECT_EQ(loop.status(), status);
      }
    }
  }
  end();
}

// It is held back, and later ones with it, until its queue ends.
TEST_F(ModuleFaultTest, ADelayHoldsBackLaterRequests) {
  start_with("delay:ms=3600000,op=write,after=1,count=1");
  {
    const Loop loop(ctx_);
    write(loop, URMA_CR_SUCCESS);
    post_write(loop);
    post_write(loop);
    urma_cr_t record;
    EXPECT_EQ(urma_poll_jfc(loop.jfc, 1, &record), 0);
    urma_jfs_attr_t attr = {};
    attr.mask = JFS_STATE;
    attr.state = URMA_JETTY_STATE_ERROR;
    ASSERT_EQ(urma_modify_jfs(loop.jfs, &attr), URMA_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(loop.status(), URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(memory_[1] + 2, memory_[0]);
  }
  end();
}

TEST_F(ModuleFaultTest, AnEndedConnectionIsReplaced) {
  start_with("drop:op=write,after=1,count=1");
  {
    const Loop loop(ctx_);
    write(loop, URMA_CR_SUCCESS);
    const uint64_t first = sending_connection();
    write(loop, URMA_CR_ACK_TIMEOUT_ERR);
    write(loop, URMA_CR_SUCCESS);
    EXPECT_NE(sending_connection(), first);
    write(loop, URMA_CR_SUCCESS);
  }
  end();
}

// Both ends are in this process, which seems to be gone.
TEST_F(ModuleFaultTest, AnEndedConnectionIsReportedToBoundJettys) {
  start_with("drop:op=write,after=1,count=1");
  urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(64);
  urma_jfc_t* jfc = urma_create_jfc(ctx_, &jfc_cfg);
  urma_jfr_cfg_t jfr_cfg = urma_test::jfr_config(jfc, 16, URMA_TM_RC);
  urma_jfr_t* jfr = urma_create_jfr(ctx_, &jfr_cfg);
  urma_jetty_cfg_t cfg = urma_test::jetty_config(jfr, urma_test::jfs_config(jfc, 16, URMA_TM_RC));
  urma_jetty_t* ends[2];
  for (urma_jetty_t*& end : ends) {
    end = urma_create_jetty(ctx_, &cfg);
    ASSERT_NE(end, nullptr);
  }
  urma_target_jetty_t* targets[2];
  for (int i = 0; i < 2; ++i) {
    urma_rjetty_t remote = urma_test::remote_jetty(ends[1 - i]->jetty_id, URMA_TM_RC);
    remote.flag.bs.token_policy = URMA_TOKEN_NONE;
    urma_token_t token = {0};
    targets[i] = urma_import_jetty(ctx_, &remote, &token);
    ASSERT_EQ(urma_bind_jetty(ends[i], targets[i]), URMA_SUCCESS);
  }
  urma_sge_t from = piece(segment_, address(&memory_[0]), 8);
  urma_sge_t to = piece(imported_, address(&memory_[1]), 8);
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_WRITE;
  wr.flag.bs.complete_enable = 1;
  wr.rw.src = {&from, 1};
  wr.rw.dst = {&to, 1};
  for (const urma_cr_status_t status : {URMA_CR_SUCCESS, URMA_CR_ACK_TIMEOUT_ERR}) {
    urma_jfs_wr_t* bad = nullptr;
    ASSERT_EQ(urma_post_jetty_send_wr(ends[0], &wr, &bad), URMA_SUCCESS);
    urma_cr_t record = {};
    ASSERT_TRUE(soon([&] { return urma_poll_jfc(jfc, 1, &record) == 1; }));
    EXPECT_EQ(record.status, status);
  }
  expect_event(URMA_EVENT_JETTY_ERR);
  expect_event(URMA_EVENT_JETTY_ERR);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(urma_unbind_jetty(ends[i]), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_jetty(targets[i]), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jetty(ends[i]), URMA_SUCCESS);
  }
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  end();
}

TEST_F(ModuleFaultTest, AQueueFailsAfterItsRequest) {
  start_with("queue:op=write");
  {
    const Loop loop(ctx_);
    post_write(loop);
    expect_event(URMA_EVENT_JFS_ERR);
    urma_jfs_cfg_t cfg;
    urma_jfs_attr_t attr = {};
    ASSERT_EQ(urma_query_jfs(loop.jfs, &cfg, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.state, URMA_JETTY_STATE_ERROR);
  }
  end();
}

TEST_F(ModuleFaultTest, AReceiverFailsAfterAReceive) {
  start_with("jfr:after=1");
  {
    const Loop loop(ctx_);
    loop.post_receive();
    loop.post_receive();
    expect_event(URMA_EVENT_JFR_ERR);
    EXPECT_EQ(loop.status(), URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(loop.status(), URMA_CR_WR_FLUSH_ERR);
  }
  end();
}

// In mode UM no one is told what happened to a message.
TEST_F(ModuleFaultTest, DatagramsAreLost) {
  start_with("rnr:count=1");
  {
    const Loop loop(ctx_, URMA_TM_UM);
    loop.post_receive();
    for (const int received : {0, 1}) {
      ASSERT_EQ(loop.send(loop.target), URMA_SUCCESS);
      EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
      if (received != 0) {
        EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
      }
    }
    urma_cr_t record;
    EXPECT_EQ(urma_poll_jfc(loop.jfc, 1, &record), 0);
  }
  end();
}

TEST_F(ModuleFaultTest, APortThatIsDownDoesNotAnswer) {
  start_with("port");
  expect_event(URMA_EVENT_PORT_DOWN);
  {
    const Loop loop(ctx_);
    write(loop, URMA_CR_ACK_TIMEOUT_ERR);
  }
  end();
}

TEST_F(ModuleFaultTest, AFailedDeviceExecutesNothing) {
  start_with("fatal");
  expect_event(URMA_EVENT_DEV_FATAL);
  {
    const Loop loop(ctx_);
    write(loop, URMA_CR_LOC_OPERATION_ERR);
  }
  end();
}

}  // namespace
}  // namespace urma::verbs
