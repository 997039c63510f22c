// SPDX-License-Identifier: MIT
//
// The worst behaviour of a runtime when handles are attached, and what is left behind. Each process
// is its own peer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/rocm/fake_runtime.h"
#include "test/rocm/hsa_library.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

struct Signal {
  Signal() : number(hsa.create(1, HSA_AMD_SIGNAL_IPC)) {
    EXPECT_EQ(urma_ext_create_signal_handle(endpoint.ctx, number, &handle, &owned), URMA_SUCCESS);
    standing = fake.get("SIGNALS");
  }
  urma_status_t attach() {
    return urma_ext_attach_signal_handle(endpoint.ctx, &handle, &attached, &there);
  }
  void close() {
    EXPECT_EQ(urma_unregister_seg(owned), URMA_SUCCESS);
    hsa.destroy(number);
    endpoint.close();
    EXPECT_EQ(fake.get("SIGNALS"), 0);
  }

  Endpoint endpoint;
  FakeRuntime fake;
  HsaLibrary hsa;
  uint64_t number;
  urma_ext_signal_handle_t handle;
  urma_target_seg_t* owned = nullptr;
  long standing;  // signals of this process, before any is attached
  urma_target_seg_t* attached = nullptr;
  uint64_t there = 0;
};

TEST(HandleFaults, OneSignalIsAttachedAndReleasedOnce) {
  run_one([](Channel&) {
    Signal signal;
    ASSERT_EQ(signal.attach(), URMA_SUCCESS);
    urma_target_seg_t* const first = signal.attached;
    ASSERT_EQ(signal.attach(), URMA_SUCCESS);
    EXPECT_EQ(signal.fake.get("ATTACHES"), 1);
    EXPECT_EQ(signal.fake.get("SIGNALS"), signal.standing + 1);
    EXPECT_EQ(urma_ext_close_signal_handle(first), URMA_SUCCESS);
    EXPECT_EQ(signal.hsa.load(signal.there), 1);
    EXPECT_EQ(urma_ext_close_signal_handle(signal.attached), URMA_SUCCESS);
    // By its last holder, which may be the service thread.
    wait_until([&] { return signal.fake.get("DETACHED") == 1; });
    EXPECT_EQ(signal.fake.get("SIGNALS"), signal.standing);
    signal.close();
  });
}

TEST(HandleFaults, AHangingAttachEndsAtItsTimeout) {
  run_one([](Channel&) {
    ::setenv("URMA_ROCM_TIMEOUT_MS", "100", 1);
    ::setenv("FAKE_HSA_HANG_MS", kForEver, 1);
    Signal signal;
    EXPECT_EQ(signal.attach(), URMA_FAIL);
    signal.fake.set("HANG_MS", 0);
    EXPECT_EQ(signal.attached, nullptr);
    // A late result is released.
    wait_until([&] { return signal.fake.get("DETACHED") == 1; });
    EXPECT_EQ(signal.fake.get("SIGNALS"), signal.standing);
    signal.close();
  });
}

// Longer than a live owner takes to answer.
TEST(HandleFaults, ASlowAttachIsWaitedForUntilTheTimeout) {
  run_one([](Channel&) {
    ::setenv("URMA_ROCM_TIMEOUT_MS", "30000", 1);
    ::setenv("FAKE_HSA_HANG_MS", "3300", 1);
    Signal signal;
    EXPECT_EQ(signal.attach(), URMA_SUCCESS);
    EXPECT_EQ(urma_ext_close_signal_handle(signal.attached), URMA_SUCCESS);
    signal.close();
  });
}

// Both the owner and its peers leak everything.
TEST(HandleFaults, AnAllocationAtTheSameAddressIsAttachedAgain) {
  run_one([](Channel&) {
    constexpr size_t kBytes = 64 << 10;
    constexpr char kRounds = 8;
    Endpoint endpoint;
    const FakeRuntime fake;
    std::set<void*> seen;
    for (char round = 1; round <= kRounds; ++round) {
      void* const memory = urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, kBytes);
      seen.insert(memory);
      fake.write(memory, std::vector<char>(kBytes, round));
      urma_ext_memory_handle_t handle;
      urma_target_seg_t *owned = nullptr, *attached = nullptr;
      void* there = nullptr;
      ASSERT_EQ(urma_ext_create_memory_handle(endpoint.ctx, memory, kBytes, &handle, &owned),
                URMA_SUCCESS);
      ASSERT_EQ(urma_ext_attach_memory_handle(endpoint.ctx, &handle, &attached, &there),
                URMA_SUCCESS);
      EXPECT_EQ(fake.read(there, kBytes), std::vector<char>(kBytes, round));
      EXPECT_EQ(urma_ext_free_device(endpoint.ctx, memory), URMA_SUCCESS);
    }
    EXPECT_LT(seen.size(), size_t{kRounds}) << "no address was reused, so the test shows nothing";
    EXPECT_EQ(fake.get("ATTACHES"), kRounds);
  });
}

// The token of a segment that peers may not access does not open its allocation, which another
// segment has opened.
TEST(HandleFaults, LocalSegmentsAreNotAttached) {
  run_one([](Channel&) {
    constexpr size_t kBytes = 64 << 10;
    OwnedEndpoint endpoint;
    void* const memory = urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, kBytes);
    urma_target_seg_t* const open = endpoint.add(memory, kBytes / 2);
    urma_target_seg_t* const local = endpoint.add(memory, kBytes, URMA_ACCESS_LOCAL_ONLY);
    urma_target_seg_t* attached = nullptr;
    void* there = nullptr;
    urma_ext_memory_handle_t handle = {open->seg, {}, {}};
    ASSERT_EQ(urma_ext_attach_memory_handle(endpoint.ctx, &handle, &attached, &there),
              URMA_SUCCESS);
    EXPECT_EQ(urma_ext_close_memory_handle(attached), URMA_SUCCESS);
    handle.seg = local->seg;
    EXPECT_EQ(urma_ext_attach_memory_handle(endpoint.ctx, &handle, &attached, &there), URMA_FAIL);
  });
}

}  // namespace
}  // namespace urma_test
