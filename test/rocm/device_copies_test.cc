// SPDX-License-Identifier: MIT
//
// The runtime calls of each path between two memories: copies, buffers, signals. Each process is
// its own peer.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/rocm/fake_runtime.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 256 << 10;
// More than the CPU copies itself.
constexpr size_t kLarge = 64 << 10;

// Memory of one kind: registered, and imported.
struct Memory {
  char* address;
  urma_target_seg_t* local;
  urma_target_seg_t* remote;
};

struct Self {
  explicit Self(const Config& config = {})
      : endpoint(config),
        queue(endpoint.import(endpoint.queue_id())),
        device(of_pool(URMA_EXT_POOL_COARSE)),
        other_device(of_pool(URMA_EXT_POOL_COARSE)),
        host(of_pool(URMA_EXT_POOL_HOST)),
        plain(registered(plain_bytes.data())) {
    // Each is attached, and attaching is complete.
    for (const Memory* memory : {&device, &other_device, &host, &plain}) {
      write(*memory, *memory, 8);
      wait_for_success(endpoint.send_jfc, 1);
    }
    copies = fake.get("COPIES");
    locks = fake.get("LOCKS");
  }

  Memory registered(char* address) {
    urma_target_seg_t* const local = endpoint.add(address, kBytes);
    return {address, local, endpoint.import(endpoint.segment_id(local), true)};
  }
  Memory of_pool(urma_ext_pool_t pool) {
    return registered(static_cast<char*>(urma_ext_alloc_device(endpoint.ctx, pool, kBytes)));
  }
  void write(const Memory& from, const Memory& to, size_t bytes) {
    urma_sge_t local = piece(from.local, from.address, bytes);
    urma_sge_t there = piece(to.remote, to.remote->seg.ubva.va + kBytes / 2, bytes);
    endpoint.post(write_request(queue, &local, &there, 1));
  }
  // Copies by the runtime, and buffers created for them, since the last call.
  std::pair<long, long> spent() {
    const std::pair<long, long> more = {fake.get("COPIES") - copies, fake.get("LOCKS") - locks};
    copies += more.first;
    locks += more.second;
    return more;
  }
  std::pair<long, long> of_write(const Memory& from, const Memory& to, size_t bytes) {
    write(from, to, bytes);
    wait_for_success(endpoint.send_jfc, 1);
    return spent();
  }
  std::pair<long, long> of_read(const Memory& from, const Memory& to, size_t bytes) {
    urma_sge_t local = piece(to.local, to.address, bytes);
    urma_sge_t there = piece(from.remote, from.remote->seg.ubva.va + kBytes / 2, bytes);
    endpoint.post(read_request(queue, &local, &there, 1));
    wait_for_success(endpoint.send_jfc, 1);
    return spent();
  }

  Endpoint endpoint;
  FakeRuntime fake;
  std::vector<char> plain_bytes = std::vector<char>(kBytes);
  urma_target_jetty_t* queue;
  Memory device;
  Memory other_device;
  Memory host;
  Memory plain;
  long copies = 0;
  long locks = 0;
};

using Spent = std::pair<long, long>;
constexpr Spent kOneCopy = {1, 0};
constexpr Spent kByCpu = {0, 0};
constexpr Spent kThroughBuffer = {1, 1};

TEST(DeviceCopies, OnlyNecessaryCopiesAreMade) {
  run_one([](Channel&) {
    Self self;
    EXPECT_EQ(self.of_write(self.device, self.other_device, kLarge), kOneCopy);
    EXPECT_EQ(self.of_read(self.other_device, self.device, kLarge), kOneCopy);
    // Registered host memory is already locked.
    EXPECT_EQ(self.of_write(self.plain, self.device, kLarge), kOneCopy);
    EXPECT_EQ(self.of_read(self.device, self.plain, kLarge), kOneCopy);
    EXPECT_EQ(self.of_write(self.host, self.device, kLarge), kOneCopy);
    EXPECT_EQ(self.of_read(self.device, self.host, kLarge), kOneCopy);
    // However short, if the CPU cannot reach them.
    EXPECT_EQ(self.of_write(self.plain, self.device, 8), kOneCopy);
    // Reachable memory is copied by the CPU if that is faster.
    EXPECT_EQ(self.of_write(self.plain, self.host, 8), kByCpu);
    EXPECT_EQ(self.of_write(self.host, self.host, 8), kByCpu);
    EXPECT_EQ(self.of_write(self.plain, self.plain, kLarge), kByCpu);
    // Only the owner of host memory locks it.
    EXPECT_EQ(self.of_write(self.device, self.plain, kLarge), kThroughBuffer);
    EXPECT_EQ(self.of_read(self.plain, self.device, kLarge), kThroughBuffer);
    self.endpoint.close();
  });
}

TEST(DeviceCopies, SignalsAreMadeOnce) {
  run_one([](Channel&) {
    Self self;
    const long signals = self.fake.get("SIGNALS");
    for (int i = 0; i < 300; ++i) {
      EXPECT_EQ(self.of_write(self.device, self.other_device, 8), kOneCopy);
    }
    EXPECT_EQ(self.fake.get("SIGNALS"), signals);
    self.endpoint.close();
  });
}

// The others are not checked.
TEST(DeviceCopies, CollectingCostsOnlyEndedCopies) {
  run_one([](Channel&) {
    constexpr int kCopies = 1000;
    constexpr int kEnded = 10;
    Config config;
    config.send_depth = kCopies;
    Self self(config);
    self.fake.set("HOLD", 1);
    for (int i = 0; i < kCopies; ++i) self.write(self.device, self.other_device, 64);
    self.fake.set("LET", kEnded);
    wait_until([&] { return self.fake.get("UNDER_WAY") == kCopies - kEnded; });
    const long loads = self.fake.get("LOADS");
    for (int i = 0; i < kEnded; ++i) wait_for_success(self.endpoint.send_jfc, 1);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    // The fake counts in steps of 64.
    EXPECT_LE(self.fake.get("LOADS") - loads, 3 * kEnded + 64);
    self.fake.set("HOLD", 0);
    for (int i = kEnded; i < kCopies; ++i) wait_for_success(self.endpoint.send_jfc, 1);
    self.endpoint.close();
  });
}

TEST(DeviceCopies, AttributesAreThoseOfThePools) {
  run_one([](Channel&) {
    ::setenv("FAKE_HSA_POOL_MIB", "8", 1);
    OwnedEndpoint endpoint;
    urma_device_attr_t attr = {};
    ASSERT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.dev_cap.max_msg_size, 8U << 20);
    EXPECT_EQ(attr.dev_cap.max_write_size, 8U << 20);
    EXPECT_EQ(attr.dev_cap.page_size_cap, 4096U);
    errno = 0;
    EXPECT_EQ(urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, (8 << 20) + 1), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  });
}

TEST(DeviceCopies, FreedMemoryIsNotRegistered) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    void* const memory = urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, kBytes);
    EXPECT_EQ(urma_ext_free_device(endpoint.ctx, memory), URMA_SUCCESS);
    EXPECT_EQ(urma_ext_free_device(endpoint.ctx, memory), URMA_EINVAL);
    urma_seg_cfg_t cfg = seg_config(memory, kBytes, URMA_ACCESS_READ);
    errno = 0;
    EXPECT_EQ(urma_register_seg(endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, EINVAL);
  });
}

}  // namespace
}  // namespace urma_test
