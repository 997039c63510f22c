// SPDX-License-Identifier: MIT
//
// Queues of an aggregated device that are created for several ports, and imports for one of their
// jetties.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "test/process/alias.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "urma_ubagg.h"

namespace urma_test {
namespace {

TEST_F(AliasTest, PortsOfQueues) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    bondp_query_port_in_t which = {};
    bondp_query_port_out_t ports = {};
    const auto query = [&](uint32_t room) {
      return command(endpoint.ctx, BONDP_USER_CTL_QUERY_PORT, &which, sizeof which, &ports, room);
    };
    EXPECT_EQ(query(sizeof ports), URMA_FAIL);
    which.jetty = endpoint.jetty;
    EXPECT_EQ(query(sizeof ports - 1), URMA_FAIL);
    EXPECT_EQ(query(sizeof ports), URMA_SUCCESS);
    EXPECT_EQ(ports.enabled_count, 1u);
    EXPECT_EQ(ports.active_count, 1u);
    EXPECT_EQ(ports.active_indices[0], ports.enabled_indices[0]);
    which.jfr = endpoint.jfr;
    EXPECT_EQ(query(sizeof ports), URMA_SUCCESS);
  });
}

// The objects of a program that creates queues for several ports.
struct Ported {
  static constexpr uint32_t kDepth = 16;

  explicit Ported(uint32_t ports) : count(ports) {
    bondp_jfc_cfg_t cfg = {};
    cfg.base.depth = kDepth;
    jfc = urma_create_jfc(endpoint.ctx, &with_ports(&cfg)->base);
    EXPECT_NE(jfc, nullptr);
  }

  template <typename Config>
  Config* with_ports(Config* cfg) {
    cfg->base.flag.bs.has_drv_ext = 1;
    cfg->port_ids = ids;
    cfg->port_count = count;
    return cfg;
  }
  bondp_jfr_cfg_t jfr_cfg() {
    bondp_jfr_cfg_t cfg = {};
    cfg.base = endpoint.jfr->jfr_cfg;
    cfg.base.id = 0;
    cfg.base.depth = kDepth;
    cfg.base.jfc = jfc;
    return *with_ports(&cfg);
  }
  bondp_jetty_cfg_t jetty_cfg(urma_jfr_t* jfr) {
    bondp_jetty_cfg_t cfg = {};
    cfg.base = endpoint.jetty->jetty_cfg;
    cfg.base.id = 0;
    cfg.base.shared = {jfr, jfc};
    return *with_ports(&cfg);
  }
  bondp_query_port_out_t ports_of(void* queue) {
    bondp_query_port_in_t which = {};
    which.jfr = static_cast<urma_jfr_t*>(queue);
    bondp_query_port_out_t ports = {};
    EXPECT_EQ(command(endpoint.ctx, BONDP_USER_CTL_QUERY_PORT, &which, sizeof which, &ports,
                      sizeof ports),
              URMA_SUCCESS);
    EXPECT_EQ(ports.enabled_count, ports.active_count);
    return ports;
  }
  // Posts until the queue is full; returns the number of requests posted.
  template <typename Post>
  uint32_t fill(Post post) {
    urma_jfr_wr_t wr = {};
    urma_jfr_wr_t* bad = nullptr;
    uint32_t posted = 0;
    urma_status_t status = URMA_SUCCESS;
    while ((status = post(&wr, &bad)) == URMA_SUCCESS) ++posted;
    EXPECT_EQ(status, URMA_ENOMEM);
    return posted;
  }
  uint32_t fill(urma_jfr_t* jfr) {
    return fill([=](auto* wr, auto** bad) { return urma_post_jfr_wr(jfr, wr, bad); });
  }
  uint32_t fill(urma_jetty_t* jetty) {
    return fill([=](auto* wr, auto** bad) { return urma_post_jetty_recv_wr(jetty, wr, bad); });
  }
  void close() {
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
    endpoint.close();
  }

  Endpoint endpoint;
  const uint32_t count;
  bondp_port_id_t ids[URMA_UBAGG_DEV_MAX_NUM] = {};
  urma_jfc_t* jfc = nullptr;
};

TEST_F(AliasTest, JfrHoldsItsDepthForEachPort) {
  for (const uint32_t ports : {0u, 1u, 2u, 5u, 20u}) {
    run_one([ports](Channel&) {
      Ported rig(ports);
      const uint32_t expected = std::max(ports, 1u);
      EXPECT_EQ(rig.jfc->jfc_cfg.depth, Ported::kDepth);
      bondp_jfr_cfg_t cfg = rig.jfr_cfg();
      urma_jfr_t* jfr = urma_create_jfr(rig.endpoint.ctx, &cfg.base);
      ASSERT_NE(jfr, nullptr);
      EXPECT_EQ(cfg.base.depth, Ported::kDepth);
      EXPECT_EQ(jfr->jfr_cfg.depth, Ported::kDepth);
      EXPECT_EQ(rig.ports_of(jfr).enabled_count, expected);
      // A jetty without ports of its own has those of its JFR.
      urma_jetty_cfg_t plain = rig.jetty_cfg(jfr).base;
      plain.flag.bs.has_drv_ext = 0;
      urma_jetty_t* jetty = urma_create_jetty(rig.endpoint.ctx, &plain);
      ASSERT_NE(jetty, nullptr);
      EXPECT_EQ(rig.ports_of(jetty).enabled_count, expected);
      EXPECT_EQ(rig.fill(jetty), expected * Ported::kDepth);
      EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
      rig.close();
    });
  }
}

