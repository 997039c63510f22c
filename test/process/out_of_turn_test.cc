// SPDX-License-Identifier: MIT
//
// Calls before urma_init and after urma_uninit: an error and a log line, and no crash.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/process/sanitized.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

class OutOfTurnTest : public ProcessTest {};

// Objects that a program still holds when it ends the library.
struct Left {
  explicit Left(Endpoint& endpoint) : endpoint(endpoint), buffer(4096) {
    segment = endpoint.add(buffer.data(), buffer.size());
    queue = endpoint.import(endpoint.queue_id());
    remote = endpoint.import(endpoint.segment_id(segment));
  }

  void expect_refused() {
    urma_cr_t record;
    EXPECT_EQ(urma_poll_jfc(endpoint.send_jfc, 1, &record), -1);
    EXPECT_EQ(urma_rearm_jfc(endpoint.send_jfc, false), URMA_EINVAL);
    urma_jfc_t* ready;
    EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 1, 0, &ready), -1);
    urma_sge_t here = piece(segment, buffer.data(), 8);
    urma_sge_t there = piece(remote, buffer.data(), 8);
    urma_jfs_wr_t write = write_request(queue, &here, &there);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_send_wr(endpoint.jetty, &write, &bad), URMA_EINVAL);
    urma_jfr_wr_t receive = {};
    urma_jfr_wr_t* bad_receive = nullptr;
    EXPECT_EQ(urma_post_jetty_recv_wr(endpoint.jetty, &receive, &bad_receive), URMA_EINVAL);
    expect_no_control();
    expect_no_end();
  }

 private:
  void expect_no_control() {
    urma_jetty_attr_t attr = {};
    urma_jetty_cfg_t cfg = {};
    EXPECT_EQ(urma_modify_jetty(endpoint.jetty, &attr), URMA_EINVAL);
    EXPECT_EQ(urma_query_jetty(endpoint.jetty, &cfg, &attr), URMA_EINVAL);
    urma_cr_t record;
    EXPECT_EQ(urma_flush_jetty(endpoint.jetty, 1, &record), -URMA_EINVAL);
    EXPECT_EQ(urma_bind_jetty(endpoint.jetty, queue), URMA_EINVAL);
    EXPECT_EQ(urma_advise_jetty(endpoint.jetty, queue), URMA_EINVAL);
    uint32_t parts = 0;
    EXPECT_EQ(urma_ext_query_segment(remote, nullptr, &parts), URMA_EINVAL);
    urma_jfc_cfg_t jfc_cfg = jfc_config(1);
    EXPECT_EQ(urma_create_jfc(endpoint.ctx, &jfc_cfg), nullptr);
    EXPECT_EQ(urma_create_jfce(endpoint.ctx), nullptr);
    EXPECT_EQ(urma_import_seg(endpoint.ctx, &segment->seg, nullptr, 0, {}), nullptr);
    EXPECT_EQ(urma_alloc_token_id(endpoint.ctx), nullptr);
    EXPECT_EQ(urma_create_notifier(endpoint.ctx), nullptr);
    urma_async_event_t event;
    EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_EINVAL);
  }
  void expect_no_end() {
    EXPECT_EQ(urma_unimport_jetty(queue), URMA_EINVAL);
    EXPECT_EQ(urma_unimport_seg(remote), URMA_EINVAL);
    EXPECT_EQ(urma_unregister_seg(segment), URMA_EINVAL);
    EXPECT_EQ(urma_delete_jetty(endpoint.jetty), URMA_EINVAL);
    EXPECT_EQ(urma_delete_jfr(endpoint.jfr), URMA_EINVAL);
    EXPECT_EQ(urma_delete_jfc(endpoint.send_jfc), URMA_EINVAL);
    EXPECT_EQ(urma_delete_jfce(endpoint.jfce), URMA_EINVAL);
    EXPECT_EQ(urma_delete_context(endpoint.ctx), URMA_EINVAL);
  }

  Endpoint& endpoint;
  std::vector<uint8_t> buffer;
  urma_target_seg_t* segment;
  urma_target_jetty_t* queue;
  urma_target_seg_t* remote;
};

