// SPDX-License-Identifier: MIT
//
// The worst behaviour of a runtime, and its effect on requests. Each process is its own peer.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/rocm/fake_runtime.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr size_t kPart = 32 << 10;

struct Self {
  explicit Self(const Config& config = {}, size_t bytes = kBytes)
      : endpoint(config),
        from(static_cast<char*>(urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, bytes))),
        to(static_cast<char*>(urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, bytes))),
        source(endpoint.add(from, bytes)),
        target(endpoint.add(to, bytes)),
        remote(endpoint.import(endpoint.segment_id(target))),
        queue(endpoint.import(endpoint.queue_id())) {}

  void write(size_t at, size_t bytes, uint64_t user_ctx, bool strong = false) {
    urma_sge_t local = piece(source, from + at, bytes);
    urma_sge_t there = piece(remote, remote->seg.ubva.va + at, bytes);
    urma_jfs_wr_t request = write_request(queue, &local, &there, user_ctx);
    if (strong) request.flag.bs.place_order = URMA_STRONG_ORDER;
    endpoint.post(request);
  }
  // Attached, and attaching is complete.
  void warm_up() {
    write(0, 8, 99);
    wait_for_success(endpoint.send_jfc, 99);
  }
  void close() { endpoint.close(); }

  Endpoint endpoint;
  FakeRuntime fake;
  char* from;
  char* to;
  urma_target_seg_t* source;
  urma_target_seg_t* target;
  urma_target_seg_t* remote;
  urma_target_jetty_t* queue;
};

void alone(const std::function<void()>& body) {
  run_one([&](Channel&) { body(); });
}

TEST(DeviceFaults, CompletionsComeInPostOrderWhateverCopyEndsFirst) {
  alone([] {
    Self self;
    self.warm_up();
    self.fake.set("REORDER", 1);
    self.fake.set("HOLD", 1);
    for (uint64_t i = 0; i < 16; ++i) self.write(i * kPart, kPart, i);
    EXPECT_EQ(self.fake.get("UNDER_WAY"), 16);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    self.fake.set("HOLD", 0);
    for (uint64_t i = 0; i < 16; ++i) wait_for_success(self.endpoint.send_jfc, i);
    EXPECT_EQ(self.fake.get("CHAINED"), 0);
    self.close();
  });
}

// Each writes to the same place, where the last one must win. The first strong one is
// `strong_from`.
void write_in_order(uint64_t strong_from) {
  alone([=] {
    Self self;
    self.warm_up();
    self.fake.set("REORDER", 1);
    self.fake.set("HOLD", 1);
    for (uint64_t i = 0; i < 8; ++i) {
      self.fake.write(self.from + i * kPart, std::vector<char>(kPart, static_cast<char>('a' + i)));
      urma_sge_t local = piece(self.source, self.from + i * kPart, kPart);
      urma_sge_t there = piece(self.remote, self.remote->seg.ubva.va, kPart);
      urma_jfs_wr_t request = write_request(self.queue, &local, &there, i);
      if (i >= strong_from) request.flag.bs.place_order = URMA_STRONG_ORDER;
      self.endpoint.post(request);
    }
    EXPECT_EQ(self.fake.get("UNDER_WAY"), static_cast<long>(strong_from));
    self.fake.set("HOLD", 0);
    for (uint64_t i = 0; i < 8; ++i) wait_for_success(self.endpoint.send_jfc, i);
    EXPECT_EQ(self.fake.read(self.to, kPart), std::vector<char>(kPart, 'h'));
    self.close();
  });
}

TEST(DeviceFaults, EachStrongRequestIsPlacedAfterTheOneBefore) { write_in_order(1); }

TEST(DeviceFaults, AStrongRequestIsPlacedAfterAllBeforeIt) { write_in_order(7); }

