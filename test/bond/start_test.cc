// SPDX-License-Identifier: MIT
//
// A bonded device that starts without its network, or fails to start at first.
#include <elf.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"

namespace urma_test {
namespace {

namespace fs = std::filesystem;

struct StartTest : ProcessTest {
  // An owner, and a user in whose process the interface does not exist.
  static void own(Channel& channel) {
    std::vector<char> memory(4096);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    endpoint.post_receive(segment, memory.data(), memory.size());
    channel.send(endpoint.queue_id());
    EXPECT_EQ(wait_for(endpoint.receive_jfc).status, URMA_CR_SUCCESS);
  }
  static void send_without_network(Channel& channel) {
    ::setenv("URMA_TCP_DEVICES", "nosuch", 1);
    const LogLines lines;
    std::vector<char> memory(64);
    OwnedEndpoint endpoint;
    EXPECT_STREQ(endpoint.ctx->dev->name, "bonding_dev_0");
    EXPECT_LINE("urma_bond0", "runtime directory", "URMA_TCP_DEVICES");
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
    urma_sge_t local = piece(segment, memory.data(), 8);
    endpoint.post(send_request(queue, &local));
    wait_for_success(endpoint.send_jfc, 0);
  }
};

TEST_F(StartTest, AnInterfaceThatIsDownLeavesLocalPeers) {
  run_two("owner", own, "user", send_without_network);
}

TEST_F(StartTest, BothMayBeWithoutIt) {
  run_two(
      "owner",
      [](Channel& channel) {
        ::setenv("URMA_TCP_DEVICES", "nosuch", 1);
        own(channel);
      },
      "user", send_without_network);
}

// While it looks for a peer that is not there yet, it polls without a pause.
TEST_F(StartTest, WithoutANetworkAPeerMayStartLate) {
  constexpr uint32_t kId = 17;
  Child user("user", [](Channel& channel) {
    ::setenv("URMA_TCP_DEVICES", "none", 1);
    const LogLines lines;
    std::vector<char> memory(64);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* queue = endpoint.import(QueueId{endpoint.ctx->eid, kId, kNoToken, true});
    urma_sge_t local = piece(segment, memory.data(), 8);
    const auto deadline = Clock::now() + patience(seconds(20));
    for (int i = 0; i < 10; ++i) {
      endpoint.post(send_request(queue, &local));
      urma_cr_t cr = {};
      while (urma_poll_jfc(endpoint.send_jfc, 1, &cr) == 0) ASSERT_LT(Clock::now(), deadline);
      EXPECT_EQ(cr.status, URMA_CR_ACK_TIMEOUT_ERR);
    }
    EXPECT_EQ(LogLines::count({"not watched"}), 0U) << LogLines::all();
    channel.sync();
    channel.sync();
    endpoint.post(send_request(queue, &local));
    wait_for_success(endpoint.send_jfc, 0);
  });
  user.channel().sync();
  Child owner("owner", [](Channel& channel) {
    ::setenv("URMA_TCP_DEVICES", "none", 1);
    Config config;
    config.id = kId;
    std::vector<char> memory(64);
    OwnedEndpoint endpoint(config);
    endpoint.post_receive(endpoint.add(memory.data(), memory.size()), memory.data(), memory.size());
    channel.sync();
    EXPECT_EQ(wait_for(endpoint.receive_jfc).status, URMA_CR_SUCCESS);
  });
  owner.channel().sync();
  user.channel().sync();
  user.expect_success();
  owner.expect_success();
}

// What is in the way of the file that shows the ids of this process, whatever version of the
// protocol, in its lower half, and architecture its name has.
std::vector<std::string> make_obstacles(const std::string& directory, const urma_device_t* device) {
  uint32_t count = 0;
  urma_eid_info_t* eids = urma_get_eid_list(const_cast<urma_device_t*>(device), &count);
  std::string hex;
  for (const uint8_t byte : eids[0].eid.raw) {
    std::array<char, 3> text;
    std::snprintf(text.data(), text.size(), "%02x", byte);
    hex += text.data();
  }
  urma_free_eid_list(eids);
  std::string socket;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".bond") socket = entry.path().string();
  }
  std::vector<std::string> names;
  for (const uint32_t machine : {EM_NONE, EM_X86_64, EM_AARCH64}) {
    for (uint32_t number = 0; number < 100; ++number) {
      names.push_back(socket + std::to_string(machine << 16 | number) + "-" + hex);
      EXPECT_TRUE(fs::create_directory(names.back())) << names.back();
    }
  }
  return names;
}

TEST_F(StartTest, AFailedOpeningIsNotRemembered) {
  run_one([dir = runtime_dir()](Channel&) {
    ::setenv("URMA_TCP_DEVICES", "none", 1);
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_device_t* device = find_device();
    ASSERT_NE(device, nullptr);
    const std::vector<std::string> obstacles = make_obstacles(dir, device);
    EXPECT_EQ(urma_create_context(device, 0), nullptr);
    EXPECT_EQ(urma_create_context(device, 0), nullptr);
    for (const std::string& name : obstacles) fs::remove(name);
    urma_context_t* ctx = urma_create_context(device, 0);
    ASSERT_NE(ctx, nullptr);
    urma_jfc_cfg_t jfc_cfg = {};
    jfc_cfg.depth = 16;
    urma_jfc_t* jfc = urma_create_jfc(ctx, &jfc_cfg);
    ASSERT_NE(jfc, nullptr);
    urma_jfr_cfg_t jfr_cfg = {};
    jfr_cfg.depth = 16;
    jfr_cfg.max_sge = 1;
    jfr_cfg.trans_mode = URMA_TM_RM;
    jfr_cfg.jfc = jfc;
    urma_jfr_t* jfr = urma_create_jfr(ctx, &jfr_cfg);
    ASSERT_NE(jfr, nullptr);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

}  // namespace
}  // namespace urma_test