TEST_F(OutOfTurnTest, RemainingObjectsAreNamedAndRefuseCalls) {
  run_one([](Channel&) {
    const CarelessThread careless;
    Endpoint endpoint(Config{.events = true});
    Left left(endpoint);
    const LogLines lines;
    const std::string living =
        "1 JFCE, 2 JFC, 1 JFR, 1 jetty, 1 segment, 1 imported segment, 1 imported queue";
    EXPECT_EQ(urma_delete_context(endpoint.ctx), URMA_EAGAIN);
    EXPECT_LINE("urma_delete_context: 8 objects of the context still live, " + living);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    EXPECT_LINE("urma_uninit: a context of device", "still lives, with " + living);
    left.expect_refused();
    EXPECT_GE(
        LogLines::count({"urma_poll_jfc", "call urma_init again first", "urma_uninit has ended"}),
        1u)
        << LogLines::all();
    // A later start does not revive older objects.
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    left.expect_refused();
    EXPECT_GE(LogLines::count({"urma_poll_jfc", "urma_uninit has ended it"}), 1u)
        << LogLines::all();
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    EXPECT_EQ(LogLines::count({"still lives"}), 1u) << LogLines::all();
  });
}

TEST_F(OutOfTurnTest, NothingIsLoggedIfAllObjectsHaveEnded) {
  run_one([](Channel&) {
    const LogLines lines;
    Endpoint endpoint;
    endpoint.close();
    EXPECT_EQ(LogLines::count({"still live"}), 0u) << LogLines::all();
  });
}

// Each call with its errno.
TEST_F(OutOfTurnTest, CallsBeforeUrmaInitNameIt) {
  run_one([](Channel&) {
    const LogLines lines;
    char name[] = "urma_shm0";
    EXPECT_EQ(urma_get_device_by_name(name), nullptr);
    EXPECT_EQ(errno, ENODEV);
    EXPECT_LINE("urma_get_device_by_name: call urma_init first");
    int devices = 7;
    EXPECT_EQ(urma_get_device_list(&devices), nullptr);
    EXPECT_EQ(errno, ENODEV);
    EXPECT_EQ(devices, 0);
    EXPECT_LINE("urma_get_device_list: call urma_init first");
    EXPECT_EQ(urma_get_device_by_eid({}, URMA_TRANSPORT_UB), nullptr);
    EXPECT_EQ(errno, ENODEV);
    EXPECT_LINE("urma_get_device_by_eid: call urma_init first");
    urma_device_t device = {};
    EXPECT_EQ(urma_create_context(&device, 0), nullptr);
    EXPECT_LINE("urma_create_context: call urma_init first");
    urma_device_attr_t attr;
    EXPECT_NE(urma_query_device(&device, &attr), URMA_SUCCESS);
    EXPECT_LINE("urma_query_device: call urma_init first");
    uint32_t count;
    EXPECT_EQ(urma_get_eid_list(&device, &count), nullptr);
    EXPECT_LINE("urma_get_eid_list: call urma_init first");
    EXPECT_EQ(urma_create_jfce(nullptr), nullptr);
    EXPECT_LINE("urma_create_jfce: call urma_init first");
    EXPECT_EQ(urma_ext_alloc(4096, 0), nullptr);
    EXPECT_LINE("ext_alloc: call urma_init first");
    urma_ext_device_t details;
    EXPECT_NE(urma_ext_query_device(&device, &details), URMA_SUCCESS);
    EXPECT_LINE("urma_ext_query_device: call urma_init first");
    urma_ext_process_t processes[1];
    count = 1;
    EXPECT_NE(urma_ext_list_processes(processes, &count), URMA_SUCCESS);
    EXPECT_LINE("urma_ext_list_processes: call urma_init first");
    EXPECT_NE(urma_get_uasid(&count), URMA_SUCCESS);
    EXPECT_EQ(LogLines::count({"call urma_init first"}), 11u) << LogLines::all();
    EXPECT_EQ(LogLines::count({"urma_uninit"}), 0u) << LogLines::all();
  });
}

}  // namespace
}  // namespace urma_test
