// SPDX-License-Identifier: MIT
//
// A device under the name of an aggregated one: everything works on it, and it answers what
// programs ask of such a device.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/party.h"
#include "urma_provider.h"
#include "urma_ubagg.h"

namespace urma_test {
namespace {

class AliasTest : public ProcessTest {
 protected:
  AliasTest() {
    ::setenv("URMA_DEVICE_ALIAS", "bonding_dev_0=urma_shm0,plain=urma_shm0", 1);
    ::setenv("URMA_DEVICE", "bonding_dev_0", 1);
  }
  ~AliasTest() override {
    ::unsetenv("URMA_DEVICE_ALIAS");
    ::unsetenv("URMA_DEVICE");
  }
};

urma_status_t command(urma_context_t* ctx, uint32_t opcode, void* input = nullptr,
                      uint32_t input_bytes = 0, void* output = nullptr, uint32_t output_bytes = 0) {
  urma_user_ctl_in_t in = {reinterpret_cast<uint64_t>(input), input_bytes, opcode};
  urma_user_ctl_out_t out = {reinterpret_cast<uint64_t>(output), output_bytes, 0};
  return urma_user_ctl(ctx, &in, &out);
}

urma_status_t set_mode(urma_context_t* ctx, uint32_t mode, uint32_t level) {
  uint32_t wanted[2] = {mode, level};
  static_assert(sizeof wanted == sizeof(bondp_set_bonding_mode_in_t));
  return command(ctx, BONDP_USER_CTL_SET_BONDING_MODE, wanted, sizeof wanted);
}

// As a program does that was written for such a device, up to the first message.
TEST_F(AliasTest, ProgramsRunOnIt) {
  const auto side = [](bool sends) {
    return [sends](Channel& channel) {
      Config config;
      config.events = true;
      Party party(config);
      Endpoint& endpoint = party.endpoint;
      EXPECT_STREQ(endpoint.ctx->dev->name, "bonding_dev_0");
      EXPECT_STREQ(endpoint.ctx->dev->ops->name, "ub_agg");
      EXPECT_STREQ(endpoint.ctx->ops->name, "BOND_OPS");

      bondp_get_jfce_fd_list_in_t which = {endpoint.jfce};
      bondp_get_jfce_fd_list_out_t fds = {};
      EXPECT_EQ(command(endpoint.ctx, BONDP_USER_CTL_GET_JFCE_FD_LIST, &which, sizeof which, &fds,
                        sizeof fds),
                URMA_SUCCESS);
      ASSERT_EQ(fds.count, 1u);
      EXPECT_EQ(fds.fd_list[0], endpoint.jfce->fd);

      urma_rjetty_t* own = nullptr;
      uint32_t length = 0;
      ASSERT_EQ(urma_get_rjetty(endpoint.jetty, &own, &length), URMA_SUCCESS);
      ASSERT_EQ(length, sizeof(urma_rjetty_t));
      party.post_receive(1);
      urma_rjetty_t peer = channel.swap(*own);
      urma_put_rjetty(own);
      urma_seg_t* segment = nullptr;
      ASSERT_EQ(urma_get_seg_ctx(party.segment, &segment, &length), URMA_SUCCESS);
      ASSERT_EQ(length, sizeof(urma_seg_t));
      EXPECT_EQ(std::memcmp(segment, &party.segment->seg, length), 0);
      urma_put_seg_ctx(segment);

      urma_token_t token = {};
      urma_target_jetty_t* target = urma_import_jetty(endpoint.ctx, &peer, &token);
      ASSERT_NE(target, nullptr);
      if (sends) {
        urma_jfs_wr_t wr = party.message(100, 2);
        wr.tjetty = target;
        endpoint.post(wr);
        wait_for_success(endpoint.send_jfc, 2);
      } else {
        EXPECT_EQ(wait_for_success(endpoint.receive_jfc, 1).completion_len, 100u);
      }
      channel.sync();
      EXPECT_EQ(urma_unimport_jetty(target), URMA_SUCCESS);
      party.close();
    };
  };
  run_two("sender", side(true), "receiver", side(false));
}

TEST_F(AliasTest, SettingsComeBeforeObjects) {
  run_one([](Channel&) {
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_context_t* ctx = urma_create_context(find_device(), 0);
    ASSERT_NE(ctx, nullptr);
    for (uint32_t mode = 0; mode < BONDP_BONDING_MODE_MAX; ++mode) {
      for (uint32_t level = 0; level < BONDP_BONDING_LEVEL_MAX; ++level) {
        EXPECT_EQ(set_mode(ctx, mode, level), URMA_SUCCESS);
      }
    }
    EXPECT_EQ(set_mode(ctx, BONDP_BONDING_MODE_MAX, 0), URMA_FAIL);
    EXPECT_EQ(set_mode(ctx, 0, BONDP_BONDING_LEVEL_MAX), URMA_FAIL);
    EXPECT_EQ(command(ctx, BONDP_USER_CTL_SET_BONDING_MODE), URMA_FAIL);
    EXPECT_EQ(command(ctx, BONDP_USER_CTL_ENABLE_SEG_CACHE), URMA_SUCCESS);
    EXPECT_EQ(command(ctx, BONDP_USER_CTL_DISABLE_MSN), URMA_SUCCESS);
    EXPECT_EQ(command(ctx, 99), URMA_FAIL);
    uint32_t mode = URMA_AGGR_MODE_BALANCE;
    EXPECT_EQ(urma_set_context_opt(ctx, URMA_OPT_AGGR_MODE, &mode, sizeof mode), URMA_SUCCESS);
    EXPECT_EQ(ctx->aggr_mode, URMA_AGGR_MODE_STANDALONE);
    EXPECT_EQ(urma_set_context_opt(ctx, URMA_OPT_AGGR_MODE, &mode, 1), URMA_EINVAL);
    mode = 17;
    EXPECT_EQ(urma_set_context_opt(ctx, URMA_OPT_AGGR_MODE, &mode, sizeof mode), URMA_FAIL);

    urma_jfce_t* jfce = urma_create_jfce(ctx);
    EXPECT_EQ(set_mode(ctx, 0, 0), URMA_FAIL);
    EXPECT_EQ(command(ctx, BONDP_USER_CTL_ENABLE_SEG_CACHE), URMA_FAIL);
    EXPECT_EQ(command(ctx, BONDP_USER_CTL_DISABLE_MSN), URMA_FAIL);
    EXPECT_EQ(urma_delete_context(ctx), URMA_EAGAIN);
    EXPECT_STREQ(ctx->dev->name, "bonding_dev_0");
    EXPECT_EQ(urma_delete_jfce(jfce), URMA_SUCCESS);
    EXPECT_EQ(set_mode(ctx, 0, 0), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(AliasTest, PortsOfQueues) {
  run_one([](Channel&) {
    Endpoint endpoint;
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
    endpoint.close();
  });
}

TEST_F(AliasTest, PortListBehindAConfigurationIsTaken) {
  run_one([](Channel&) {
    Endpoint endpoint;
    bondp_port_id_t port = {};
    bondp_jfc_cfg_t jfc = {};
    jfc.base.depth = 16;
    jfc.base.flag.bs.has_drv_ext = 1;
    jfc.port_ids = &port;
    jfc.port_count = 1;
    urma_jfc_t* made = urma_create_jfc(endpoint.ctx, &jfc.base);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(urma_delete_jfc(made), URMA_SUCCESS);
    bondp_jetty_cfg_t jetty = {};
    jetty.base = endpoint.jetty->jetty_cfg;
    jetty.base.id = 0;
    jetty.base.flag.bs.has_drv_ext = 1;
    jetty.port_ids = &port;
    jetty.port_count = 1;
    urma_jetty_t* second = urma_create_jetty(endpoint.ctx, &jetty.base);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(urma_delete_jetty(second), URMA_SUCCESS);
    endpoint.close();
  });
}

// Only the name makes a device an aggregated one.
TEST_F(AliasTest, PlainAliasTakesNoCommands) {
  ::setenv("URMA_DEVICE", "plain", 1);
  run_one([](Channel&) {
    Endpoint endpoint;
    EXPECT_STREQ(endpoint.ctx->dev->name, "plain");
    EXPECT_STREQ(endpoint.ctx->dev->ops->name, "shm");
    EXPECT_STREQ(endpoint.ctx->ops->name, "shm");
    EXPECT_EQ(command(endpoint.ctx, BONDP_USER_CTL_ENABLE_SEG_CACHE), URMA_EINVAL);
    uint32_t mode = 0;
    EXPECT_EQ(urma_set_context_opt(endpoint.ctx, URMA_OPT_AGGR_MODE, &mode, sizeof mode),
              URMA_EINVAL);
    endpoint.close();
  });
}

// An alias and its device reach each other, and a child of a fork gets clean errors.
TEST_F(AliasTest, IsOneDeviceWithItsOwn) {
  run_two(
      "alias",
      [](Channel& channel) {
        Party party{Config{}};
        urma_target_jetty_t* peer = party.endpoint.import(channel.receive<QueueId>());
        urma_jfs_wr_t wr = party.message(8, 1);
        wr.tjetty = peer;
        party.endpoint.post(wr);
        wait_for_success(party.endpoint.send_jfc, 1);
#ifndef __SANITIZE_THREAD__
        const pid_t child = ::fork();
        if (child == 0) {
          ::alarm(20);
          const bool refused =
              command(party.endpoint.ctx, BONDP_USER_CTL_ENABLE_SEG_CACHE) == URMA_EINVAL &&
              urma_delete_context(party.endpoint.ctx) == URMA_EINVAL;
          ::_exit(refused ? 0 : 1);
        }
        int status = -1;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
#endif
        channel.sync();
        party.close();
      },
      "device",
      [](Channel& channel) {
        ::setenv("URMA_DEVICE", "urma_shm0", 1);
        Party party{Config{}};
        party.post_receive(4);
        channel.send(party.endpoint.queue_id());
        wait_for_success(party.endpoint.receive_jfc, 4);
        channel.sync();
        party.close();
      });
}

}  // namespace
}  // namespace urma_test
