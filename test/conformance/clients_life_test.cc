// SPDX-License-Identifier: MIT
//
// What programs rely on when queues fail and end, and in the fields of structs that they read
// directly.
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <thread>

#include "test/conformance/clients.h"
#include "test/process/configs.h"
#include "test/process/owned.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

// -------------------------------------------------------------------------------------------------
// 7. Teardown and errors
// -------------------------------------------------------------------------------------------------

void fail_receives(Endpoint& endpoint) {
  urma_jfr_attr_t attr = {};
  attr.mask = JFR_STATE;
  attr.state = URMA_JFR_STATE_ERROR;
  EXPECT_EQ(urma_modify_jfr(endpoint.jfr, &attr), URMA_SUCCESS);
}

void fail_sends(Endpoint& endpoint) {
  if (endpoint.jetty != nullptr) {
    urma_jetty_attr_t attr = {};
    attr.mask = JETTY_STATE;
    attr.state = URMA_JETTY_STATE_ERROR;
    EXPECT_EQ(urma_modify_jetty(endpoint.jetty, &attr), URMA_SUCCESS);
  } else {
    urma_jfs_attr_t attr = {};
    attr.mask = JFS_STATE;
    attr.state = URMA_JETTY_STATE_ERROR;
    EXPECT_EQ(urma_modify_jfs(endpoint.jfs, &attr), URMA_SUCCESS);
  }
}

int flush(Endpoint& endpoint, int count, urma_cr_t* records) {
  return endpoint.jetty != nullptr ? urma_flush_jetty(endpoint.jetty, count, records)
                                   : urma_flush_jfs(endpoint.jfs, count, records);
}

void expect_marker(const Endpoint& endpoint) {
  const urma_cr_t cr = wait_for(endpoint.send_jfc);
  EXPECT_EQ(cr.status, URMA_CR_WR_FLUSH_ERR_DONE);
  EXPECT_EQ(cr.local_id, endpoint.sender_id());
  EXPECT_EQ(cr.flag.bs.s_r, 0);
  EXPECT_EQ(cr.flag.bs.flush_err_done, 1);
}

// No more records come; polls often enough to see a late one.
void expect_silence(urma_jfc_t* jfc) {
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(has_nothing(jfc));
}

// `receives` posted, and `sends` that wait for a receive of the peer.
void tear_down(const Config& config, uint64_t receives, uint64_t sends) {
  run_two(
      "leaver",
      [=](Channel& channel) {
        Speaker speaker(config);
        Endpoint& endpoint = speaker.endpoint;
        for (uint64_t i = 0; i < receives; ++i) speaker.post_receive(100 + i);
        speaker.meet(channel);
        for (uint64_t i = 0; i < sends; ++i) speaker.send(64, i);
        fail_receives(endpoint);
        fail_sends(endpoint);
        for (uint64_t i = 0; i < receives; ++i) {
          const urma_cr_t cr = wait_for(endpoint.receive_jfc);
          EXPECT_EQ(cr.status, URMA_CR_WR_FLUSH_ERR);
          EXPECT_EQ(cr.user_ctx, 100 + i);
          EXPECT_EQ(cr.flag.bs.s_r, 1);
        }
        for (uint64_t i = 0; i < sends; ++i) {
          const urma_cr_t cr = wait_for(endpoint.send_jfc);
          EXPECT_EQ(cr.status, URMA_CR_WR_FLUSH_ERR);
          EXPECT_EQ(cr.user_ctx, i);
          EXPECT_EQ(cr.flag.bs.s_r, 0);
          EXPECT_EQ(cr.local_id, endpoint.sender_id());
        }
        urma_cr_t left[4];
        expect_marker(endpoint);
        fail_sends(endpoint);  // asked twice: still one marker
        EXPECT_EQ(flush(endpoint, 4, left), 0);
        expect_silence(endpoint.send_jfc);
        expect_silence(endpoint.receive_jfc);
        channel.sync();
        endpoint.close();
      },
      "peer",
      [=](Channel& channel) {
        Speaker speaker(config);
        speaker.meet(channel);
        channel.sync();
        speaker.endpoint.close();
      });
}

