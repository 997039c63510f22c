// SPDX-License-Identifier: MIT
//
// Memory of other devices: dma-bufs, and memory pinned by GPUs.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "test/verbs/module_fixture.h"
#include "urma/base/fd.h"

namespace urma::verbs {
namespace {

TEST_F(ModuleTest, OnlyTheDeviceAccessesDmabufMemory) {
  start({.has_dmabuf = true});
  const Fd buffer(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(buffer.get(), 4 * kPage), 0);
  // Not an address of this process.
  constexpr uint64_t kVa = 0x7000'0010;
  urma_seg_cfg_t cfg = seg_cfg(kVa, 2 * kPage);
  urma_target_seg_t* foreign = urma_ext_register_dmabuf(ctx_, &cfg, buffer.get(), kPage + 16);
  ASSERT_NE(foreign, nullptr);
  EXPECT_EQ(foreign->seg.ubva.va, kVa);
  EXPECT_EQ(foreign->seg.len, 2 * kPage);
  alignas(8) char here[64] = "over the wire";
  urma_target_seg_t* own = add(here, sizeof(here));
  ASSERT_NE(own, nullptr);
  urma_token_t token = {0};
  urma_target_seg_t* imported =
      urma_import_seg(ctx_, &foreign->seg, &token, 0, urma_import_seg_flag_t{});
  {
    const Loop loop(ctx_);
    const urma_sge_t from = piece(own, address(here), 16);
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, from, piece(imported, kVa + 100, 16)), URMA_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    char there[16] = {};
    ASSERT_EQ(::pread(buffer.get(), there, sizeof(there), kPage + 16 + 100), 16);
    EXPECT_STREQ(there, "over the wire");
    // From one place in it to another.
    const urma_sge_t local = piece(foreign, kVa + 100, 16);
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, local, piece(imported, kVa + 300, 16)), URMA_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    ASSERT_EQ(::pread(buffer.get(), there, sizeof(there), kPage + 16 + 300), 16);
    EXPECT_STREQ(there, "over the wire");
    // The device writes the result of an addition of 8 bytes, this process that of 4 bytes.
    const urma_sge_t word = piece(imported, kVa + 1024 - 16, 8);
    ASSERT_EQ(loop.post(URMA_OPC_FADD, word, piece(foreign, kVa + 512, 8)), URMA_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    const urma_sge_t half = piece(imported, kVa + 1024 - 16, 4);
    EXPECT_EQ(loop.post(URMA_OPC_FADD, half, piece(foreign, kVa + 512, 4)), URMA_EINVAL);
    EXPECT_TRUE(logged({"emulated", "dma-buf", "memory of this process"}));
  }
  EXPECT_EQ(urma_unimport_seg(imported), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_seg(own), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_seg(foreign), URMA_SUCCESS);
}

TEST_F(ModuleTest, OtherDescriptorsAreRefusedAsDmabuf) {
  start({.has_dmabuf = true});
  const Fd buffer(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(buffer.get(), kPage), 0);
  const auto refused = [&](uint64_t va, int fd, uint64_t offset, int error) {
    urma_seg_cfg_t cfg = seg_cfg(va, kPage);
    errno = 0;
    EXPECT_EQ(urma_ext_register_dmabuf(ctx_, &cfg, fd, offset), nullptr);
    EXPECT_EQ(errno, error);
  };
  refused(kPage, -1, 0, EINVAL);
  EXPECT_TRUE(logged({"fd -1", "export"}));
  refused(kPage + 1, buffer.get(), 0, EINVAL);
  EXPECT_TRUE(logged({"0x1001", "modulo the page size", "choose"}));
  refused(0, buffer.get(), 0, EINVAL);
  EXPECT_TRUE(logged({"va is 0"}));
  fake->fail("reg_dmabuf_mr", EBADF);
  refused(kPage, buffer.get(), 0, EINVAL);
  EXPECT_TRUE(logged({"not a dma-buf", "export"}));
  fake->fail("reg_dmabuf_mr", ENOMEM);
  refused(kPage, buffer.get(), 0, ENOMEM);
  EXPECT_TRUE(logged({"ulimit -l"}));
  errno = 0;
  EXPECT_EQ(urma_ext_register_dmabuf(nullptr, nullptr, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(urma_ext_register_dmabuf(ctx_, nullptr, buffer.get(), 0), nullptr);
}

// GPU memory of another provider: one allocation, at no address of this process.
struct FakeGpu {
  static constexpr uint64_t kVa = 0x7100'0000;
  static inline int buffer = -1;
  static inline urma_ext_pinned_t pinned = {};
  static inline void (*freed)(void*) = nullptr;
  static inline void* of = nullptr;

  static int pin(uint64_t va, uint64_t bytes, const char*, urma_ext_pinned_t** made,
                 void (*callback)(void*), void* priv) {
    pinned = {va, bytes, buffer, 0, va - kVa, nullptr};
    freed = callback;
    of = priv;
    *made = &pinned;
    return 0;
  }
  static int unpin(urma_ext_pinned_t** made) {
    pinned.va = 0;
    *made = nullptr;
    return 0;
  }
  static int is_device_va(uint64_t va) { return va >= kVa && va < kVa + 8 * kPage ? 1 : 0; }
  static constexpr urma_ext_rdma_interface_t kInterface = {
      2, 0, pin, unpin, is_device_va, nullptr, nullptr};
};

TEST_F(ModuleTest, GpuMemoryIsPinnedByItsProvider) {
  start({.has_dmabuf = true});
  const Fd buffer(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(buffer.get(), 8 * kPage), 0);
  FakeGpu::buffer = buffer.get();
  host()->registry->set_rdma_interface(&FakeGpu::kInterface);
  urma_seg_cfg_t cfg = seg_cfg(FakeGpu::kVa + kPage, kPage);
  urma_target_seg_t* gpu = urma_register_seg(ctx_, &cfg);
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(FakeGpu::pinned.va, FakeGpu::kVa + kPage);
  alignas(8) char here[64] = "over the wire";
  urma_target_seg_t* own = add(here, sizeof(here));
  ASSERT_NE(own, nullptr);
  urma_token_t token = {0};
  urma_target_seg_t* imported =
      urma_import_seg(ctx_, &gpu->seg, &token, 0, urma_import_seg_flag_t{});
  {
    const Loop loop(ctx_);
    const urma_sge_t from = piece(own, address(here), 16);
    const urma_sge_t to = piece(imported, FakeGpu::kVa + kPage + 64, 16);
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, from, to), URMA_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    char there[16] = {};
    ASSERT_EQ(::pread(buffer.get(), there, sizeof(there), kPage + 64), 16);
    EXPECT_STREQ(there, "over the wire");
    FakeGpu::freed(FakeGpu::of);
    urma_async_event_t event = {};
    ASSERT_EQ(urma_get_async_event(ctx_, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_ELR_ERR);
    EXPECT_EQ(event.element.port_id, gpu->seg.token_id);
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, from, to), URMA_SUCCESS);
    EXPECT_NE(loop.status(), URMA_CR_SUCCESS);
  }
  EXPECT_EQ(urma_unimport_seg(imported), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_seg(gpu), URMA_SUCCESS);
  EXPECT_EQ(FakeGpu::pinned.va, 0U);
  EXPECT_EQ(urma_unregister_seg(own), URMA_SUCCESS);
  host()->registry->set_rdma_interface(nullptr);
}

TEST_F(ModuleTest, ADeviceWithoutDmabufsReportsIt) {
  start({});
  const Fd buffer(::memfd_create("dmabuf", MFD_CLOEXEC));
  urma_seg_cfg_t cfg = seg_cfg(kPage, kPage);
  errno = 0;
  EXPECT_EQ(urma_ext_register_dmabuf(ctx_, &cfg, buffer.get(), 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_TRUE(logged({"urma_fake0", "takes no dma-bufs", "copy through memory"}));
  urma_ext_device_t told;
  ASSERT_EQ(urma_ext_query_device(device_, &told), URMA_SUCCESS);
  EXPECT_EQ(told.dmabuf, 0U);
}

}  // namespace
}  // namespace urma::verbs
