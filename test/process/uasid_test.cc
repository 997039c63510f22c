// SPDX-License-Identifier: MIT
//
// The uasid of a process: requested or random, unique on this host, and the same wherever it is
// reported.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

// Unique to this run: another one on this host would conflict.
const uint32_t kWished = (std::random_device{}() & 0x7ffffe) + 1;

class UasidTest : public ProcessTest {
 protected:
  void SetUp() override { SKIP_UNLESS_SHARED_MEMORY("the uasid comes from a runtime directory"); }
};

urma_status_t init(uint32_t uasid) {
  urma_init_attr_t conf = {};
  conf.uasid = uasid;
  return urma_init(&conf);
}

uint32_t own_uasid() {
  uint32_t uasid = 0;
  EXPECT_EQ(urma_get_uasid(&uasid), URMA_SUCCESS);
  return uasid;
}

// Holds the requested one until told to end.
Body holder(uint32_t wished) {
  return [wished](Channel& test) {
    ASSERT_EQ(init(wished), URMA_SUCCESS);
    test.send(own_uasid());
    test.sync();
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  };
}

TEST_F(UasidTest, RequestedValueIsAssignedAndReported) {
  run_one([](Channel&) {
    ASSERT_EQ(init(kWished), URMA_SUCCESS);
    EXPECT_EQ(own_uasid(), kWished);
    urma_context_t* ctx = urma_create_context(find_device(), 0);
    ASSERT_NE(ctx, nullptr);
    EXPECT_EQ(ctx->uasid, kWished);
    urma_jfc_cfg_t jfc_cfg = jfc_config(8);
    urma_jfc_t* jfc = urma_create_jfc(ctx, &jfc_cfg);
    ASSERT_NE(jfc, nullptr);
    EXPECT_EQ(jfc->jfc_id.uasid, kWished);
    urma_jfr_cfg_t jfr_cfg = jfr_config(jfc, 8);
    urma_jfr_t* jfr = urma_create_jfr(ctx, &jfr_cfg);
    ASSERT_NE(jfr, nullptr);
    EXPECT_EQ(jfr->jfr_id.uasid, kWished);
    static char memory[64];
    urma_seg_cfg_t seg_cfg = {};
    seg_cfg.va = reinterpret_cast<uint64_t>(memory);
    seg_cfg.len = sizeof(memory);
    urma_target_seg_t* segment = urma_register_seg(ctx, &seg_cfg);
    ASSERT_NE(segment, nullptr);
    // The whole address: owner and place.
    EXPECT_EQ(segment->seg.ubva.uasid, kWished);
    EXPECT_EQ(uint64_t{segment->seg.ubva.va}, seg_cfg.va);
    EXPECT_EQ(std::memcmp(&segment->seg.ubva.eid, &ctx->eid, sizeof(urma_eid_t)), 0);
    EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(UasidTest, ValueInUseIsRefusedUntilItsProcessEnds) {
  Child first("first", holder(kWished));
  EXPECT_EQ(first.channel().receive<uint32_t>(), kWished);
  Child second("second", [](Channel& test) {
    EXPECT_EQ(init(kWished), URMA_EEXIST);
    // Nothing is left of the attempt, and it blocks no other.
    ASSERT_EQ(init(kWished + 1), URMA_SUCCESS);
    EXPECT_EQ(own_uasid(), kWished + 1);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    test.sync();
    test.sync();
    EXPECT_EQ(init(kWished), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
  second.channel().sync();
  first.kill();
  second.channel().sync();
  second.expect_success();
}

// A private directory does not hide a process from others on this host.
TEST_F(UasidTest, ValueInUseIsRefusedAcrossDirectories) {
  const ScratchDir other_dir;
  Child first("first", holder(kWished));
  EXPECT_EQ(first.channel().receive<uint32_t>(), kWished);
  Child second("second", [&](Channel& test) {
    ASSERT_EQ(::setenv("URMA_RUNTIME_DIR", other_dir.path().c_str(), 1), 0);
    EXPECT_EQ(init(kWished), URMA_EEXIST);
    test.sync();
    test.sync();
    EXPECT_EQ(init(kWished), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
  second.channel().sync();
  first.channel().sync();
  first.expect_success();
  second.channel().sync();
  second.expect_success();
}

// A surviving child does not keep what its parent has returned.
TEST_F(UasidTest, ChildrenOfAForkDoNotKeepIt) {
  run_one([](Channel&) {
    ASSERT_EQ(init(kWished), URMA_SUCCESS);
    int alive[2];
    ASSERT_EQ(::pipe(alive), 0);
    const pid_t child = ::fork();
    ASSERT_NE(child, -1);
    if (child == 0) {
      ::close(alive[1]);
      char end;
      (void)!::read(alive[0], &end, 1);
      ::_exit(0);
    }
    ::close(alive[0]);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    EXPECT_EQ(init(kWished), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    ::close(alive[1]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
}

TEST_F(UasidTest, RandomValuesDiffer) {
  constexpr int kProcesses = 6;
  std::set<uint32_t> seen;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(std::make_unique<Child>("holder " + std::to_string(i), holder(0)));
    const auto uasid = children.back()->channel().receive<uint32_t>();
    EXPECT_NE(uasid, 0u);
    EXPECT_EQ(uasid >> 24, 0u);
    EXPECT_TRUE(seen.insert(uasid).second);
  }
  for (auto& child : children) {
    child->channel().sync();
    child->expect_success();
  }
}

TEST_F(UasidTest, MoreThan24BitsAreRefused) {
  run_one([](Channel&) {
    EXPECT_EQ(init(1 << 24), URMA_EINVAL);
    EXPECT_EQ(init(kWished | 0x800000), URMA_SUCCESS);
    EXPECT_EQ(own_uasid(), kWished | 0x800000);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

// A text that an orchestrated program may set: accepted and without effect.
TEST_F(UasidTest, OrchestrationIsAcceptedWithoutEffect) {
  run_one([](Channel&) {
    ASSERT_EQ(::setenv("URMA_ENABLE_ORCH", "1", 1), 0);
    ASSERT_EQ(init(kWished), URMA_SUCCESS);
    EXPECT_EQ(own_uasid(), kWished);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

}  // namespace
}  // namespace urma_test