TEST_F(Clients, C7_01_EverythingComesBackAndThenTheMarker) {
  struct Count {
    uint64_t receives, sends;
  };
  for (const auto mode : {URMA_TM_RM, URMA_TM_RC}) {
    for (const bool jetty : {true, false}) {
      if (mode == URMA_TM_RC && !jetty) continue;
      for (const Count count : {Count{0, 0}, Count{3, 0}, Count{0, 5}, Count{20, 20}}) {
        // Requests that wait for a receive, on devices where messages do.
        if (count.sends > 0 && !device_traits().immediates) continue;
        SCOPED_TRACE(std::to_string(mode) + (jetty ? " jetty " : " JFS and JFR ") +
                     std::to_string(count.receives) + "/" + std::to_string(count.sends));
        tear_down(config_of(mode, jetty), count.receives, count.sends);
      }
    }
  }
}

// Requests posted to a failed queue are returned: by poll, or by flush once the marker is polled.
TEST_F(Clients, C7_01_FlushReturnsAllRequests) {
  run_one([](Channel&) {
    for (const bool jetty : {true, false}) {
      Self self(config_of(URMA_TM_RM, jetty));
      Endpoint& endpoint = self.endpoint;
      urma_cr_t records[8];
      fail_receives(endpoint);
      fail_sends(endpoint);
      EXPECT_EQ(flush(endpoint, 8, records), 0);  // the marker comes first
      expect_marker(endpoint);
      urma_sge_t here = piece(self.segment, self.out(), 8);
      for (uint64_t i = 0; i < 5; ++i) endpoint.post(send_request(self.queue, &here, i));
      uint64_t next = 0;
      for (int n; (n = flush(endpoint, 2, records)) > 0;) {
        ASSERT_LE(n, 2);
        for (int i = 0; i < n; ++i) {
          EXPECT_EQ(records[i].status, URMA_CR_WR_UNHANDLED);
          EXPECT_EQ(records[i].user_ctx, next++);
          EXPECT_EQ(records[i].local_id, endpoint.sender_id());
        }
      }
      EXPECT_EQ(next, 5u);
      EXPECT_EQ(flush(endpoint, 8, records), 0);
      expect_silence(endpoint.send_jfc);
    }
  });
}

TEST_F(Clients, C7_01_DeleteStraightFromReady) {
  for (const auto mode : {URMA_TM_RM, URMA_TM_RC}) {
    run_two(
        "leaver",
        [mode](Channel& channel) {
          Speaker speaker(config_of(mode));
          for (int i = 0; i < 10; ++i) speaker.post_receive();
          speaker.meet(channel);
          for (int i = 0; i < 10; ++i) speaker.send(64);
          speaker.endpoint.close();
          channel.sync();
        },
        "peer",
        [mode](Channel& channel) {
          Speaker speaker(config_of(mode));
          speaker.meet(channel);
          channel.sync();
          speaker.endpoint.close();
        });
  }
}

TEST_F(Clients, C7_02_BothSidesBindAtTheSameTime) {
  const auto body = [](Channel& channel) {
    for (int round = 0; round < 20; ++round) {
      Speaker speaker(config_of(URMA_TM_RC));
      Endpoint& endpoint = speaker.endpoint;
      speaker.post_receive(1);
      urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
      EXPECT_EQ(endpoint.jetty->remote_jetty, nullptr);
      channel.sync();
      EXPECT_EQ(urma_bind_jetty(endpoint.jetty, peer), URMA_SUCCESS);
      EXPECT_EQ(endpoint.jetty->remote_jetty, peer);
      speaker.send(8, 2);
      wait_for_success(endpoint.send_jfc, 2);
      wait_for_success(endpoint.receive_jfc, 1);
      channel.sync();
      EXPECT_EQ(urma_unbind_jetty(endpoint.jetty), URMA_SUCCESS);
      EXPECT_EQ(endpoint.jetty->remote_jetty, nullptr);
      channel.sync();
      endpoint.close();
    }
  };
  run_two("first", body, "second", body);
}

void expect_null(const char* what, const std::function<const void*()>& call) {
  errno = 0;
  EXPECT_EQ(call(), nullptr) << what;
  EXPECT_NE(errno, 0) << what;
}

void refuse_queues(Endpoint& endpoint) {
  urma_context_t* ctx = endpoint.ctx;
  urma_jfc_cfg_t jfc = endpoint.send_jfc->jfc_cfg;
  urma_jfs_cfg_t jfs = endpoint.jetty->jetty_cfg.jfs_cfg;
  urma_jfr_cfg_t jfr = endpoint.jfr->jfr_cfg;
  urma_jetty_cfg_t jetty = endpoint.jetty->jetty_cfg;
  expect_null("create_jfc", [&] { return urma_create_jfc(ctx, nullptr); });
  jfc.depth = 0;
  expect_null("create_jfc", [&] { return urma_create_jfc(ctx, &jfc); });
  jfs.jfc = nullptr;
  expect_null("create_jfs", [&] { return urma_create_jfs(ctx, &jfs); });
  jfr.depth = 0;
  expect_null("create_jfr", [&] { return urma_create_jfr(ctx, &jfr); });
  jetty.id = 0;
  jetty.shared.jfr = nullptr;
  expect_null("create_jetty", [&] { return urma_create_jetty(ctx, &jetty); });
  expect_null("create_jfce", [&] { return urma_create_jfce(nullptr); });
}

