// SPDX-License-Identifier: MIT
//
// Handles of signals and of memory between processes: over the fake runtime, and over any other
// that real_rocr_test finds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/rocm/hsa_library.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 64 << 10;

// Without a GPU the runtime shares nothing unless told to.
bool shares() {
  const char* const device = std::getenv("URMA_DEVICE");
  const char* const ipc = std::getenv("URMA_ROCM_IPC");
  return std::string(device == nullptr ? "" : device).starts_with("urma_rocm") ||
         std::string(ipc == nullptr ? "" : ipc) == "on";
}

// A process that owns a signal, and memory.
struct Owner {
  Owner() : signal(hsa.create(1, HSA_AMD_SIGNAL_IPC)) {
    EXPECT_EQ(urma_ext_create_signal_handle(endpoint.ctx, signal, &handle, &owned), URMA_SUCCESS);
  }
  void make_memory() {
    memory = urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_HOST, kBytes);
    EXPECT_EQ(
        urma_ext_create_memory_handle(endpoint.ctx, memory, kBytes, &memory_handle, &owned_memory),
        URMA_SUCCESS);
  }
  void close() {
    if (owned != nullptr) {
      EXPECT_EQ(urma_unregister_seg(owned), URMA_SUCCESS);
    }
    hsa.destroy(signal);
    if (memory != nullptr) {
      EXPECT_EQ(urma_unregister_seg(owned_memory), URMA_SUCCESS);
      EXPECT_EQ(urma_ext_free_device(endpoint.ctx, memory), URMA_SUCCESS);
    }
    endpoint.close();
  }

  Endpoint endpoint;
  HsaLibrary hsa;
  uint64_t signal;
  urma_ext_signal_handle_t handle;
  urma_target_seg_t* owned = nullptr;
  void* memory = nullptr;
  urma_ext_memory_handle_t memory_handle = {};
  urma_target_seg_t* owned_memory = nullptr;
};

struct Handles {
  urma_ext_signal_handle_t signal;
  urma_ext_memory_handle_t memory;
};

// The status of attaching.
urma_status_t attach(urma_context_t* ctx, const urma_ext_signal_handle_t& handle) {
  urma_target_seg_t* attached = nullptr;
  uint64_t signal = 0;
  const urma_status_t status = urma_ext_attach_signal_handle(ctx, &handle, &attached, &signal);
  if (status == URMA_SUCCESS) {
    EXPECT_EQ(urma_ext_close_signal_handle(attached), URMA_SUCCESS);
  }
  return status;
}

urma_status_t attach(urma_context_t* ctx, const urma_ext_memory_handle_t& handle) {
  urma_target_seg_t* attached = nullptr;
  void* memory = nullptr;
  const urma_status_t status = urma_ext_attach_memory_handle(ctx, &handle, &attached, &memory);
  if (status == URMA_SUCCESS) {
    EXPECT_EQ(urma_ext_close_memory_handle(attached), URMA_SUCCESS);
  }
  return status;
}

class HandlesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!shares()) GTEST_SKIP() << "nothing is shared without a GPU; needs URMA_ROCM_IPC=on";
  }
};

TEST_F(HandlesTest, ASignalIsSeenAndChangedByBothProcesses) {
  run_two(
      "owner",
      [](Channel& channel) {
        Owner owner;
        channel.send(owner.handle);
        EXPECT_EQ(owner.hsa.wait(owner.signal, 1), 0);
        owner.hsa.store(owner.signal, -7);
        channel.sync();
        owner.close();
      },
      "user",
      [](Channel& channel) {
        OwnedEndpoint endpoint;
        const HsaLibrary hsa;
        const auto handle = channel.receive<urma_ext_signal_handle_t>();
        urma_target_seg_t* attached = nullptr;
        uint64_t signal = 0;
        ASSERT_EQ(urma_ext_attach_signal_handle(endpoint.ctx, &handle, &attached, &signal),
                  URMA_SUCCESS);
        EXPECT_EQ(hsa.load(signal), 1);
        hsa.store(signal, 0);
        EXPECT_EQ(hsa.wait(signal, 0), -7);
        EXPECT_EQ(urma_ext_close_signal_handle(attached), URMA_SUCCESS);
        channel.sync();
      });
}

TEST_F(HandlesTest, AlteredHandlesAreRefused) {
  run_one([](Channel&) {
    Owner owner;
    urma_context_t* const ctx = owner.endpoint.ctx;
    urma_ext_signal_handle_t guessed = owner.handle;
    guessed.token.token ^= 1;
    EXPECT_EQ(attach(ctx, guessed), URMA_FAIL);
    guessed = owner.handle;
    guessed.seg.token_id += 1;
    EXPECT_EQ(attach(ctx, guessed), URMA_FAIL);
    // A part of a signal is not a signal.
    guessed = owner.handle;
    guessed.seg.ubva.va += 4;
    guessed.seg.len -= 4;
    EXPECT_EQ(attach(ctx, guessed), URMA_FAIL);
    EXPECT_EQ(attach(ctx, owner.handle), URMA_SUCCESS);
    EXPECT_EQ(urma_unregister_seg(owner.owned), URMA_SUCCESS);
    owner.owned = nullptr;
    EXPECT_EQ(attach(ctx, owner.handle), URMA_FAIL);
    owner.close();
  });
}

