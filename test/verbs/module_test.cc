// SPDX-License-Identifier: MIT
//
// The provider behind the C interface, on a device in software: what it adds to the interface, and
// what it says where the device refuses.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "jetty/context.h"
#include "test/verbs/fake_verbs.h"
#include "urma/base/clock.h"
#include "urma/base/fd.h"
#include "urma/base/host.h"
#include "urma/providers/verbs/transport.h"
#include "urma_api.h"
#include "urma_ext.h"

extern "C" int urma_module_entry(uint32_t version, const urma_host* host);

namespace urma::verbs {
namespace {

std::unique_ptr<FakeVerbs> fake;

}  // namespace

const VerbsApi& system_verbs() { return *fake->api(); }

namespace {

constexpr uint64_t kPatienceNs = 20'000'000'000;
constexpr size_t kPage = 4096;
constexpr uint32_t kAll = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

std::vector<std::string> lines;

void collect(int /*level*/, char* line) { lines.emplace_back(line); }

// Until it is so, or no longer to be hoped for.
bool soon(const std::function<bool()>& condition) {
  const uint64_t deadline = monotonic_ns() + kPatienceNs;
  while (!condition()) {
    if (monotonic_ns() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class ModuleTest : public testing::Test {
 protected:
  ModuleTest() {
    char dir[] = "/tmp/urma-module-XXXXXX";
    runtime_dir_ = ::mkdtemp(dir);
    ::setenv("URMA_RUNTIME_DIR", runtime_dir_.c_str(), 1);
    fake = std::make_unique<FakeVerbs>();
    lines.clear();
  }
  ~ModuleTest() override {
    EXPECT_EQ(urma_delete_context(ctx_), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    urma_unregister_log_func();
    fake.reset();
    EXPECT_EQ(std::system(("rm -r " + runtime_dir_).c_str()), 0);
  }

  void start(FakeDeviceOptions options) {
    options.gids = {{"127.0.0.1"}};
    fake->add_device(options);
    ASSERT_EQ(urma_module_entry(kUrmaHostVersion, host()), 0);
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_register_log_func(collect);
    char name[] = "urma_fake0";
    device_ = urma_get_device_by_name(name);
    ASSERT_NE(device_, nullptr);
    ctx_ = urma_create_context(device_, 0);
    ASSERT_NE(ctx_, nullptr);
  }
  // Whether the log says all of these since the last time, in one line.
  static bool logged(const std::vector<std::string>& words) {
    bool found = false;
    for (const std::string& line : lines) {
      bool all = true;
      for (const std::string& word : words) all &= line.find(word) != std::string::npos;
      found |= all;
    }
    lines.clear();
    return found;
  }
  static urma_seg_cfg_t seg_cfg(uint64_t va, uint64_t len) {
    urma_seg_cfg_t cfg = {};
    cfg.va = va;
    cfg.len = len;
    cfg.flag.bs.token_policy = URMA_TOKEN_NONE;
    cfg.flag.bs.access = kAll;
    return cfg;
  }
  static uint64_t address(const void* memory) { return reinterpret_cast<uint64_t>(memory); }
  urma_target_seg_t* add(void* memory, size_t bytes) {
    urma_seg_cfg_t cfg = seg_cfg(address(memory), bytes);
    return urma_register_seg(ctx_, &cfg);
  }
  template <typename Record>
  static std::vector<Record> all(urma_status_t (*query)(uint32_t, Record*, uint32_t*)) {
    std::vector<Record> records(16);
    uint32_t count = 16;
    EXPECT_EQ(query(0, records.data(), &count), URMA_SUCCESS);
    records.resize(count);
    return records;
  }

  std::string runtime_dir_;
  urma_device_t* device_ = nullptr;
  urma_context_t* ctx_ = nullptr;
};

// A JFS that sends to a JFR of the same context.
struct Loop {
  explicit Loop(urma_context_t* ctx) {
    urma_jfc_cfg_t jfc_cfg = {};
    jfc_cfg.depth = 64;
    jfc = urma_create_jfc(ctx, &jfc_cfg);
    urma_jfr_cfg_t jfr_cfg = {};
    jfr_cfg.depth = 16;
    jfr_cfg.trans_mode = URMA_TM_RM;
    jfr_cfg.max_sge = 1;
    jfr_cfg.jfc = jfc;
    jfr = urma_create_jfr(ctx, &jfr_cfg);
    urma_jfs_cfg_t jfs_cfg = {};
    jfs_cfg.depth = 16;
    jfs_cfg.trans_mode = URMA_TM_RM;
    jfs_cfg.max_sge = 1;
    jfs_cfg.rnr_retry = 7;
    jfs_cfg.err_timeout = 14;
    jfs_cfg.jfc = jfc;
    jfs = urma_create_jfs(ctx, &jfs_cfg);
    if (jfc == nullptr || jfr == nullptr || jfs == nullptr) throw std::runtime_error("no queues");
    urma_rjfr_t remote = {};
    remote.jfr_id = jfr->jfr_id;
    remote.trans_mode = URMA_TM_RM;
    remote.flag.bs.token_policy = URMA_TOKEN_NONE;
    urma_token_t token = {0};
    target = urma_import_jfr(ctx, &remote, &token);
  }
  ~Loop() {
    EXPECT_EQ(urma_unimport_jfr(target), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  urma_status_t post(urma_opcode_t opcode, urma_sge_t from, urma_sge_t to) const {
    urma_jfs_wr_t wr = {};
    wr.opcode = opcode;
    wr.flag.bs.complete_enable = 1;
    wr.tjetty = target;
    if (opcode == URMA_OPC_WRITE) {
      wr.rw.src = {&from, 1};
      wr.rw.dst = {&to, 1};
    } else {
      wr.faa.src = &to;
      wr.faa.dst = &from;
      wr.faa.operand = 1;
    }
    urma_jfs_wr_t* bad = nullptr;
    return urma_post_jfs_wr(jfs, &wr, &bad);
  }
  urma_cr_status_t status() const {
    urma_cr_t record = {};
    EXPECT_TRUE(soon([&] { return urma_poll_jfc(jfc, 1, &record) == 1; }));
    return record.status;
  }

  urma_jfc_t* jfc;
  urma_jfr_t* jfr;
  urma_jfs_t* jfs;
  urma_target_jetty_t* target;
};

urma_sge_t piece(urma_target_seg_t* segment, uint64_t at, uint32_t bytes) {
  urma_sge_t sge = {};
  sge.addr = at;
  sge.len = bytes;
  sge.tseg = segment;
  return sge;
}

TEST_F(ModuleTest, MemoryOfADmabufIsReachedByTheDeviceAlone) {
  start({.has_dmabuf = true});
  const Fd buffer(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(buffer.get(), 4 * kPage), 0);
  // No address of this process.
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
    // From one place of it to another.
    const urma_sge_t local = piece(foreign, kVa + 100, 16);
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, local, piece(imported, kVa + 300, 16)), URMA_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    ASSERT_EQ(::pread(buffer.get(), there, sizeof(there), kPage + 16 + 300), 16);
    EXPECT_STREQ(there, "over the wire");
    // The device writes the result of an addition of 8 bytes, this process that of one of 4.
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

TEST_F(ModuleTest, WhatIsNoDmabufIsRefused) {
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
  EXPECT_TRUE(logged({"0x1001", "places of a page", "choose"}));
  refused(0, buffer.get(), 0, EINVAL);
  EXPECT_TRUE(logged({"va is 0"}));
  fake->fail("reg_dmabuf_mr", EBADF);
  refused(kPage, buffer.get(), 0, EINVAL);
  EXPECT_TRUE(logged({"none of a dma-buf", "export"}));
  fake->fail("reg_dmabuf_mr", ENOMEM);
  refused(kPage, buffer.get(), 0, ENOMEM);
  EXPECT_TRUE(logged({"ulimit -l"}));
  errno = 0;
  EXPECT_EQ(urma_ext_register_dmabuf(nullptr, nullptr, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(urma_ext_register_dmabuf(ctx_, nullptr, buffer.get(), 0), nullptr);
}

// What another provider has of GPUs: one allocation, at no address of this process.
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

TEST_F(ModuleTest, MemoryOfGpusIsPinnedByItsOwnProvider) {
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

TEST_F(ModuleTest, ADeviceThatTakesNoDmabufsSaysSo) {
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

TEST_F(ModuleTest, WhatIsEmulatedIsTold) {
  start({.has_dmabuf = true});
  urma_ext_device_t told;
  ASSERT_EQ(urma_ext_query_device(device_, &told), URMA_SUCCESS);
  EXPECT_STREQ(told.provider, "verbs");
  EXPECT_EQ(told.dmabuf, 1U);
  EXPECT_EQ(told.immediate, 1U);
  urma_atomic_feature_t wide = {};
  wide.bs.swap = wide.bs.fetch_and_and = wide.bs.fetch_and_or = wide.bs.fetch_and_xor = 1;
  EXPECT_EQ(told.emulated_atomics.value, wide.value);
  urma_device_attr_t attr;
  ASSERT_EQ(urma_query_device(device_, &attr), URMA_SUCCESS);
  EXPECT_EQ(told.emulated_atomics_4.value, attr.dev_cap.atomic_feat.value);
  EXPECT_EQ(urma_ext_query_device(nullptr, &told), URMA_EINVAL);
  EXPECT_EQ(urma_ext_query_device(device_, nullptr), URMA_EINVAL);
  urma_device_t foreign = {};
  EXPECT_EQ(urma_ext_query_device(&foreign, &told), URMA_EINVAL);
}

TEST_F(ModuleTest, WithoutAtomicsNoneIsEmulated) {
  start({.has_atomics = false});
  urma_ext_device_t told;
  ASSERT_EQ(urma_ext_query_device(device_, &told), URMA_SUCCESS);
  EXPECT_EQ(told.emulated_atomics.value, 0U);
  EXPECT_EQ(told.emulated_atomics_4.value, 0U);
}

TEST_F(ModuleTest, ConnectionsAreListedAtBothEnds) {
  start({});
  EXPECT_TRUE(all(urma_ext_query_connections).empty());
  alignas(8) char memory[64] = {};
  urma_target_seg_t* own = add(memory, sizeof(memory));
  urma_token_t token = {0};
  urma_target_seg_t* imported =
      urma_import_seg(ctx_, &own->seg, &token, 0, urma_import_seg_flag_t{});
  {
    const Loop loop(ctx_);
    const urma_sge_t from = piece(own, address(memory), 8);
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, from, piece(imported, address(memory) + 8, 8)),
              URMA_SUCCESS);
    ASSERT_EQ(loop.status(), URMA_CR_SUCCESS);
    const auto ends = all(urma_ext_query_connections);
    ASSERT_EQ(ends.size(), 2U);
    for (const auto& end : ends) {
      EXPECT_STREQ(end.device, "urma_fake0");
      EXPECT_EQ(std::memcmp(&end.eid, &ctx_->eid, sizeof(end.eid)), 0);
      EXPECT_EQ(std::memcmp(&end.peer_eid, &ctx_->eid, sizeof(end.eid)), 0);
      EXPECT_EQ(end.state, URMA_EXT_CONNECTION_READY);
      EXPECT_EQ(end.trans_mode, uint32_t{URMA_TM_RM});
      EXPECT_EQ(end.status, 0U);
      EXPECT_GT(end.age_ns, 0U);
      EXPECT_LT(end.age_ns, kPatienceNs);
    }
    EXPECT_EQ(ends[0].incoming, 0U);
    EXPECT_EQ(ends[0].kind, URMA_EXT_QUEUE_JFS);
    EXPECT_EQ(ends[0].id, loop.jfs->jfs_id.id);
    EXPECT_EQ(ends[0].peer_kind, URMA_EXT_QUEUE_JFR);
    EXPECT_EQ(ends[0].peer_id, loop.jfr->jfr_id.id);
    EXPECT_EQ(ends[1].incoming, 1U);
    EXPECT_EQ(ends[1].kind, URMA_EXT_QUEUE_JFR);
    EXPECT_EQ(ends[1].id, loop.jfr->jfr_id.id);
    EXPECT_EQ(ends[1].peer_kind, URMA_EXT_QUEUE_JFS);
    EXPECT_EQ(ends[1].peer_id, loop.jfs->jfs_id.id);
    EXPECT_EQ(ends[0].handle, ends[1].handle);
    EXPECT_NE(ends[0].number, 0U);
    EXPECT_EQ(ends[0].number, ends[1].peer_number);
    EXPECT_EQ(ends[1].number, ends[0].peer_number);
    // The sender notices with its next look; the receiver is told.
    fake->raise_qp_event(ends[0].number, IBV_EVENT_QP_FATAL);
    EXPECT_TRUE(soon(
        [] { return all(urma_ext_query_connections)[0].state == URMA_EXT_CONNECTION_FAILED; }));
  }
  EXPECT_TRUE(soon([] { return all(urma_ext_query_connections).empty(); }));
  EXPECT_EQ(urma_unimport_seg(imported), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_seg(own), URMA_SUCCESS);
}

TEST_F(ModuleTest, TheTypeIsThatOfTheSetting) {
  ::setenv("URMA_VERBS_TYPE", "ib", 1);
  start({});
  ::unsetenv("URMA_VERBS_TYPE");
  EXPECT_EQ(device_->type, URMA_TRANSPORT_IB);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_IB), device_);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_UB), nullptr);
}

TEST_F(ModuleTest, AdviceOnATypedIbDeviceIsAnswered) {
  ::setenv("URMA_VERBS_TYPE", "ib", 1);
  start({});
  ::unsetenv("URMA_VERBS_TYPE");
  std::atomic<int> result{-1};
  const auto note = [](urma_status_t status, void* to) {
    static_cast<std::atomic<int>*>(to)->store(status);
  };
  const Loop loop(ctx_);
  ASSERT_EQ(urma_advise_jfr_async(loop.jfs, loop.target, note, &result), URMA_SUCCESS);
  EXPECT_TRUE(soon([&] { return result == URMA_SUCCESS; }));
  EXPECT_TRUE(soon([] { return all(urma_ext_query_connections).size() == 2; }));
  EXPECT_EQ(urma_advise_jfr_async(loop.jfs, loop.target, note, &result), URMA_EEXIST);
  EXPECT_EQ(urma_unadvise_jfr(loop.jfs, loop.target), URMA_SUCCESS);
}

TEST_F(ModuleTest, TheTypeIsUbWithoutASetting) {
  start({});
  EXPECT_EQ(device_->type, URMA_TRANSPORT_UB);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_UB), device_);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_IB), nullptr);
}

TEST_F(ModuleTest, TheStateOfThePortIsThatOfNow) {
  start({});
  const auto state = [&] {
    urma_device_attr_t attr;
    EXPECT_EQ(urma_query_device(device_, &attr), URMA_SUCCESS);
    return attr.port_attr[0].state;
  };
  EXPECT_EQ(state(), URMA_PORT_ACTIVE);
  fake->raise_port_event("fake0", IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(soon([&] { return state() == URMA_PORT_DOWN; }));
  fake->raise_port_event("fake0", IBV_EVENT_PORT_ACTIVE);
  EXPECT_TRUE(soon([&] { return state() == URMA_PORT_ACTIVE; }));
}

TEST_F(ModuleTest, TheDescriptorOfEventsIsReadableWhileOneWaits) {
  start({});
  pollfd ready = {ctx_->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  fake->raise_port_event("fake0", IBV_EVENT_PORT_ERR);
  EXPECT_EQ(::poll(&ready, 1, 20'000), 1);
  urma_async_event_t event = {};
  ASSERT_EQ(urma_get_async_event(ctx_, &event), URMA_SUCCESS);
  EXPECT_EQ(event.event_type, URMA_EVENT_PORT_DOWN);
  EXPECT_EQ(event.element.port_id, 0U);
  EXPECT_EQ(event.urma_ctx, ctx_);
  urma_ack_async_event(&event);
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

// What each call returns, and what its line says one can do.
TEST_F(ModuleTest, RefusalsOfTheDeviceNameTheRemedy) {
  start({});
  alignas(8) char memory[64] = {};
  const auto segment_fails = [&](int error, int expected, const std::vector<std::string>& words) {
    fake->fail("reg_mr", error);
    errno = 0;
    EXPECT_EQ(add(memory, sizeof(memory)), nullptr);
    EXPECT_EQ(errno, expected) << error;
    EXPECT_TRUE(logged(words)) << error;
  };
  segment_fails(ENOMEM, ENOMEM, {"64 bytes", "ulimit -l", "CAP_IPC_LOCK"});
  segment_fails(EPERM, EPERM, {"64 bytes", "/dev/infiniband/uverbs"});
  segment_fails(EIO, EIO, {"64 bytes", "was removed", "urma_init"});
  segment_fails(ENODEV, EIO, {"64 bytes", "was removed", "urma_init"});
  const auto queue_fails = [&](const char* verb, int error, int expected,
                               const std::vector<std::string>& words) {
    urma_jfc_cfg_t jfc_cfg = {};
    jfc_cfg.depth = 64;
    urma_jfc_t* jfc = urma_create_jfc(ctx_, &jfc_cfg);
    urma_jfr_cfg_t cfg = {};
    cfg.depth = 16;
    cfg.trans_mode = URMA_TM_RM;
    cfg.max_sge = 1;
    cfg.jfc = jfc;
    fake->fail(verb, error);
    errno = 0;
    EXPECT_EQ(urma_create_jfr(ctx_, &cfg), nullptr);
    EXPECT_EQ(errno, expected) << verb;
    EXPECT_TRUE(logged(words)) << verb;
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  };
  for (const char* verb : {"create_srq", "create_cq"}) {
    queue_fails(verb, ENOMEM, ENOMEM, {"16", "ulimit -l"});
    queue_fails(verb, EPERM, EPERM, {"16", "/dev/infiniband/uverbs"});
    queue_fails(verb, ENODEV, EIO, {"16", "was removed"});
  }
  // The port stays open as long as a context is there.
  EXPECT_EQ(urma_delete_context(ctx_), URMA_SUCCESS);
  const auto context_fails = [&](int error, int expected, const std::vector<std::string>& words) {
    fake->set_open_error("fake0", error);
    errno = 0;
    EXPECT_EQ(urma_create_context(device_, 0), nullptr);
    EXPECT_EQ(errno, expected) << error;
    EXPECT_TRUE(logged(words)) << error;
  };
  context_fails(EACCES, EPERM, {"fake0", "/dev/infiniband/uverbs"});
  context_fails(ENODEV, EIO, {"fake0", "was removed"});
  fake->set_open_error("fake0", 0);
  ctx_ = urma_create_context(device_, 0);
  ASSERT_NE(ctx_, nullptr);
}

// A peer that asks for both kinds of end under one number would get one that it need not give back.
TEST_F(ModuleTest, OneConnectionHasOneEnd) {
  ASSERT_NO_FATAL_FAILURE(start({}));
  const Loop loop(ctx_);
  auto& transport = static_cast<VerbsTransport&>(static_cast<Context*>(ctx_)->transport());
  Server server(&transport);
  const size_t before = fake->queue_pairs().size();
  const urma_eid_t eid = loop.jfr->jfr_id.eid;
  const PeerRef peer = {address_of(eid, LinkLayer::kRoce, 9), 5};
  ConnectRequest request = {};
  request.source = {eid, 1, 7, false};
  request.end.gid = eid;
  request.end.mtu = IBV_MTU_1024;
  request.end.qpn = request.end.rd_atomic = 1;
  request.target = {eid, loop.jfr->jfr_id.id, URMA_JFR, URMA_TM_RM, 0};
  for (const bool one_sided : {true, false}) {
    transport.service().run([&] {
      ++request.connection;
      request.one_sided = one_sided;
      EXPECT_EQ(server.on_connect(peer, request).answer, Answer::kAccepted);
      EXPECT_EQ(server.on_connect(peer, request).answer, Answer::kAccepted);
      request.one_sided = !one_sided;
      EXPECT_EQ(server.on_connect(peer, request).answer, Answer::kMalformed);
      EXPECT_EQ(fake->queue_pairs().size(), before + 1);
      server.on_disconnect(peer, {request.connection, true, DisconnectReason::kClosed, 0});
    });
    EXPECT_TRUE(soon([&] { return fake->queue_pairs().size() == before; }));
  }
}

}  // namespace
}  // namespace urma::verbs