// A signal of a copy that has ended serves a later one.
TEST(DeviceFaults, StrongRequestsDoNotWaitForEachOther) {
  alone([] {
    Self self;
    self.warm_up();
    self.fake.set("HOLD", 1);
    self.write(0, kPart, 1);
    self.write(0, kPart, 2, true);
    self.fake.set("LET", 1);
    wait_for_success(self.endpoint.send_jfc, 1);
    self.write(0, kPart, 3, true);
    self.fake.set("HOLD", 0);
    wait_for_success(self.endpoint.send_jfc, 2);
    wait_for_success(self.endpoint.send_jfc, 3);
    self.close();
  });
}

TEST(DeviceFaults, AStrongRequestFollowsOneThatFails) {
  alone([] {
    Self self;
    self.warm_up();
    self.fake.set("HOLD", 1);
    self.fake.set("FAIL_COPIES", 1);
    self.write(0, kPart, 1);
    self.write(0, kPart, 2, true);
    self.fake.set("HOLD", 0);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_LOC_OPERATION_ERR);
    wait_for_success(self.endpoint.send_jfc, 2);
    self.close();
  });
}

TEST(DeviceFaults, AFailedCopyFailsOnlyItsRequest) {
  alone([] {
    Self self;
    self.warm_up();
    self.fake.set("FAIL_COPIES", 1);
    self.write(0, kPart, 1);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_LOC_OPERATION_ERR);
    self.fake.set("REFUSE_COPIES", 1);
    self.write(0, kPart, 2);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_LOC_OPERATION_ERR);
    self.write(0, kPart, 3);
    wait_for_success(self.endpoint.send_jfc, 3);
    self.close();
  });
}

TEST(DeviceFaults, LargeCopiesAreSplitOverTheEngines) {
  alone([] {
    Self self({}, 32 << 20);
    self.write(0, 32 << 20, 1);
    wait_for_success(self.endpoint.send_jfc, 1);
    EXPECT_EQ(self.fake.get("BY_ENGINE_1"), 1);
    EXPECT_EQ(self.fake.get("BY_ENGINE_2"), 1);
    EXPECT_EQ(self.fake.get("COPIES"), 2);
    self.close();
  });
}

TEST(DeviceFaults, MemoryFreedEarlyEndsItsSegment) {
  alone([] {
    Self self;
    self.warm_up();
    const uint32_t token_id = self.target->seg.token_id;
    EXPECT_EQ(urma_ext_free_device(self.endpoint.ctx, self.to), URMA_SUCCESS);
    urma_async_event_t event = {};
    ASSERT_EQ(urma_get_async_event(self.endpoint.ctx, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_ELR_ERR);
    EXPECT_EQ(event.element.port_id, token_id);
    urma_ack_async_event(&event);
    self.write(0, kPart, 2);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    // As local memory, too.
    urma_sge_t local = piece(self.target, self.to, 8);
    urma_sge_t there = piece(self.remote, self.remote->seg.ubva.va, 8);
    self.endpoint.post(read_request(self.queue, &local, &there, 3));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_LOC_ACCESS_ERR);
    self.close();
  });
}

TEST(DeviceFaults, MemoryFreedEarlyIsFreedAfterItsCopies) {
  alone([] {
    Self self;
    self.warm_up();
    self.fake.set("DELAY_US", 50000);
    self.write(0, kPart, 1);
    EXPECT_EQ(urma_ext_free_device(self.endpoint.ctx, self.from), URMA_SUCCESS);
    EXPECT_EQ(self.fake.get("UNDER_WAY"), 0);
    wait_for_success(self.endpoint.send_jfc, 1);
    self.close();
  });
}

