// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <vector>

#include "urma/core/process/service_thread.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/memory.h"

namespace urma::verbs {
namespace {

void print(const DeviceInfo& info) {
  const auto& cap = info.attr.dev_cap;
  std::printf(
      "%s: layer %d, inline %u, sge %u/%u, depth %u/%u/%u, message %llu, modes %u, cas %u, "
      "mtu %d/%d, width %d, speed %d\n",
      info.name.c_str(), static_cast<int>(info.link_layer), cap.max_jfs_inline_len, cap.max_jfs_sge,
      cap.max_jfr_sge, cap.max_jfc_depth, cap.max_jfs_depth, cap.max_jfr_depth,
      static_cast<unsigned long long>(cap.max_msg_size), cap.trans_mode, cap.max_cas_size,
      info.attr.port_attr[0].active_mtu, info.attr.port_attr[0].max_mtu,
      info.attr.port_attr[0].active_width, info.attr.port_attr[0].active_speed);
  for (const auto& address : info.eids) {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET6, address.eid.raw, text, sizeof(text));
    std::printf("  %s gid %u netdev %u\n", text, address.gid_index, address.netdev);
  }
}

// One turn per device, to show the differences side by side.
class DeviceOnMachineTest : public testing::Test {
 protected:
  DeviceOnMachineTest() {
    service_.start();
    found_ = find_devices(system_verbs(), &why_);
  }
  ~DeviceOnMachineTest() override { service_.stop(); }
  void SetUp() override {
    // If a device was created for these tests, its absence is an error.
    ASSERT_TRUE(!found_.empty() || std::getenv("URMA_TEST_VERBS_DEVICE") == nullptr) << why_;
    if (found_.empty()) GTEST_SKIP() << why_;
  }

  core::ServiceThread service_;
  std::string why_;
  std::vector<DeviceInfo> found_;
};

TEST_F(DeviceOnMachineTest, AttributesMakeSense) {
  for (const auto& info : found_) {
    print(info);
    const auto& cap = info.attr.dev_cap;
    EXPECT_FALSE(info.eids.empty()) << info.name;
    EXPECT_GE(cap.max_jfs_inline_len, 32U) << info.name;
    EXPECT_GE(cap.max_jfs_sge, 1U) << info.name;
    EXPECT_GE(cap.max_jfr_sge, 1U) << info.name;
    EXPECT_GE(cap.max_jfc_depth, 1024U) << info.name;
    EXPECT_GE(cap.max_msg_size, 1U << 20) << info.name;
    EXPECT_EQ(info.attr.port_attr[0].state, URMA_PORT_ACTIVE) << info.name;
    for (const auto& address : info.eids) EXPECT_NE(address.netdev, 0U) << info.name;
    if (info.iwarp()) {
      EXPECT_EQ(cap.max_cas_size, 0U) << info.name;
    }
  }
}

TEST_F(DeviceOnMachineTest, AddressesStayAndMemoryIsRegistered) {
  constexpr size_t kBytes = 1 << 20;
  void* memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto va = reinterpret_cast<uint64_t>(memory);
  for (const auto& info : found_) {
    const Device device(&system_verbs(), &service_, info);
    for (const auto& address : info.eids) {
      ASSERT_TRUE(device.find_address(address.eid)) << info.name;
      EXPECT_EQ(device.find_address(address.eid)->gid_index, address.gid_index) << info.name;
    }
    const uint32_t all = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;
    for (const uint32_t access : {uint32_t{URMA_ACCESS_LOCAL_ONLY}, uint32_t{URMA_ACCESS_READ},
                                  uint32_t{URMA_ACCESS_READ | URMA_ACCESS_WRITE}, all}) {
      const MemoryRegion region(device, va, kBytes, {access});
      EXPECT_EQ(region.rkey().has_value(), access != URMA_ACCESS_LOCAL_ONLY) << info.name;
      std::printf("%s: access %u lkey %#x rkey %#x\n", info.name.c_str(), access, region.lkey(),
                  region.rkey().value_or(0));
    }
    std::printf("%s: dma-buf %d\n", info.name.c_str(), info.has_dmabuf ? 1 : 0);
  }
  ::munmap(memory, kBytes);
}

TEST_F(DeviceOnMachineTest, ReadOnlyAndUnmappedMemory) {
  constexpr size_t kBytes = 8192;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto va = reinterpret_cast<uint64_t>(memory);
  for (const auto& info : found_) {
    const Device device(&system_verbs(), &service_, info);
    const MemoryRegion region(device, va, kBytes, {URMA_ACCESS_READ});
    EXPECT_FALSE(region.writable()) << info.name;
    EXPECT_TRUE(region.rkey()) << info.name;
  }
  ::munmap(memory, kBytes);
  for (const auto& info : found_) {
    const Device device(&system_verbs(), &service_, info);
    EXPECT_ANY_THROW(MemoryRegion(device, va, kBytes, {})) << info.name;
  }
}

}  // namespace
}  // namespace urma::verbs
