// SPDX-License-Identifier: MIT
//
// The suite over a real, unmodified ROCr with its CPU agent. Where there is no /dev/kfd, a stand-in
// for libhsakmt is found before Debian's: the runtime has to be one that takes it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

// "" where the device is there.
std::string why_not() {
  Child child("looks", [](Channel& channel) {
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    std::array<char, 512> reason = {};
    char name[] = "urma_hsa0";
    if (urma_get_device_by_name(name) == nullptr) {
      std::vector<urma_ext_provider_t> providers(16);
      auto count = static_cast<uint32_t>(providers.size());
      urma_ext_query_providers(0, providers.data(), &count);
      for (uint32_t i = 0; i < count; ++i) {
        if (std::strcmp(providers[i].name, "rocm") != 0) continue;
        std::memcpy(reason.data(), providers[i].reason, reason.size());
      }
    }
    channel.send(reason);
    urma_uninit();
  });
  const auto reason = child.channel().receive<std::array<char, 512>>();
  child.expect_success();
  return reason.data();
}

class RealRocrMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/kfd", F_OK) == 0) ::unsetenv("LD_LIBRARY_PATH");
    const std::string reason = why_not();
    if (!reason.empty()) GTEST_SKIP() << "no ROCr with a CPU agent: " << reason;
  }
};

class RealRocr : public RealRocrMemory, public ::testing::WithParamInterface<const char*> {};

TEST_P(RealRocr, RunsTheSuite) {
  const char* const program = std::getenv(GetParam());
  ASSERT_NE(program, nullptr);
  Child child(GetParam(), {program, "--gtest_brief=1"});
  child.expect_success(seconds(240));
}

INSTANTIATE_TEST_SUITE_P(Programs, RealRocr,
                         testing::Values("TWO_PROCESS", "LINES", "OPCODE_MATRIX"),
                         [](const auto& info) { return std::string(info.param); });

// Memory of the runtime's own pool, shared by its handles where those can be made, from one process
// to another.
TEST_F(RealRocrMemory, MovesMemoryOfAPool) {
  run_two(
      "owner",
      [](Channel& channel) {
        Endpoint endpoint;
        auto* const memory =
            static_cast<char*>(urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_HOST, 1 << 20));
        ASSERT_NE(memory, nullptr);
        urma_target_seg_t* const segment = endpoint.add(memory, 1 << 20);
        channel.send(endpoint.queue_id());
        channel.send(endpoint.segment_id(segment));
        channel.receive<int>();
        EXPECT_EQ(std::string(memory, 3), "abc");
        EXPECT_EQ(memory[(1 << 20) - 1], 'z');
        endpoint.remove(segment);
        EXPECT_EQ(urma_ext_free_device(endpoint.ctx, memory), URMA_SUCCESS);
        endpoint.close();
      },
      "user",
      [](Channel& channel) {
        Endpoint endpoint;
        urma_target_jetty_t* const queue = endpoint.import(channel.receive<QueueId>());
        urma_target_seg_t* const remote = endpoint.import(channel.receive<SegmentId>());
        auto* const memory =
            static_cast<char*>(urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_HOST, 1 << 20));
        ASSERT_NE(memory, nullptr);
        urma_target_seg_t* const segment = endpoint.add(memory, 1 << 20);
        std::memcpy(memory, "abc", 3);
        memory[(1 << 20) - 1] = 'z';
        urma_sge_t local = piece(segment, memory, 1 << 20);
        urma_sge_t there = piece(remote, remote->seg.ubva.va, 1 << 20);
        endpoint.post(write_request(queue, &local, &there, 1));
        wait_for_success(endpoint.send_jfc, 1);
        std::memset(memory, 0, 1 << 20);
        endpoint.post(read_request(queue, &local, &there, 2));
        wait_for_success(endpoint.send_jfc, 2);
        EXPECT_EQ(std::string(memory, 3), "abc");
        channel.send(0);
        endpoint.remove(segment);
        EXPECT_EQ(urma_ext_free_device(endpoint.ctx, memory), URMA_SUCCESS);
        endpoint.close();
      });
}

}  // namespace
}  // namespace urma_test
