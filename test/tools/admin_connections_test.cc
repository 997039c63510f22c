// SPDX-License-Identifier: MIT
//
// urma_admin and a process with connected queues: over a software device, so that it runs on any
// machine.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "test/process/endpoint.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

using nlohmann::json;

constexpr size_t kSize = 8;
constexpr double kMostSeconds = 600;

struct Ids {
  uint32_t sender;
  uint32_t receiver;
};

// Sends to itself, and stays unchanged until it has been inspected.
void connect(Channel& test, urma_transport_mode_t mode) {
  Config config;
  config.mode = mode;
  std::array<char, kSize> memory = {};
  OwnedEndpoint endpoint(config);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
  if (mode == URMA_TM_RC) endpoint.bind(self);
  urma_sge_t piece_of_it = piece(segment, memory.data(), memory.size());
  endpoint.post_receive(segment, memory.data(), memory.size(), 7);
  endpoint.post(send_request(self, &piece_of_it));
  wait_for_success(endpoint.receive_jfc, 7);
  wait_for_success(endpoint.send_jfc, 0);
  test.send(Ids{endpoint.sender_id(), endpoint.receiver_id()});
  test.sync();
}

class AdminConnectionsTest : public ToolTest,
                             public testing::WithParamInterface<urma_transport_mode_t> {
 protected:
  AdminConnectionsTest() {
    const std::filesystem::path module = program_path("BARE_MODULE");
    ::setenv("URMA_PROVIDER_PATH", module.parent_path().c_str(), 1);
    ::setenv("URMA_DEVICE", "urma_fake0", 1);
  }
  static ToolResult admin(const std::vector<std::string>& words) {
    return run_tool(program_path("URMA_ADMIN"), words);
  }
};

TEST_P(AdminConnectionsTest, BothEndsAreListedWithStateAndAge) {
  const std::string mode = GetParam() == URMA_TM_RC ? "RC" : "RM";
  Child program("program", [mode = GetParam()](Channel& test) { connect(test, mode); });
  const auto ids = program.channel().receive<Ids>();
  const ToolResult result = admin({"show", "dev", "urma_fake0", "rc", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json processes = json::parse(result.out)["processes"];
  ASSERT_EQ(processes.size(), 1u) << result.out;
  EXPECT_EQ(processes[0]["pid"], program.pid());
  const json connections = processes[0]["connections"];
  ASSERT_EQ(connections.size(), 2u) << result.out;
  for (const json& end : connections) {
    EXPECT_EQ(end["device"], "urma_fake0");
    EXPECT_EQ(end["trans_mode"], mode);
    EXPECT_EQ(end["state"], "READY");
    EXPECT_EQ(end["status"], nullptr);
    EXPECT_EQ(end["peer_eid"], end["eid"]);
    EXPECT_GT(end["age_seconds"], 0);
    EXPECT_LT(end["age_seconds"], kMostSeconds);
    const bool out = end["direction"] == "out";
    EXPECT_EQ(end["kind"], "jetty");
    EXPECT_EQ(end["id"], out ? ids.sender : ids.receiver);
    EXPECT_EQ(end["peer_kind"], "jetty");
    EXPECT_EQ(end["peer_id"], out ? ids.receiver : ids.sender);
  }
  EXPECT_NE(connections[0]["direction"], connections[1]["direction"]);
  EXPECT_EQ(connections[0]["qp"], connections[1]["peer_qp"]);
  EXPECT_EQ(connections[1]["qp"], connections[0]["peer_qp"]);

  const ToolResult table = admin({"show", "dev", "urma_fake0", "rc"});
  EXPECT_TRUE(has_line(table.out, "^connections of process " + std::to_string(program.pid())));
  const std::string id = std::to_string(ids.sender);
  for (const char* way : {"out", "in"}) {
    EXPECT_TRUE(has_line(table.out, "^urma_fake0 +" + std::string(way) + " +jetty " + id +
                                        " +jetty " + id + " .* " + mode +
                                        " +READY +[0-9]+\\.[0-9] s +[0-9]+ +[0-9]+$"))
        << table.out;
  }
  EXPECT_FALSE(has_line(admin({"show", "dev", "urma_fake0", "rc", "1"}).out, "READY"));
  program.channel().sync();
  program.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Modes, AdminConnectionsTest, testing::Values(URMA_TM_RM, URMA_TM_RC),
                         [](const auto& info) { return info.param == URMA_TM_RC ? "Rc" : "Rm"; });

}  // namespace
}  // namespace urma_test
