// SPDX-License-Identifier: MIT
//
// Memory is used when it is needed, not when it is promised: the cost of queues of the maximum
// depth, and of a thousand connections.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "test/process/crowd.h"
#include "test/process/endpoint.h"
#include "test/process/footprint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMostOfAQueue = 64 * kKiB;
constexpr uint64_t kMostOfAThousand = 64 * kMiB;
constexpr size_t kBytes = 8;

Config parts_config() {
  Config config;
  config.jetty = false;
  return config;
}

// A process that sends to itself, from a JFS to a JFR.
struct Parts {
  Endpoint endpoint{parts_config()};
  std::vector<char> memory = std::vector<char>(2 * kBytes);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  uint32_t deepest_jfc, deepest_jfs, deepest_jfr;

  Parts() {
    urma_device_attr_t attr = {};
    EXPECT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
    deepest_jfc = attr.dev_cap.max_jfc_depth;
    deepest_jfs = attr.dev_cap.max_jfs_depth;
    deepest_jfr = attr.dev_cap.max_jfr_depth;
  }
  // One message, and its records.
  void talk(urma_jfs_t* jfs, urma_jfr_t* jfr) {
    urma_target_jetty_t* queue = endpoint.import(QueueId{endpoint.ctx->eid, jfr->jfr_id.id, 0, 0});
    urma_sge_t room = piece(segment, memory.data(), kBytes);
    urma_jfr_wr_t receive = {{&room, 1}, 1, nullptr};
    urma_jfr_wr_t* bad_receive = nullptr;
    EXPECT_EQ(urma_post_jfr_wr(jfr, &receive, &bad_receive), URMA_SUCCESS);
    urma_sge_t from = piece(segment, memory.data() + kBytes, kBytes);
    urma_jfs_wr_t wr = send_request(queue, &from, 2);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jfs_wr(jfs, &wr, &bad), URMA_SUCCESS);
    wait_for_success(jfr->jfr_cfg.jfc, 1);
    wait_for_success(jfs->jfs_cfg.jfc, 2);
    endpoint.unimport(queue);
  }
};

using Look = std::function<void()>;

void live_with_jfc(Parts& parts, bool deep, const Look& look) {
  urma_jfc_cfg_t cfg = parts.endpoint.receive_jfc->jfc_cfg;
  if (deep) cfg.depth = parts.deepest_jfc;
  const OwnedJfc jfc = urma_create_jfc(parts.endpoint.ctx, &cfg);
  look();
  urma_jfr_cfg_t jfr_cfg = parts.endpoint.jfr->jfr_cfg;
  jfr_cfg.id = 0;
  jfr_cfg.jfc = jfc;
  const OwnedJfr jfr = urma_create_jfr(parts.endpoint.ctx, &jfr_cfg);
  parts.talk(parts.endpoint.jfs, jfr);
  look();
}

void live_with_jfs(Parts& parts, bool deep, const Look& look) {
  urma_jfs_cfg_t cfg = parts.endpoint.jfs->jfs_cfg;
  if (deep) cfg.depth = parts.deepest_jfs;
  const OwnedJfs jfs = urma_create_jfs(parts.endpoint.ctx, &cfg);
  look();
  parts.talk(jfs, parts.endpoint.jfr);
  look();
}

void live_with_jfr(Parts& parts, bool deep, const Look& look) {
  urma_jfr_cfg_t cfg = parts.endpoint.jfr->jfr_cfg;
  cfg.id = 0;
  if (deep) cfg.depth = parts.deepest_jfr;
  const OwnedJfr jfr = urma_create_jfr(parts.endpoint.ctx, &cfg);
  look();
  parts.talk(parts.endpoint.jfs, jfr);
  look();
}

struct Kind {
  const char* name;
  void (*live_with)(Parts& parts, bool deep, const Look& look);
};

class DeepQueueTest : public ProcessTest, public testing::WithParamInterface<Kind> {};

TEST_P(DeepQueueTest, UsesLittleMemoryUntilItIsFilled) {
  Child child("child", [](Channel& channel) {
    Parts parts;
    // Touches what every queue needs, mostly code, beforehand.
    GetParam().live_with(parts, /*deep=*/false, [] { take_footprint(); });
    const Footprint before = take_footprint();
    GetParam().live_with(parts, /*deep=*/true,
                         [&] { channel.send(growth(before, take_footprint())); });
    parts.endpoint.close();
  });
  const auto made = child.channel().receive<uint64_t>();
  const auto used = child.channel().receive<uint64_t>();
  child.expect_success();
  std::printf("%s of the greatest depth: %lu KiB, and %lu KiB once it was used\n", GetParam().name,
              made / kKiB, used / kKiB);
  EXPECT_LT(made, kMostOfAQueue);
  EXPECT_LT(used, kMostOfAQueue);
}

// With huge pages everywhere the first entry would cost 2 MiB.
TEST_P(DeepQueueTest, TakesNoHugePages) {
  if (::access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  }
  run_one([](Channel&) {
    Parts parts;
    const uint64_t before = bytes_without_huge_pages();
    int looks = 0;
    GetParam().live_with(parts, /*deep=*/true, [&] {
      if (looks++ == 0) {
        EXPECT_GE(bytes_without_huge_pages(), before + 2 * kMiB);
      }
    });
    parts.endpoint.close();
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeepQueueTest,
                         testing::Values(Kind{"jfc", live_with_jfc}, Kind{"jfs", live_with_jfs},
                                         Kind{"jfr", live_with_jfr}),
                         [](const auto& info) { return info.param.name; });

using CrowdTest = ProcessTest;

void live_in_a_crowd(Channel& channel) {
  Crowd crowd;
  crowd.meet(channel, 1);
  take_footprint();
  send_footprint(channel, take_footprint());
  crowd.meet(channel, kCrowd);
  send_footprint(channel, take_footprint());
  channel.sync();
  crowd.close();
}

Footprint receive_both(Child& a, Child& b) {
  Footprint both = receive_footprint(a.channel());
  both.add(receive_footprint(b.channel()));
  return both;
}

TEST_F(CrowdTest, AThousandJettiesWithAPeerEach) {
  Child a("a", live_in_a_crowd);
  Child b("b", live_in_a_crowd);
  introduce_crowds(a, b, 1);
  const Footprint before = receive_both(a, b);
  introduce_crowds(a, b, kCrowd);
  const uint64_t bytes = growth(before, receive_both(a, b));
  introduce<char>(a, b);
  a.expect_success();
  b.expect_success();
  std::printf("%u jetties with a peer each: %.1f MiB in both processes\n", kCrowd,
              static_cast<double>(bytes) / kMiB);
  EXPECT_LT(bytes, kMostOfAThousand);
}

}  // namespace
}  // namespace urma_test
