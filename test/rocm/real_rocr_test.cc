// SPDX-License-Identifier: MIT
//
// The suite over a real, unmodified ROCr, with its CPU agent or with a GPU. For the CPU agent
// without /dev/kfd, a stand-in for libhsakmt precedes Debian's: the runtime must accept it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

// "" if the device exists.
std::string why_not() {
  Child child("looks", [](Channel& channel) {
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    std::array<char, 512> reason = {};
    if (urma_get_device_by_name(std::getenv("URMA_DEVICE")) == nullptr) {
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
    // Each program of the suite is one child here, and has many tests.
    ::setenv("URMA_TEST_PATIENCE", "5", 0);
    // Bazel's variables for this test are not for them.
    for (const char* name : {"TEST_TOTAL_SHARDS", "TEST_SHARD_INDEX", "TEST_SHARD_STATUS_FILE",
                             "TEST_PREMATURE_EXIT_FILE", "XML_OUTPUT_FILE"}) {
      ::unsetenv(name);
    }
    const std::string reason = why_not();
    if (!reason.empty())
      GTEST_SKIP() << std::getenv("URMA_DEVICE") << " does not exist: " << reason;
  }
};

class RealRocr : public RealRocrMemory, public ::testing::WithParamInterface<std::string> {};

TEST_P(RealRocr, RunsTheSuite) {
  Child child(GetParam(), {GetParam(), "--gtest_brief=1"});
  child.expect_success(seconds(240));
}

std::vector<std::string> programs() {
  std::istringstream names(std::getenv("PROGRAMS"));
  return {std::istream_iterator<std::string>(names), {}};
}

std::string name_of(const ::testing::TestParamInfo<std::string>& program) {
  return program.param.substr(program.param.rfind('/') + 1);
}

INSTANTIATE_TEST_SUITE_P(Programs, RealRocr, ::testing::ValuesIn(programs()), name_of);

constexpr size_t kBytes = 4 << 20;

// Memory that the CPU may not reach, so no test accesses it directly.
struct PoolMemory {
  explicit PoolMemory(urma_ext_pool_t pool)
      : memory(urma_ext_alloc_device(endpoint.ctx, pool, kBytes)), plain(kBytes) {
    EXPECT_NE(memory, nullptr);
    segment = endpoint.add(memory, kBytes);
    plain_segment = endpoint.add(plain.data(), kBytes);
  }
  void close() {
    endpoint.remove(segment);
    EXPECT_EQ(urma_ext_free_device(endpoint.ctx, memory), URMA_SUCCESS);
    endpoint.close();
  }

  Endpoint endpoint;
  void* memory;
  std::vector<char> plain;
  urma_target_seg_t* segment;
  urma_target_seg_t* plain_segment;
};

void expect_path(urma_target_seg_t* remote) {
  urma_ext_part_t part;
  uint32_t count = 1;
  ASSERT_EQ(urma_ext_query_segment(remote, &part, &count), URMA_SUCCESS);
  const char* const ipc = std::getenv("URMA_ROCM_IPC");
  const bool gpu = std::string(std::getenv("URMA_DEVICE")).starts_with("urma_rocm");
  const bool shared = gpu || (ipc != nullptr && std::string(ipc) == "on");
  EXPECT_EQ(part.path == URMA_EXT_PATH_DEVICE, shared);
}

void move_there_and_back(urma_ext_pool_t pool, Channel& channel) {
  PoolMemory own(pool);
  Endpoint& endpoint = own.endpoint;
  std::iota(own.plain.begin(), own.plain.end(), 'a');
  urma_target_jetty_t* const queue = endpoint.import(channel.receive<QueueId>());
  urma_target_seg_t* const remote = endpoint.import(channel.receive<SegmentId>());
  urma_target_seg_t* const remote_plain = endpoint.import(channel.receive<SegmentId>());
  urma_sge_t plain = piece(own.plain_segment, own.plain.data(), kBytes);
  urma_sge_t here = piece(own.segment, own.memory, kBytes);
  urma_sge_t there = piece(remote, remote->seg.ubva.va, kBytes);
  urma_sge_t there_plain = piece(remote_plain, remote_plain->seg.ubva.va, kBytes);
  endpoint.post(write_request(queue, &plain, &there, 1));
  wait_for_success(endpoint.send_jfc, 1);
  expect_path(remote);
  endpoint.post(read_request(queue, &here, &there, 2));
  wait_for_success(endpoint.send_jfc, 2);
  endpoint.post(write_request(queue, &here, &there_plain, 3));
  wait_for_success(endpoint.send_jfc, 3);
  endpoint.post(send_request(queue, &here, 4));
  wait_for_success(endpoint.send_jfc, 4);
  channel.send(0);
  own.close();
}

void be_moved(urma_ext_pool_t pool, Channel& channel) {
  PoolMemory own(pool);
  std::vector<char> received(kBytes);
  urma_target_seg_t* const into = own.endpoint.add(received.data(), kBytes);
  own.endpoint.post_receive(into, received.data(), kBytes, 9);
  channel.send(own.endpoint.queue_id());
  channel.send(own.endpoint.segment_id(own.segment));
  channel.send(own.endpoint.segment_id(own.plain_segment));
  wait_for_success(own.endpoint.receive_jfc, 9);
  channel.receive<int>();
  std::vector<char> expected(kBytes);
  std::iota(expected.begin(), expected.end(), 'a');
  EXPECT_EQ(own.plain, expected);
  EXPECT_EQ(received, expected);
  own.close();
}

// Between two processes: written, read into memory of the same kind, written to host memory, and
// sent.
TEST_F(RealRocrMemory, MovesMemoryOfEachPool) {
  const bool gpu = std::string(std::getenv("URMA_DEVICE")).starts_with("urma_rocm");
  const auto pools = gpu ? std::vector{URMA_EXT_POOL_COARSE, URMA_EXT_POOL_HOST}
                         : std::vector{URMA_EXT_POOL_HOST, URMA_EXT_POOL_COARSE};
  for (const urma_ext_pool_t pool : pools) {
    run_two(
        "owner", [=](Channel& channel) { be_moved(pool, channel); }, "user",
        [=](Channel& channel) { move_there_and_back(pool, channel); });
  }
}

}  // namespace
}  // namespace urma_test