void refuse_imports(Endpoint& endpoint) {
  urma_context_t* ctx = endpoint.ctx;
  urma_rjetty_t rjetty =
      remote_jetty(endpoint.jetty->jetty_id, static_cast<urma_transport_mode_t>(3));
  expect_null("import_jetty", [&] { return urma_import_jetty(ctx, &rjetty, nullptr); });
  rjetty.trans_mode = URMA_TM_RM;
  rjetty.flag.bs.order_type = 9;
  expect_null("import_jetty", [&] { return urma_import_jetty(ctx, &rjetty, nullptr); });
  urma_rjfr_t rjfr = remote_jfr(endpoint.jfr->jfr_id);
  rjfr.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  expect_null("import_jfr", [&] { return urma_import_jfr(ctx, &rjfr, nullptr); });
  urma_seg_t seg = {};
  seg.attr.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  expect_null("import_seg", [&] { return urma_import_seg(ctx, &seg, nullptr, 0, {}); });
  urma_seg_cfg_t cfg = {};
  expect_null("register_seg", [&] { return urma_register_seg(ctx, &cfg); });
  expect_null("alloc_token_id", [] { return urma_alloc_token_id(nullptr); });
}

TEST_F(Clients, C7_02_ErrnoSaysWhyACallReturnedNull) {
  run_one([](Channel&) {
    Endpoint endpoint;
    char unknown[] = "no such device";
    expect_null("get_device_by_name", [&] { return urma_get_device_by_name(unknown); });
    expect_null("get_device_by_eid", [] { return urma_get_device_by_eid({}, URMA_TRANSPORT_UB); });
    expect_null("get_device_list", [] { return urma_get_device_list(nullptr); });
    expect_null("get_eid_list", [&] { return urma_get_eid_list(endpoint.ctx->dev, nullptr); });
    expect_null("create_context", [] { return urma_create_context(nullptr, 0); });
    expect_null("create_context", [] { return urma_create_context(find_device(), 100000); });
    refuse_queues(endpoint);
    refuse_imports(endpoint);
    endpoint.close();
  });
}

int lines_seen = 0;
void count_line(int, char*) { ++lines_seen; }

TEST_F(Clients, C7_03_StartsAndEndsAgainAndAgain) {
  run_two(
      "first",
      [](Channel& channel) {
        EXPECT_EQ(urma_register_log_func(count_line), URMA_SUCCESS);  // before init
        for (int cycle = 0; cycle < 5; ++cycle) {
          const int before = lines_seen;
          EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
          EXPECT_EQ(urma_init(nullptr), URMA_EEXIST);
          char unknown[] = "no such device";
          EXPECT_EQ(urma_get_device_by_name(unknown), nullptr);
          EXPECT_EQ(urma_get_device_by_name(nullptr), nullptr);
          EXPECT_GT(lines_seen, before);  // at least those of these failures
          EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
          Speaker speaker;
          speaker.post_receive(1);
          speaker.meet(channel);
          wait_for_success(speaker.endpoint.receive_jfc, 1);
          channel.sync();
          speaker.endpoint.close();
        }
        EXPECT_EQ(urma_uninit(), URMA_SUCCESS);  // nothing to end
      },
      "second",
      [](Channel& channel) {
        for (int cycle = 0; cycle < 5; ++cycle) {
          Speaker speaker;
          speaker.meet(channel);
          speaker.send(8, 2);
          wait_for_success(speaker.endpoint.send_jfc, 2);
          channel.sync();
          speaker.endpoint.close();
        }
      });
}

