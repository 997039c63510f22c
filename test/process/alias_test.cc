// SPDX-License-Identifier: MIT
//
// A device under the name of an aggregated one: everything works on it, and it answers the queries
// that programs send to such a device.
#include "test/process/alias.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"
#include "test/process/party.h"
#include "urma_provider.h"
#include "urma_ubagg.h"

namespace urma_test {
namespace {

urma_status_t set_mode(urma_context_t* ctx, uint32_t mode, uint32_t level) {
  uint32_t wanted[2] = {mode, level};
  static_assert(sizeof wanted == sizeof(bondp_set_bonding_mode_in_t));
  return command(ctx, BONDP_USER_CTL_SET_BONDING_MODE, wanted, sizeof wanted);
}

// Does what a program written for such a device does up to its first message.
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
      for (int i = 1; i < URMA_UBAGG_DEV_MAX_NUM; ++i) EXPECT_EQ(fds.fd_list[i], -1);

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
      const ImportedJetty target = urma_import_jetty(endpoint.ctx, &peer, &token);
      if (sends) {
        urma_jfs_wr_t wr = party.message(100, 2);
        wr.tjetty = target;
        endpoint.post(wr);
        wait_for_success(endpoint.send_jfc, 2);
      } else {
        EXPECT_EQ(wait_for_success(endpoint.receive_jfc, 1).completion_len, 100u);
      }
      channel.sync();
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

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  int count = 0;
  urma_device_t** list = urma_get_device_list(&count);
  for (int i = 0; i < count; ++i) names.emplace_back(list[i]->name);
  urma_free_device_list(list);
  return names;
}

using Names = std::vector<std::string>;

Names names_with(const char* setting) {
  setting == nullptr ? ::unsetenv("URMA_DEVICE_ALIAS") : ::setenv("URMA_DEVICE_ALIAS", setting, 1);
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  Names names = device_names();
  std::erase_if(names, [](const std::string& name) {
    return name != "urma_shm0" && name != "x" && !name.starts_with("bonding");
  });
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  return names;
}

TEST_F(AliasTest, ExistsByDefault) {
  run_one([](Channel&) {
    EXPECT_EQ(names_with(nullptr), (Names{"urma_shm0", "bonding_dev_0"}));
    EXPECT_EQ(names_with("x=urma_shm0"), (Names{"urma_shm0", "bonding_dev_0", "x"}));
    EXPECT_EQ(names_with("bonding_dev_1=urma_shm0"),
              (Names{"urma_shm0", "bonding_dev_0", "bonding_dev_1"}));
    EXPECT_EQ(names_with("-"), (Names{"urma_shm0"}));
    EXPECT_EQ(names_with("x=urma_shm0,-"), (Names{"urma_shm0", "x"}));
    EXPECT_EQ(names_with("bonding_dev_0=nothing"), (Names{"urma_shm0"}));
    EXPECT_EQ(names_with("bonding_dev_0=urma_shm0"), (Names{"urma_shm0", "bonding_dev_0"}));
  });
}

// Its own EID, by which programs find it, as they find the real device by each of its EIDs.
TEST_F(AliasTest, HasOneEid) {
  run_one([](Channel&) {
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_device_t* device = find_device();
    urma_device_t* real = urma_get_device_by_name(std::string("urma_shm0").data());
    uint32_t count = 0;
    urma_eid_info_t* own = urma_get_eid_list(device, &count);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(own->eid_index, 0u);
    EXPECT_EQ(urma_get_device_by_eid(own->eid, URMA_TRANSPORT_UB), device);
    urma_eid_info_t* others = urma_get_eid_list(real, &count);
    ASSERT_EQ(count, 2u);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(urma_get_device_by_eid(others[i].eid, URMA_TRANSPORT_UB), real);
    }
    urma_device_attr_t attr;
    ASSERT_EQ(urma_query_device(device, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.dev_cap.max_eid_cnt, 1u);
    EXPECT_EQ(urma_create_context(device, 1), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(urma_create_context(real, 2), nullptr);
    urma_context_t* ctx = urma_create_context(device, 0);
    ASSERT_NE(ctx, nullptr);
    EXPECT_EQ(ctx->eid_index, 0u);
    EXPECT_EQ(std::memcmp(&ctx->eid, &own->eid, sizeof ctx->eid), 0);
    uint32_t addresses = 0;
    urma_net_addr_info_t* address = urma_get_net_addr_list(ctx, &addresses);
    EXPECT_EQ(addresses, 1u);
    urma_free_net_addr_list(address);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    urma_free_eid_list(own);
    urma_free_eid_list(others);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(AliasTest, DescriptorsComeAsPointersToo) {
  run_one([](Channel&) {
    Party party{Config{}};
    Endpoint& endpoint = party.endpoint;
    urma_rjetty_t* jetty = nullptr;
    EXPECT_EQ(command(endpoint.ctx, BONDP_USER_CTL_OPCODE_GET_RJETTY, endpoint.jetty,
                      sizeof *endpoint.jetty, &jetty, sizeof jetty),
              URMA_SUCCESS);
    ASSERT_NE(jetty, nullptr);
    EXPECT_EQ(jetty->jetty_id.id, endpoint.jetty->jetty_id.id);
    std::free(jetty);
    urma_seg_t* segment = nullptr;
    EXPECT_EQ(command(endpoint.ctx, BONDP_USER_CTL_OPCODE_GET_SEG_CTX, party.segment,
                      sizeof *party.segment, &segment, sizeof segment),
              URMA_SUCCESS);
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(std::memcmp(segment, &party.segment->seg, sizeof *segment), 0);
    std::free(segment);
  });
}

TEST_F(AliasTest, InputsOfAnotherLengthAreRefused) {
  run_one([](Channel&) {
    Party party{Config{}};
    const OwnedContext ctx = urma_create_context(find_device(), 0);
    char in[1024] = {}, out[1024] = {};
    const struct {
      uint32_t opcode;
      void* input;
      uint32_t length;
    } cases[] = {
        {BONDP_USER_CTL_SET_BONDING_MODE_LEGACY, in, sizeof(urma_context_aggr_mode_t)},
        {BONDP_USER_CTL_ENABLE_SEG_CACHE, in, 0},
        {BONDP_USER_CTL_QUERY_PORT, &party.endpoint.jfr, sizeof(bondp_query_port_in_t)},
        {BONDP_USER_CTL_SET_BONDING_MODE, in, sizeof(bondp_set_bonding_mode_in_t)},
        {BONDP_USER_CTL_OPCODE_GET_RJETTY, party.endpoint.jetty, sizeof(urma_jetty_t)},
        {BONDP_USER_CTL_OPCODE_GET_SEG_CTX, party.segment, sizeof(urma_target_seg_t)},
        {BONDP_USER_CTL_DISABLE_MSN, in, 0},
    };
    for (const auto& one : cases) {
      const auto with = [&](uint32_t length) {
        return command(ctx, one.opcode, one.input, length, out, sizeof out);
      };
      EXPECT_EQ(with(one.length), URMA_SUCCESS) << one.opcode;
      EXPECT_EQ(with(one.length + 4), URMA_FAIL) << one.opcode;
      if (one.length != 0) {
        EXPECT_EQ(with(one.length - 1), URMA_FAIL) << one.opcode;
      }
    }
  });
}

int lines_of_commands = 0;

void count_command_line(int /*level*/, char* line) {
  if (std::strstr(line, "urma_user_ctl: command") != nullptr) ++lines_of_commands;
}

TEST_F(AliasTest, UnknownCommandsFailWithOneLine) {
  run_one([](Channel&) {
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_context_t* ctx = urma_create_context(find_device(), 0);
    ASSERT_EQ(urma_register_log_func(count_command_line), URMA_SUCCESS);
    char buffer[64] = {};
    int unknown = 0;
    for (const uint32_t opcode : {0u, 3u, 12u, 15u, 99u, UINT32_MAX}) {
      EXPECT_EQ(command(ctx, opcode, buffer, 8, buffer, sizeof buffer), URMA_FAIL);
      EXPECT_EQ(lines_of_commands, ++unknown);
    }
    EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

// Only the name makes a device an aggregated one.
TEST_F(AliasTest, PlainAliasTakesNoCommands) {
  ::setenv("URMA_DEVICE", "plain", 1);
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    EXPECT_STREQ(endpoint.ctx->dev->name, "plain");
    EXPECT_STREQ(endpoint.ctx->dev->ops->name, "shm");
    EXPECT_STREQ(endpoint.ctx->ops->name, "shm");
    EXPECT_EQ(command(endpoint.ctx, BONDP_USER_CTL_ENABLE_SEG_CACHE), URMA_EINVAL);
    uint32_t mode = 0;
    EXPECT_EQ(urma_set_context_opt(endpoint.ctx, URMA_OPT_AGGR_MODE, &mode, sizeof mode),
              URMA_EINVAL);
  });
}

// An alias and its device reach each other, and a forked child gets clean errors.
TEST_F(AliasTest, SharesTheObjectsOfItsDevice) {
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
      },
      "device",
      [](Channel& channel) {
        ::setenv("URMA_DEVICE", "urma_shm0", 1);
        Party party{Config{}};
        party.post_receive(4);
        channel.send(party.endpoint.queue_id());
        wait_for_success(party.endpoint.receive_jfc, 4);
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