// The first memory lies in the middle of the second, which belongs to another agent.
TEST(DeviceFaults, MemoryFreedEarlyMakesRoomForOther) {
  alone([] {
    ::setenv("FAKE_HSA_GPUS", "2", 1);
    Self self;
    self.warm_up();
    urma_context_t* const other =
        urma_create_context(urma_get_device_by_name(const_cast<char*>("urma_rocm1")), 0);
    ASSERT_NE(other, nullptr);
    void* const room =
        ::mmap(nullptr, 3 * kPart, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(room, MAP_FAILED);
    const auto allocate = [&](urma_context_t* ctx, size_t offset, size_t bytes) {
      self.fake.set("AT", reinterpret_cast<long>(room) + static_cast<long>(offset));
      return static_cast<char*>(urma_ext_alloc_device(ctx, URMA_EXT_POOL_COARSE, bytes));
    };
    char* const first = allocate(self.endpoint.ctx, kPart, kPart);
    self.endpoint.add(first, kPart);
    EXPECT_EQ(urma_ext_free_device(self.endpoint.ctx, first), URMA_SUCCESS);
    char* const second = allocate(other, 0, 3 * kPart);
    self.fake.set("AT", 0);
    urma_target_seg_t* const source = self.endpoint.add(second, 3 * kPart);
    // The fake refuses copies that name another agent than the owner.
    urma_sge_t local = piece(source, second + kPart, kPart);
    urma_sge_t there = piece(self.remote, self.remote->seg.ubva.va, kPart);
    self.endpoint.post(write_request(self.queue, &local, &there, 1));
    wait_for_success(self.endpoint.send_jfc, 1);
    EXPECT_EQ(urma_delete_context(other), URMA_SUCCESS);
    self.close();
  });
}

TEST(DeviceFaults, AHangingAttachEndsAtItsTimeout) {
  alone([] {
    ::setenv("URMA_ROCM_TIMEOUT_MS", "100", 1);
    ::setenv("FAKE_HSA_HANG_MS", kForEver, 1);
    Self self;
    self.write(0, kPart, 1);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
    self.fake.set("HANG_MS", 0);
    // A late result is released.
    wait_until([&] { return self.fake.get("DETACHED") == 1; });
    EXPECT_EQ(self.fake.get("ATTACHED"), 0);
    self.close();
  });
}

TEST(DeviceFaults, ALibraryThatEndsDoesNotWaitForAHangingAttach) {
  alone([] {
    ::setenv("FAKE_HSA_HANG_MS", kForEver, 1);
    Self self;
    self.write(0, kPart, 1);
    wait_until([&] { return self.fake.get("ATTACHES") == 1; });
    self.close();
    self.fake.set("HANG_MS", 0);
    // The library has ended, and no one else releases it.
    wait_until([&] { return self.fake.get("DETACHED") == 1; });
    EXPECT_EQ(self.fake.get("ATTACHED"), 0);
  });
}

// The faults of URMA_FAULT.
TEST(DeviceFaults, FaultPlansApplyToDeviceMemory) {
  alone([] {
    ::setenv("URMA_FAULT", "token:after=1,count=1;queue:after=2,count=1", 1);
    Self self;
    self.warm_up();
    const std::vector<char> before = self.fake.read(self.to, kPart);
    self.fake.write(self.from, std::vector<char>(kPart, 'x'));
    self.write(0, kPart, 1);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(self.fake.read(self.to, kPart), before);
    self.write(0, kPart, 2);
    wait_for_success(self.endpoint.send_jfc, 2);
    EXPECT_EQ(self.fake.read(self.to, kPart), std::vector<char>(kPart, 'x'));
    urma_async_event_t event = {};
    ASSERT_EQ(urma_get_async_event(self.endpoint.ctx, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_JETTY_ERR);
    urma_ack_async_event(&event);
    self.close();
  });
}

// In a runtime directory whose name is known.
class DevicePorts : public ProcessTest {};

// Any plan, of faults that never come: requests look at the port then.
constexpr char kNoFaults[] = "delay:ms=1,after=1000000000";

void set_port(const char* device, const char* state) {
  const std::string folder = std::string(std::getenv("URMA_RUNTIME_DIR")) + "/class/ubcore/";
  std::ofstream(folder + device + "/port0/state") << state << std::endl;
}

void expect_event(urma_context_t* ctx, urma_async_event_type_t type) {
  urma_async_event_t event = {};
  ASSERT_EQ(urma_get_async_event(ctx, &event), URMA_SUCCESS);
  EXPECT_EQ(event.event_type, type);
  urma_ack_async_event(&event);
}

// The next message does not contain what was gathered for it.
TEST_F(DevicePorts, APortThatGoesDownEndsAMessageThatIsBeingGathered) {
  alone([] {
    ::setenv("URMA_FAULT", kNoFaults, 1);
    Self self;
    Endpoint& endpoint = self.endpoint;
    std::vector<char> received(kPart);
    endpoint.post_receive(endpoint.add(received.data(), kPart), received.data(), kPart, 7);
    self.fake.write(self.from, std::vector<char>(kPart, 'a'));
    self.fake.write(self.from + kPart, std::vector<char>(kPart, 'b'));
    const auto send = [&](size_t at, uint64_t user_ctx) {
      urma_sge_t local = piece(self.source, self.from + at, kPart);
      endpoint.post(send_request(self.queue, &local, user_ctx));
    };
    self.fake.set("HOLD", 1);
    send(0, 1);
    // It is gathered once the ring is open.
    wait_until([&] {
      EXPECT_TRUE(has_nothing(endpoint.send_jfc));
      return self.fake.get("UNDER_WAY") == 1;
    });
    set_port("urma_rocm0", "1");
    expect_event(endpoint.ctx, URMA_EVENT_PORT_DOWN);
    self.fake.set("HOLD", 0);
    wait_for_status(endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
    set_port("urma_rocm0", "4");
    expect_event(endpoint.ctx, URMA_EVENT_PORT_ACTIVE);
    send(kPart, 2);
    wait_for_success(endpoint.send_jfc, 2);
    wait_for_success(endpoint.receive_jfc, 7);
    EXPECT_EQ(received, std::vector<char>(kPart, 'b'));
    self.close();
  });
}

TEST_F(DevicePorts, EachDeviceHasItsOwnPort) {
  alone([] {
    ::setenv("URMA_FAULT", kNoFaults, 1);
    ::setenv("FAKE_HSA_GPUS", "2", 1);
    Self self;
    urma_device_t* const other = urma_get_device_by_name(const_cast<char*>("urma_rocm1"));
    ASSERT_NE(other, nullptr);
    urma_context_t* const ctx = urma_create_context(other, 0);
    ASSERT_NE(ctx, nullptr);
    set_port("urma_rocm1", "1");
    expect_event(ctx, URMA_EVENT_PORT_DOWN);
    pollfd own = {self.endpoint.ctx->async_fd, POLLIN, 0};
    EXPECT_EQ(::poll(&own, 1, 0), 0) << "an event of the other device";
    self.warm_up();
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    self.close();
  });
}

TEST(DeviceFaults, AllocationShorterThanItsOwnerSaysIsNotUsed) {
  for (const char* dmabuf : {"0", "1"}) {
    alone([=] {
      ::setenv("FAKE_HSA_DMABUF", dmabuf, 1);
      ::setenv("FAKE_HSA_SHORT_ATTACH", "1", 1);
      Self self;
      self.write(0, kPart, 1);
      wait_for_status(self.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_EQ(self.fake.get("ATTACHED"), 0);
      self.close();
    });
  }
}

TEST(DeviceFaults, OneAllocationIsAttachedOnce) {
  alone([] {
    Self self;
    urma_target_seg_t* const part = self.endpoint.add(self.to + kPart, kPart);
    urma_target_seg_t* const there = self.endpoint.import(self.endpoint.segment_id(part));
    self.warm_up();
    urma_sge_t local = piece(self.source, self.from, 8);
    urma_sge_t at = piece(there, there->seg.ubva.va, 8);
    self.endpoint.post(write_request(self.queue, &local, &at, 1));
    wait_for_success(self.endpoint.send_jfc, 1);
    EXPECT_EQ(self.fake.get("ATTACHED"), 1);
    self.close();
  });
}

TEST(DeviceFaults, RangesThatLeaveTheirAllocationAreRefused) {
  alone([] {
    Self self;
    urma_seg_cfg_t cfg =
        seg_config(reinterpret_cast<uint64_t>(self.from) + kPart, kBytes, URMA_ACCESS_READ);
    errno = 0;
    // If another allocation happens to follow, this much is mapped.
    EXPECT_EQ(urma_register_seg(self.endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, EINVAL);
    self.close();
  });
}

TEST(DeviceFaults, MemoryThatCannotBeLockedIsNotRegistered) {
  alone([] {
    Self self;
    self.fake.set("FAIL_LOCK", 1);
    std::vector<char> memory(kPart);
    urma_seg_cfg_t cfg = seg_config(memory.data(), memory.size(), URMA_ACCESS_READ);
    errno = 0;
    EXPECT_EQ(urma_register_seg(self.endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    self.close();
  });
}

TEST(DeviceFaults, TheRuntimeWakesASleepingProgram) {
  alone([] {
    Config config;
    config.events = true;
    Self self(config);
    self.warm_up();
    self.fake.set("HOLD", 1);
    self.write(0, kPart, 1);
    ASSERT_EQ(urma_rearm_jfc(self.endpoint.send_jfc, false), URMA_SUCCESS);
    wait_until([&] { return self.fake.get("HANDLERS") > 0; });
    self.fake.set("HOLD", 0);
    urma_jfc_t* ready = nullptr;
    ASSERT_EQ(urma_wait_jfc(self.endpoint.jfce, 1, 10000, &ready), 1);
    uint32_t events = 1;
    urma_ack_jfc(&ready, &events, 1);
    wait_for_success(self.endpoint.send_jfc, 1);
    // Once per sleep.
    EXPECT_EQ(self.fake.get("HANDLERS"), 1);
    self.close();
  });
}

// With a thousand in flight, a poll checks only the first; each completed one is checked once or
// twice.
TEST(DeviceFaults, PollsCostOnlyEndedCopies) {
  alone([] {
    constexpr uint64_t kCopies = 1000;
    Config config;
    config.send_depth = kCopies;
    Self self(config);
    self.warm_up();
    self.fake.set("HOLD", 1);
    for (uint64_t i = 0; i < kCopies; ++i) self.write(i * 1024, 1024, i);
    long loads = self.fake.get("LOADS");
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    EXPECT_LE(self.fake.get("LOADS") - loads, 3 * 1000 + 64);
    self.fake.set("HOLD", 0);
    wait_until([&] { return self.fake.get("UNDER_WAY") == 0; });
    loads = self.fake.get("LOADS");
    for (uint64_t i = 0; i < kCopies; ++i) wait_for_success(self.endpoint.send_jfc, i);
    EXPECT_LE(self.fake.get("LOADS") - loads, 3 * static_cast<long>(kCopies) + 64);
    self.close();
  });
}

TEST(DeviceFaults, SegmentsAreUnregisteredAfterTheirCopies) {
  alone([] {
    Self self;
    self.warm_up();
    self.fake.set("DELAY_US", 50000);
    self.write(0, kPart, 1);
    self.endpoint.remove(self.source);
    EXPECT_EQ(self.fake.get("UNDER_WAY"), 0);
    wait_for_success(self.endpoint.send_jfc, 1);
    self.close();
  });
}

TEST(DeviceFaults, AddressesAreKnown) {
  alone([] {
    Self self;
    urma_ext_address_t info = {};
    ASSERT_EQ(urma_ext_query_address(self.endpoint.ctx, self.from + 5, &info), URMA_SUCCESS);
    EXPECT_EQ(info.allocated, 1U);
    EXPECT_EQ(info.attached, 0U);
    EXPECT_STREQ(info.device, "urma_rocm0");
    EXPECT_EQ(info.pool, URMA_EXT_POOL_COARSE);
    EXPECT_EQ(info.cpu, 0U);
    EXPECT_EQ(info.base, reinterpret_cast<uint64_t>(self.from));
    EXPECT_EQ(info.bytes, kBytes);
    EXPECT_EQ(info.page_bytes, 4096U);
    ASSERT_EQ(urma_ext_query_address(self.endpoint.ctx, &info, &info), URMA_SUCCESS);
    EXPECT_EQ(info.allocated, 0U);
    EXPECT_EQ(urma_ext_query_address(self.endpoint.ctx, nullptr, &info), URMA_EINVAL);
    EXPECT_EQ(urma_ext_free_device(self.endpoint.ctx, &info), URMA_EINVAL);
    EXPECT_EQ(urma_ext_alloc_device(self.endpoint.ctx, static_cast<urma_ext_pool_t>(7), 1),
              nullptr);
    self.close();
  });
}

TEST(DeviceFaults, HandlesAreAttachedWhileValid) {
  alone([] {
    Self self;
    urma_ext_memory_handle_t handle;
    urma_target_seg_t* owned = nullptr;
    ASSERT_EQ(urma_ext_create_memory_handle(self.endpoint.ctx, self.to, kBytes, &handle, &owned),
              URMA_SUCCESS);
    urma_target_seg_t* attached = nullptr;
    void* memory = nullptr;
    ASSERT_EQ(urma_ext_attach_memory_handle(self.endpoint.ctx, &handle, &attached, &memory),
              URMA_SUCCESS);
    self.fake.write(self.to, {'x', 'y'});
    EXPECT_EQ(self.fake.read(memory, 2), (std::vector<char>{'x', 'y'}));
    EXPECT_EQ(urma_ext_close_memory_handle(attached), URMA_SUCCESS);
    urma_ext_memory_handle_t guessed = handle;
    guessed.token.token ^= 1;
    EXPECT_EQ(urma_ext_attach_memory_handle(self.endpoint.ctx, &guessed, &attached, &memory),
              URMA_FAIL);
    EXPECT_EQ(urma_unregister_seg(owned), URMA_SUCCESS);
    EXPECT_EQ(urma_ext_attach_memory_handle(self.endpoint.ctx, &handle, &attached, &memory),
              URMA_FAIL);
    self.close();
  });
}

TEST(DeviceFaults, PinnedMemoryThatIsFreedIsReported) {
  alone([] {
    Self self;
    const urma_ext_rdma_interface_t* rdma = nullptr;
    ASSERT_EQ(urma_ext_query_rdma_interface(&rdma), 0);
    EXPECT_EQ(rdma->major, 2U);
    const auto va = reinterpret_cast<uint64_t>(self.from);
    EXPECT_EQ(rdma->is_device_va(va), 1);
    EXPECT_EQ(rdma->is_device_va(reinterpret_cast<uint64_t>(&self)), 0);
    unsigned long page = 0;
    EXPECT_EQ(rdma->va_page_size(va, kBytes, &page), 0);
    EXPECT_EQ(page, 4096U);
    int told = 0;
    const auto tell = [](void* count) { ++*static_cast<int*>(count); };
    urma_ext_pinned_t* pinned = nullptr;
    urma_ext_pinned_t* older = nullptr;
    ASSERT_EQ(rdma->pin(va + 4096, kPart, nullptr, &pinned, tell, &told), 0);
    EXPECT_EQ(pinned->offset, 4096U);
    EXPECT_GE(pinned->dmabuf, 0);
    ASSERT_EQ(rdma->pin_1_0(va, kPart, &older, tell, &told), 0);
    EXPECT_EQ(rdma->pin(va, kBytes + 1, nullptr, &pinned, tell, &told), -EINVAL);
    EXPECT_EQ(rdma->unpin(&older), 0);
    EXPECT_EQ(older, nullptr);
    EXPECT_EQ(urma_ext_free_device(self.endpoint.ctx, self.from), URMA_SUCCESS);
    EXPECT_EQ(told, 1);
    EXPECT_EQ(rdma->unpin(&pinned), 0);
    self.close();
  });
}

}  // namespace
}  // namespace urma_test