TEST_F(Clients, C7_03_DevicesOutliveTheirList) {
  run_one([](Channel&) {
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    int count = 0;
    urma_device_t** list = urma_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    const std::vector<urma_device_t*> devices(list, list + count);
    urma_free_device_list(list);
    for (urma_device_t* device : devices) {
      EXPECT_EQ(urma_get_device_by_name(device->name), device);
      urma_device_attr_t attr;
      EXPECT_EQ(urma_query_device(device, &attr), URMA_SUCCESS);
    }
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

// Programs ask for a channel first, and continue without one if none is supported.
TEST_F(Clients, C7_04_ImportWithAChannelOrWithout) {
  run_one([](Channel&) {
    Self self;
    Endpoint& endpoint = self.endpoint;
    urma_get_tp_cfg_t cfg = {};
    cfg.flag.bs.rtp = 1;
    cfg.trans_mode = URMA_TM_RM;
    cfg.local_eid = endpoint.ctx->eid;
    cfg.peer_eid = endpoint.ctx->eid;
    urma_tp_info_t channel = {};
    uint32_t count = 1;
    const urma_status_t status = urma_get_tp_list(endpoint.ctx, &cfg, &count, &channel);
    urma_rjetty_t remote = remote_jetty(endpoint.jetty->jetty_id);
    urma_token_t token = {0};
    urma_target_jetty_t* target;
    if (status == URMA_SUCCESS) {
      EXPECT_EQ(count, 1u);
      urma_import_jetty_ex_cfg_t active = {};
      active.tp_handle = channel.tp_handle;
      target = urma_import_jetty_ex(endpoint.ctx, &remote, &token, &active);
    } else {
      EXPECT_EQ(status, URMA_EINVAL);
      target = urma_import_jetty(endpoint.ctx, &remote, &token);
    }
    ASSERT_NE(target, nullptr);
    endpoint.post_receive(self.segment, self.in(), 64, 1);
    urma_sge_t here = piece(self.segment, self.out(), 8);
    endpoint.post(send_request(target, &here, 2));
    wait_for_success(endpoint.send_jfc, 2);
    wait_for_success(endpoint.receive_jfc, 1);
    EXPECT_EQ(urma_unimport_jetty(target), URMA_SUCCESS);
  });
}

// -------------------------------------------------------------------------------------------------
// 8. What is read directly from the structs
// -------------------------------------------------------------------------------------------------

bool same(const urma_eid_t& a, const urma_eid_t& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

TEST_F(Clients, C8_01_ContextAndDevice) {
  run_one([](Channel&) {
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_device_t* device = find_device();
    uint32_t count = 0;
    urma_eid_info_t* eids = urma_get_eid_list(device, &count);
    ASSERT_NE(eids, nullptr);
    for (uint32_t i = 0; i < count; ++i) {
      const OwnedContext ctx = urma_create_context(device, i);
      EXPECT_EQ(ctx->dev, device);
      EXPECT_TRUE(same(ctx->eid, eids[i].eid));
      EXPECT_EQ(ctx->eid_index, i);
      EXPECT_EQ(ctx->aggr_mode, URMA_AGGR_MODE_STANDALONE);
      EXPECT_NE(ctx->ops, nullptr);
      EXPECT_LT(ctx->uasid, 1u << 24);
      pollfd quiet = {ctx->async_fd, POLLIN, 0};
      EXPECT_EQ(::poll(&quiet, 1, 0), 0);
    }
    urma_free_eid_list(eids);
    EXPECT_GT(std::strlen(device->name), 0u);
    EXPECT_LT(std::strlen(device->name), size_t{URMA_MAX_NAME});
    EXPECT_LT(::strnlen(device->path, URMA_MAX_PATH), size_t{URMA_MAX_PATH});
    EXPECT_EQ(device->type, URMA_TRANSPORT_UB);
    EXPECT_NE(device->sysfs_dev, nullptr);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(Clients, C8_02_Queues) {
  run_one([](Channel&) {
    Config config;
    config.events = true;
    OwnedEndpoint endpoint(config);
    urma_jfc_cfg_t jfc_cfg = endpoint.send_jfc->jfc_cfg;
    jfc_cfg.user_ctx = 0x1122334455667788;
    urma_jfc_t* jfc = urma_create_jfc(endpoint.ctx, &jfc_cfg);
    ASSERT_NE(jfc, nullptr);
    EXPECT_EQ(jfc->jfc_cfg.user_ctx, jfc_cfg.user_ctx);
    EXPECT_EQ(jfc->jfc_cfg.jfce, endpoint.jfce);
    EXPECT_NE(jfc->jfc_id.id, endpoint.send_jfc->jfc_id.id);
    EXPECT_EQ(jfc->comp_events_acked, 0u);
    EXPECT_EQ(jfc->async_events_acked, 0u);
    EXPECT_EQ(jfc->urma_ctx, endpoint.ctx);
    EXPECT_GE(endpoint.jfce->fd, 0);
    EXPECT_EQ(endpoint.jfce->urma_ctx, endpoint.ctx);

    urma_jfs_cfg_t jfs_cfg = endpoint.jetty->jetty_cfg.jfs_cfg;
    urma_device_attr_t limits = {};
    EXPECT_EQ(urma_query_device(endpoint.ctx->dev, &limits), URMA_SUCCESS);
    const uint32_t wanted = std::min(100U, limits.dev_cap.max_jfs_inline_len);
    jfs_cfg.max_inline_data = wanted;
    jfs_cfg.jfc = jfc;
    urma_jfs_t* jfs = urma_create_jfs(endpoint.ctx, &jfs_cfg);
    ASSERT_NE(jfs, nullptr);
    EXPECT_NE(jfs->jfs_id.id, 0u);
    EXPECT_TRUE(same(jfs->jfs_id.eid, endpoint.ctx->eid));
    EXPECT_GE(jfs->jfs_cfg.max_inline_data, wanted);
    EXPECT_GE(jfs->jfs_cfg.depth, jfs_cfg.depth);
    EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);

    EXPECT_NE(endpoint.jfr->jfr_id.id, 0u);
    EXPECT_TRUE(same(endpoint.jfr->jfr_id.eid, endpoint.ctx->eid));
    EXPECT_EQ(endpoint.jfr->jfr_id.uasid, endpoint.ctx->uasid);
    EXPECT_GE(endpoint.jfr->jfr_cfg.depth, config.receive_depth);
    EXPECT_EQ(endpoint.jfr->urma_ctx, endpoint.ctx);
  });
}

TEST_F(Clients, C8_03_JettyAndTarget) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint(config_of(URMA_TM_RC));
    urma_jetty_t* jetty = endpoint.jetty;
    EXPECT_NE(jetty->jetty_id.id, 0u);
    EXPECT_TRUE(same(jetty->jetty_id.eid, endpoint.ctx->eid));
    EXPECT_EQ(jetty->jetty_id.uasid, endpoint.ctx->uasid);
    EXPECT_EQ(jetty->jetty_cfg.jfs_cfg.jfc, endpoint.send_jfc);
    EXPECT_EQ(jetty->jetty_cfg.jfs_cfg.priority, 0);
    EXPECT_EQ(jetty->remote_jetty, nullptr);
    EXPECT_EQ(jetty->urma_ctx, endpoint.ctx);
    urma_target_jetty_t* target = endpoint.import(endpoint.queue_id());
    EXPECT_EQ(target->id.id, jetty->jetty_id.id);
    EXPECT_TRUE(same(target->id.eid, jetty->jetty_id.eid));
    EXPECT_EQ(target->trans_mode, URMA_TM_RC);
    EXPECT_EQ(target->type, URMA_JETTY);
    EXPECT_EQ(target->tp.tpn, UINT32_MAX);
    endpoint.bind(target);
    EXPECT_EQ(jetty->remote_jetty, target);
    EXPECT_NE(target->tp.tpn, UINT32_MAX);
  });
}

TEST_F(Clients, C8_04_SegmentsAndTokenIds) {
  run_one([](Channel&) {
    std::vector<char> memory(5000);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size(), kAllAccess, 0x77);
    EXPECT_TRUE(same(segment->seg.ubva.eid, endpoint.ctx->eid));
    EXPECT_EQ(uint32_t{segment->seg.ubva.uasid}, endpoint.ctx->uasid);
    EXPECT_EQ(uint64_t{segment->seg.ubva.va}, reinterpret_cast<uint64_t>(memory.data()));
    EXPECT_EQ(segment->seg.len, memory.size());
    EXPECT_EQ(segment->seg.attr.bs.access, kAllAccess);
    EXPECT_EQ(segment->seg.attr.bs.token_policy, uint32_t{URMA_TOKEN_PLAIN_TEXT});
    EXPECT_EQ(segment->urma_ctx, endpoint.ctx);
    ASSERT_NE(segment->token_id, nullptr);
    EXPECT_EQ(segment->seg.token_id, segment->token_id->token_id);
    EXPECT_EQ(segment->token_id->urma_ctx, endpoint.ctx);
    urma_target_seg_t* imported = endpoint.import(endpoint.segment_id(segment, 0x77));
    EXPECT_EQ(uint64_t{imported->seg.ubva.va}, uint64_t{segment->seg.ubva.va});
    EXPECT_EQ(imported->seg.len, segment->seg.len);
    EXPECT_EQ(imported->seg.token_id, segment->seg.token_id);
    EXPECT_EQ(imported->token_id, nullptr);
    EXPECT_EQ(imported->urma_ctx, endpoint.ctx);
  });
}

}  // namespace
}  // namespace urma_test
