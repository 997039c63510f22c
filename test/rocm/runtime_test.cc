// SPDX-License-Identifier: MIT
//
// Which devices there are, or why there are none: over the runtime that is named.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "test/process/harness.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

struct Found {
  std::vector<std::string> devices;  // of this provider
  std::string reason;
};

Found look() {
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  Found found;
  int count = 0;
  urma_device_t** const list = urma_get_device_list(&count);
  // For programs that open the first.
  EXPECT_STREQ(list[0]->name, "urma_shm0");
  for (int i = 0; i < count; ++i) {
    const std::string name = list[i]->name;
    if (name.starts_with("urma_rocm") || name.starts_with("urma_hsa")) {
      found.devices.push_back(name);
    }
  }
  urma_free_device_list(list);
  std::vector<urma_ext_provider_t> providers(16);
  auto room = static_cast<uint32_t>(providers.size());
  EXPECT_EQ(urma_ext_query_providers(0, providers.data(), &room), URMA_SUCCESS);
  for (uint32_t i = 0; i < room; ++i) {
    if (std::strcmp(providers[i].name, "rocm") != 0) continue;
    EXPECT_EQ(providers[i].loaded, 1U);
    EXPECT_EQ(providers[i].devices, found.devices.size());
    found.reason = providers[i].reason;
  }
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  return found;
}

// In a separate process with these variables, which must print nothing.
void expect(const std::map<std::string, std::string>& variables,
            const std::vector<std::string>& devices, const std::string& reason) {
  Child child("looks", [&](Channel&) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    const Found found = look();
    EXPECT_EQ(found.devices, devices);
    EXPECT_NE(found.reason.find(reason), std::string::npos) << found.reason;
    EXPECT_EQ(found.reason.empty(), reason.empty()) << found.reason;
  });
  child.expect_success();
  EXPECT_EQ(child.output(), "");
}

// What the driver reports for each node: "0" if it is no GPU.
std::vector<std::string> gpus_of_driver() {
  std::vector<std::string> gpus;
  std::error_code none;
  for (const auto& node :
       std::filesystem::directory_iterator("/sys/class/kfd/kfd/topology/nodes", none)) {
    std::string id;
    std::ifstream(node.path() / "gpu_id") >> id;
    gpus.push_back(id);
  }
  return gpus;
}

std::string fake() { return std::getenv("FAKE_HSA"); }

TEST(RocmRuntime, NoDriver) {
  if (::access("/dev/kfd", F_OK) == 0) GTEST_SKIP() << "this machine has /dev/kfd";
  expect({}, {}, "there is no /dev/kfd");
}

TEST(RocmRuntime, NoLibrary) {
  expect({{"URMA_ROCM_LIBRARY", "/no/such/library.so"}}, {}, "cannot be opened");
}

TEST(RocmRuntime, OldLibrary) {
  expect({{"URMA_ROCM_LIBRARY", std::getenv("OLD_HSA")}}, {}, "is too old: it has no ");
}

TEST(RocmRuntime, NoUsableRuntime) {
  expect({{"URMA_ROCM_LIBRARY", fake()}, {"FAKE_HSA_INIT_STATUS", "4104"}}, {},
         "hsa_init: 0x1008 ");
}

TEST(RocmRuntime, NoGpu) {
  expect({{"URMA_ROCM_LIBRARY", fake()}, {"FAKE_HSA_GPUS", "0"}}, {},
         "has no GPU with memory (URMA_ROCM_CPU=1");
}

TEST(RocmRuntime, OneDeviceForEachAgent) {
  expect({{"URMA_ROCM_LIBRARY", fake()}}, {"urma_rocm0"}, "");
  expect({{"URMA_ROCM_LIBRARY", fake()}, {"FAKE_HSA_GPUS", "2"}}, {"urma_rocm0", "urma_rocm1"}, "");
  expect({{"URMA_ROCM_LIBRARY", fake()}, {"URMA_ROCM_CPU", "1"}}, {"urma_hsa0", "urma_rocm0"}, "");
  expect({{"URMA_ROCM_LIBRARY", fake()}, {"URMA_ROCM_CPU", "1"}, {"FAKE_HSA_GPUS", "0"}},
         {"urma_hsa0"}, "");
}

TEST(RocmRuntime, StartsThreeTimes) {
  Child child("looks", [](Channel&) {
    ::setenv("URMA_ROCM_LIBRARY", fake().c_str(), 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(look().devices.size(), 1U);
  });
  child.expect_success();
}

// In a guest: Debian's runtime prints when it is started, but it is not started for this.
TEST(RocmRuntime, DriverWithoutGpu) {
  const std::vector<std::string> gpus = gpus_of_driver();
  if (gpus.empty()) GTEST_SKIP() << "this machine has no /dev/kfd";
  if (gpus != std::vector<std::string>{"0"}) GTEST_SKIP() << "this machine has a GPU";
  expect({}, {}, "this machine has no AMD GPU: the kernel module amdgpu knows none");
  Child child("looks", [](Channel&) {
    ::setenv("URMA_ROCM_CPU", "1", 1);
    EXPECT_EQ(look().devices, std::vector<std::string>{"urma_hsa0"});
  });
  child.expect_success();
}

// In a guest: as a user in no group. Root without its capabilities is such a user, and can still
// read the build.
TEST(RocmRuntime, NoPermission) {
  if (gpus_of_driver() != std::vector<std::string>{"0"} || ::geteuid() != 0) {
    GTEST_SKIP()
        << "removes /dev/kfd for a while; needs root and a machine with /dev/kfd and without GPU";
  }
  struct stat before = {};
  ASSERT_EQ(::stat("/dev/kfd", &before), 0);
  ASSERT_EQ(::chmod("/dev/kfd", 0), 0);
  Child child("looks", [](Channel&) {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    ASSERT_EQ(::syscall(SYS_capset, &header, none), 0);
    ::setenv("URMA_ROCM_CPU", "1", 1);
    const Found found = look();
    EXPECT_TRUE(found.devices.empty());
    EXPECT_NE(found.reason.find("become a member of the group render"), std::string::npos)
        << found.reason;
  });
  child.expect_success();
  EXPECT_EQ(child.output(), "");
  EXPECT_EQ(::chmod("/dev/kfd", before.st_mode), 0);
}

// Debian's own runtime, without a stand-in for its driver.
TEST(RocmRuntime, RealLibraryWithoutDriver) {
  if (::access("/dev/kfd", F_OK) == 0) GTEST_SKIP() << "this machine has /dev/kfd";
  Child child("looks", [](Channel&) {
    ::setenv("URMA_ROCM_LIBRARY", "libhsa-runtime64.so.1", 1);
    const Found found = look();
    EXPECT_TRUE(found.devices.empty());
    EXPECT_NE(found.reason, "");
  });
  child.expect_success();
  EXPECT_EQ(child.output(), "");
}

}  // namespace
}  // namespace urma_test
