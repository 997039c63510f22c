// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "test/verbs/device_fixture.h"

namespace urma::verbs {
namespace {

constexpr size_t kBytes = 8192;
constexpr uint32_t kAll = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

class MemoryTest : public DeviceFixture {
 protected:
  MemoryTest() { table_ = &fake_.table(); }
  ~MemoryTest() override { ::munmap(memory_, kBytes); }

  // Records the access of every registration.
  std::vector<int> accesses(const Device& device, const MemoryRegion::Options& options) {
    seen().clear();
    real() = table_->reg_mr;
    table_->reg_mr = [](ibv_pd* pd, void* address, size_t length, int access) {
      seen().push_back(access);
      return real()(pd, address, length, access);
    };
    const MemoryRegion region(device, va(), kBytes, options);
    table_->reg_mr = real();
    return seen();
  }

  uint64_t va() const { return reinterpret_cast<uint64_t>(memory_); }

  static std::vector<int>& seen() {
    static std::vector<int> all;
    return all;
  }
  using RegMr = ibv_mr* (*)(ibv_pd*, void*, size_t, int);
  static RegMr& real() {
    static RegMr function = nullptr;
    return function;
  }

  Api* table_;
  void* memory_ =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

TEST_F(MemoryTest, RightsAreTranslatedForTheDevice) {
  const auto device = open({});
  const int local = IBV_ACCESS_LOCAL_WRITE;
  EXPECT_EQ(accesses(*device, {}), std::vector<int>{local});
  EXPECT_EQ(accesses(*device, {URMA_ACCESS_READ}),
            std::vector<int>{local | IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(accesses(*device, {URMA_ACCESS_READ | URMA_ACCESS_WRITE}),
            std::vector<int>{local | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(accesses(*device, {kAll}),
            std::vector<int>{local | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_ATOMIC});
  // The device lacks it.
  EXPECT_EQ(accesses(*device, {.non_pin = true}), std::vector<int>{local});
}

TEST_F(MemoryTest, UnsupportedRightsAreNotRequested) {
  const auto device = open({.has_atomics = false, .has_on_demand = true});
  EXPECT_EQ(accesses(*device, {kAll, true}),
            std::vector<int>{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND});
}

TEST_F(MemoryTest, OnlyGrantedMemoryHasAKeyForPeers) {
  const auto device = open({});
  const MemoryRegion local(*device, va(), kBytes, {});
  EXPECT_FALSE(local.rkey());
  EXPECT_EQ(local.va(), va());
  EXPECT_EQ(local.bytes(), kBytes);
  EXPECT_TRUE(local.writable());
  const MemoryRegion granted(*device, va(), kBytes, {URMA_ACCESS_READ});
  ASSERT_TRUE(granted.rkey());
  EXPECT_NE(*granted.rkey(), granted.lkey());
}

// The peer writes to the sink of a READ, but must not be able to write to memory it may only read.
TEST_F(MemoryTest, IwarpSinksHaveASeparateKey) {
  const auto device = open({.iwarp = true});
  const int sink = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const int readable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  EXPECT_EQ(accesses(*device, {}), std::vector<int>{sink});
  EXPECT_EQ(accesses(*device, {URMA_ACCESS_READ}), (std::vector<int>{sink, readable}));
  EXPECT_EQ(accesses(*device, {URMA_ACCESS_READ | URMA_ACCESS_WRITE}),
            std::vector<int>{sink | IBV_ACCESS_REMOTE_READ});
  const MemoryRegion region(*device, va(), kBytes, {URMA_ACCESS_READ});
  ASSERT_TRUE(region.rkey());
  EXPECT_NE(*region.rkey(), region.lkey());
  EXPECT_FALSE(MemoryRegion(*device, va(), kBytes, {}).rkey());
}

TEST_F(MemoryTest, ReadOnlyMappingsMayBeRead) {
  const auto device = open({});
  ASSERT_EQ(::mprotect(memory_, kBytes, PROT_READ), 0);
  const MemoryRegion region(*device, va(), kBytes, {URMA_ACCESS_READ});
  EXPECT_FALSE(region.writable());
  EXPECT_TRUE(region.rkey());
  const auto [status, text] = failure_of([&] {
    const MemoryRegion refused(*device, va(), kBytes, {URMA_ACCESS_READ | URMA_ACCESS_WRITE});
  });
  EXPECT_EQ(status, URMA_EINVAL);
}

// One that peers and this process may access.
TEST_F(MemoryTest, MemoryIsLockedOnce) {
  const auto device = open({});
  fake_.set_locked_limit(kBytes);
  {
    const MemoryRegion region(*device, va(), kBytes, {kAll});
    EXPECT_EQ(fake_.locked_bytes(), kBytes);
    EXPECT_EQ(fake_.calls("reg_mr"), 1U);
  }
  EXPECT_EQ(fake_.locked_bytes(), 0U);
  fake_.set_locked_limit(kBytes - 1);
  EXPECT_EQ(failure_of([&] { const MemoryRegion region(*device, va(), kBytes, {}); }).first,
            URMA_ENOMEM);
}

struct Refusal {
  int error;
  int status;
  const char* text;
};

class RefusalTest : public MemoryTest, public testing::WithParamInterface<Refusal> {};

TEST_P(RefusalTest, NamesTheRemedy) {
  const auto device = open({});
  const auto before = fake_.objects();
  fake_.fail("reg_mr", GetParam().error);
  const auto [status, text] =
      failure_of([&] { const MemoryRegion region(*device, va(), kBytes, {kAll}); });
  EXPECT_EQ(status, GetParam().status);
  EXPECT_NE(text.find(GetParam().text), std::string::npos) << text;
  EXPECT_NE(text.find("8192"), std::string::npos) << text;
  EXPECT_EQ(fake_.objects(), before);
}

INSTANTIATE_TEST_SUITE_P(Errors, RefusalTest,
                         testing::Values(Refusal{ENOMEM, URMA_ENOMEM, "ulimit -l"},
                                         Refusal{EFAULT, URMA_EINVAL, "not all of it is mapped"},
                                         Refusal{EOPNOTSUPP, URMA_EINVAL, "of this kind"},
                                         Refusal{EINVAL, URMA_EINVAL, "largest region"},
                                         Refusal{EBUSY, EBUSY, "busy"}));

TEST_F(MemoryTest, UnmappedMemoryIsRefused) {
  const auto device = open({});
  ASSERT_EQ(::munmap(static_cast<char*>(memory_) + 4096, 4096), 0);
  EXPECT_EQ(failure_of([&] { const MemoryRegion region(*device, va(), kBytes, {}); }).first,
            URMA_EINVAL);
}

// One of the two registrations of iWARP.
TEST_F(MemoryTest, AnIncompleteRegistrationIsUndone) {
  const auto device = open({.iwarp = true});
  const auto before = fake_.objects();
  fake_.fail("reg_mr", ENOMEM, 2);
  EXPECT_EQ(failure_of([&] {
              const MemoryRegion region(*device, va(), kBytes, {URMA_ACCESS_READ});
            }).first,
            URMA_ENOMEM);
  EXPECT_EQ(fake_.objects(), before);
}

TEST_F(MemoryTest, DmabufsAreRegisteredIfTheDeviceCan) {
  const auto device = open({.has_dmabuf = true});
  EXPECT_TRUE(device->info().has_dmabuf);
  const Fd file(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 3 * 4096), 0);
  const MemoryRegion region(*device, file.get(), 4096 + 16, 0x7000'0010, 4096, {kAll});
  EXPECT_EQ(region.va(), 0x7000'0010U);
  EXPECT_TRUE(region.rkey());
  EXPECT_EQ(failure_of([&] {
              const MemoryRegion shifted(*device, file.get(), 4096, 0x7000'0010, 4096, {});
            }).first,
            URMA_EINVAL);
}

TEST_F(MemoryTest, DmabufsAreRefusedIfTheDeviceCannot) {
  const auto device = open({});
  EXPECT_FALSE(device->info().has_dmabuf);
  const auto [status, text] =
      failure_of([&] { const MemoryRegion region(*device, 0, 0, 0x1000, 4096, {}); });
  EXPECT_EQ(status, EOPNOTSUPP);
  EXPECT_NE(text.find("takes no dma-bufs"), std::string::npos) << text;
}

}  // namespace
}  // namespace urma::verbs