TEST_F(HandlesTest, SignalAndMemoryHandlesAreDistinguished) {
  run_one([](Channel&) {
    Owner owner;
    owner.make_memory();
    EXPECT_EQ(attach(owner.endpoint.ctx, owner.memory_handle), URMA_SUCCESS);
    EXPECT_EQ(
        attach(owner.endpoint.ctx,
               urma_ext_signal_handle_t{owner.memory_handle.seg, owner.memory_handle.token, {}}),
        URMA_FAIL);
    EXPECT_EQ(attach(owner.endpoint.ctx,
                     urma_ext_memory_handle_t{owner.handle.seg, owner.handle.token, {}}),
              URMA_FAIL);
    owner.close();
  });
}

TEST_F(HandlesTest, RequestsDoNotReachASignal) {
  run_one([](Channel&) {
    Owner owner;
    Endpoint& endpoint = owner.endpoint;
    uint64_t word = 0;
    urma_target_seg_t* const plain = endpoint.add(&word, sizeof(word));
    const urma_seg_t& seg = owner.handle.seg;
    urma_target_seg_t* const remote = endpoint.import(
        SegmentId{seg.ubva.eid, seg.ubva.va, seg.len, seg.token_id, owner.handle.token.token});
    urma_target_jetty_t* const queue = endpoint.import(endpoint.queue_id());
    urma_sge_t local = piece(plain, &word, sizeof(word));
    urma_sge_t there = piece(remote, seg.ubva.va, sizeof(word));
    endpoint.post(write_request(queue, &local, &there));
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    endpoint.post(read_request(queue, &local, &there));
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    endpoint.post(add_request(queue, &local, &there, 1));
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(owner.hsa.load(owner.signal), 1);
    owner.close();
  });
}

TEST_F(HandlesTest, UnshareableMemoryGetsNoHandle) {
  run_one([](Channel&) {
    Owner owner;
    urma_context_t* const ctx = owner.endpoint.ctx;
    const uint64_t plain = owner.hsa.create(1, 0);
    urma_ext_signal_handle_t handle;
    urma_target_seg_t* owned = nullptr;
    EXPECT_EQ(urma_ext_create_signal_handle(ctx, plain, &handle, &owned), URMA_FAIL);
    EXPECT_EQ(owned, nullptr);
    EXPECT_EQ(urma_ext_create_signal_handle(ctx, 0, &handle, &owned), URMA_EINVAL);
    EXPECT_EQ(urma_ext_create_signal_handle(ctx, owner.signal, nullptr, &owned), URMA_EINVAL);
    EXPECT_EQ(urma_ext_create_signal_handle(ctx, owner.signal, &handle, nullptr), URMA_EINVAL);
    EXPECT_EQ(urma_ext_create_signal_handle(nullptr, owner.signal, &handle, &owned), URMA_EINVAL);
    urma_target_seg_t* attached = nullptr;
    uint64_t signal = 0;
    EXPECT_EQ(urma_ext_attach_signal_handle(ctx, nullptr, &attached, &signal), URMA_EINVAL);
    EXPECT_EQ(urma_ext_attach_signal_handle(ctx, &owner.handle, nullptr, &signal), URMA_EINVAL);
    EXPECT_EQ(urma_ext_attach_signal_handle(ctx, &owner.handle, &attached, nullptr), URMA_EINVAL);
    EXPECT_EQ(urma_ext_close_signal_handle(nullptr), URMA_EINVAL);
    owner.hsa.destroy(plain);
    owner.close();
  });
}

TEST_F(HandlesTest, AttachedMemoryOutlivesItsOwner) {
  const Body own = [](Channel& channel) {
    Owner owner;
    channel.send(owner.handle);
    channel.receive<int>();
  };
  Child owner("owner", own);
  Child user("user", [](Channel& channel) {
    OwnedEndpoint endpoint;
    const HsaLibrary hsa;
    const auto handle = channel.receive<urma_ext_signal_handle_t>();
    urma_target_seg_t* attached = nullptr;
    uint64_t signal = 0;
    ASSERT_EQ(urma_ext_attach_signal_handle(endpoint.ctx, &handle, &attached, &signal),
              URMA_SUCCESS);
    channel.sync();
    // The owner has been killed by now.
    channel.sync();
    EXPECT_EQ(hsa.load(signal), 1);
    hsa.store(signal, 5);
    EXPECT_EQ(hsa.load(signal), 5);
    EXPECT_EQ(attach(endpoint.ctx, handle), URMA_FAIL);
    EXPECT_EQ(urma_ext_close_signal_handle(attached), URMA_SUCCESS);
  });
  user.channel().send(owner.channel().receive<urma_ext_signal_handle_t>());
  user.channel().sync();
  owner.kill();
  user.channel().sync();
  user.expect_success();
}

// The second owner usually has the ids of the first.
TEST_F(HandlesTest, HandlesOfAnEarlierProcessAreRefused) {
  const Body own = [](Channel& channel) {
    Owner owner;
    owner.make_memory();
    channel.send(Handles{owner.handle, owner.memory_handle});
    channel.receive<int>();
    owner.close();
  };
  Child first("first owner", own);
  const auto old = first.channel().receive<Handles>();
  first.channel().send(0);
  first.expect_success();
  Child second("second owner", own);
  const auto valid = second.channel().receive<Handles>();
  Child user("user", [&](Channel&) {
    OwnedEndpoint endpoint;
    EXPECT_EQ(attach(endpoint.ctx, old.signal), URMA_FAIL);
    EXPECT_EQ(attach(endpoint.ctx, old.memory), URMA_FAIL);
    EXPECT_EQ(attach(endpoint.ctx, valid.signal), URMA_SUCCESS);
    EXPECT_EQ(attach(endpoint.ctx, valid.memory), URMA_SUCCESS);
  });
  user.expect_success();
  second.channel().send(0);
  second.expect_success();
}

}  // namespace
}  // namespace urma_test