// Also when its shared JFR was created for fewer ports and already holds receives.
TEST_F(AliasTest, JettyHoldsTheDepthForEachPort) {
  run_one([](Channel&) {
    Ported rig(3);
    urma_jfr_cfg_t cfg = rig.jfr_cfg().base;
    cfg.flag.bs.has_drv_ext = 0;
    urma_jfr_t* jfr = urma_create_jfr(rig.endpoint.ctx, &cfg);
    ASSERT_NE(jfr, nullptr);
    EXPECT_EQ(rig.fill(jfr), Ported::kDepth);
    bondp_jetty_cfg_t jetty_cfg = rig.jetty_cfg(jfr);
    urma_jetty_t* jetty = urma_create_jetty(rig.endpoint.ctx, &jetty_cfg.base);
    ASSERT_NE(jetty, nullptr);
    EXPECT_EQ(rig.ports_of(jetty).enabled_count, 3u);
    EXPECT_EQ(rig.fill(jetty), 2 * Ported::kDepth);
    EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    rig.close();
  });
}

// Created in two steps; and an object at a reused address does not inherit the ports of the
// previous one.
TEST_F(AliasTest, PortsEndWithTheirObject) {
  run_one([](Channel&) {
    Ported rig(2);
    for (int round = 0; round < 4; ++round) {
      bondp_jfr_cfg_t cfg = rig.jfr_cfg();
      if (round % 2 == 1) cfg.base.flag.bs.has_drv_ext = 0;
      urma_jfr_t* jfr = nullptr;
      ASSERT_EQ(urma_alloc_jfr(rig.endpoint.ctx, &cfg.base, &jfr), URMA_SUCCESS);
      EXPECT_EQ(jfr->jfr_cfg.depth, Ported::kDepth);
      ASSERT_EQ(urma_active_jfr(jfr), URMA_SUCCESS);
      EXPECT_EQ(jfr->jfr_cfg.depth, Ported::kDepth);
      EXPECT_EQ(rig.fill(jfr), (round % 2 == 1 ? 1 : 2) * Ported::kDepth);
      EXPECT_EQ(rig.ports_of(jfr).enabled_count, round % 2 == 1 ? 1u : 2u);
      EXPECT_EQ(urma_deactive_jfr(jfr), URMA_SUCCESS);
      EXPECT_EQ(urma_free_jfr(jfr), URMA_SUCCESS);
    }
    rig.close();
  });
}

TEST_F(AliasTest, InvalidPortListsAreRefused) {
  run_one([](Channel&) {
    Ported rig(2);
    bondp_jfr_cfg_t cfg = rig.jfr_cfg();
    cfg.port_count = URMA_UBAGG_DEV_MAX_NUM + 1;
    EXPECT_EQ(urma_create_jfr(rig.endpoint.ctx, &cfg.base), nullptr);
    EXPECT_EQ(errno, EINVAL);
    cfg.port_count = 1;
    cfg.port_ids = nullptr;
    EXPECT_EQ(urma_create_jfr(rig.endpoint.ctx, &cfg.base), nullptr);
    rig.close();
  });
}

TEST_F(AliasTest, ImportForAJettySetsItsPeer) {
  run_one([](Channel&) {
    Endpoint endpoint;
    bondp_rjetty_t remote = {};
    remote.base.jetty_id = endpoint.jetty->jetty_id;
    remote.base.trans_mode = URMA_TM_RM;
    remote.base.type = URMA_JETTY;
    remote.jetty = endpoint.jetty;
    urma_token_t token = {};
    urma_target_jetty_t* plain = urma_import_jetty(endpoint.ctx, &remote.base, &token);
    ASSERT_NE(plain, nullptr);
    EXPECT_EQ(endpoint.jetty->remote_jetty, nullptr);
    remote.base.flag.bs.has_drv_ext = 1;
    urma_target_jetty_t* first = urma_import_jetty(endpoint.ctx, &remote.base, &token);
    EXPECT_EQ(endpoint.jetty->remote_jetty, first);
    urma_target_jetty_t* second = urma_import_jetty(endpoint.ctx, &remote.base, &token);
    EXPECT_EQ(endpoint.jetty->remote_jetty, second);
    EXPECT_EQ(urma_unbind_jetty(endpoint.jetty), URMA_ENOPERM);
    // An object that is not a jetty of the context is left alone.
    char other[sizeof(urma_jetty_t)] = {};
    remote.jetty = reinterpret_cast<urma_jetty_t*>(other);
    urma_target_jetty_t* third = urma_import_jetty(endpoint.ctx, &remote.base, &token);
    remote.jetty = nullptr;
    urma_target_jetty_t* fourth = urma_import_jetty(endpoint.ctx, &remote.base, &token);
    EXPECT_EQ(endpoint.jetty->remote_jetty, second);
    for (urma_target_jetty_t* one : {plain, first, third, fourth}) {
      EXPECT_EQ(urma_unimport_jetty(one), URMA_SUCCESS);
      EXPECT_EQ(endpoint.jetty->remote_jetty, second);
    }
    EXPECT_EQ(urma_unimport_jetty(second), URMA_SUCCESS);
    EXPECT_EQ(endpoint.jetty->remote_jetty, nullptr);
    endpoint.close();
  });
}

}  // namespace
}  // namespace urma_test
