// SPDX-License-Identifier: MIT
//
// Segments in GPU memory that the CPU cannot reach, over the fake runtime: between two processes,
// by a dma-buf and by a handle of the runtime.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/rocm/fake_runtime.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 256 << 10;

std::vector<char> pattern(size_t bytes, char first) {
  std::vector<char> made(bytes);
  std::iota(made.begin(), made.end(), first);
  return made;
}

// A process with memory of each pool.
struct Owner {
  explicit Owner(const Config& config = {}) : endpoint(config) {
    device = static_cast<char*>(urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, kBytes));
    host = static_cast<char*>(urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_HOST, kBytes));
    if (device == nullptr || host == nullptr) throw std::runtime_error("no device memory");
    device_segment = endpoint.add(device, kBytes);
    host_segment = endpoint.add(host, kBytes);
    plain_segment = endpoint.add(plain.data(), plain.size());
  }
  void close() {
    for (urma_target_seg_t* segment : {device_segment, host_segment, plain_segment}) {
      endpoint.remove(segment);
    }
    EXPECT_EQ(urma_ext_free_device(endpoint.ctx, device), URMA_SUCCESS);
    EXPECT_EQ(urma_ext_free_device(endpoint.ctx, host), URMA_SUCCESS);
    endpoint.close();
    EXPECT_EQ(fake.get("ALLOCATIONS"), 0);
    EXPECT_EQ(fake.get("ATTACHED"), 0);
    EXPECT_EQ(fake.get("LOCKED"), 0);
    EXPECT_EQ(fake.get("SIGNALS"), 0);
  }

  Endpoint endpoint;
  FakeRuntime fake;
  char* device;
  char* host;
  std::vector<char> plain = std::vector<char>(kBytes);
  urma_target_seg_t* device_segment;
  urma_target_seg_t* host_segment;
  urma_target_seg_t* plain_segment;
};

struct Ids {
  QueueId queue;
  SegmentId device;
  SegmentId host;
  SegmentId plain;
};

Ids ids_of(const Owner& owner) {
  return {owner.endpoint.queue_id(), owner.endpoint.segment_id(owner.device_segment),
          owner.endpoint.segment_id(owner.host_segment),
          owner.endpoint.segment_id(owner.plain_segment)};
}

// The other process, as used by this one.
struct Peer {
  Peer(Endpoint* endpoint, const Ids& ids)
      : queue(endpoint->import(ids.queue)),
        device(endpoint->import(ids.device)),
        host(endpoint->import(ids.host)),
        plain(endpoint->import(ids.plain)) {}

  urma_target_jetty_t* queue;
  urma_target_seg_t* device;
  urma_target_seg_t* host;
  urma_target_seg_t* plain;
};

void serve(Channel& channel, const std::function<void(Owner&)>& look) {
  Owner owner;
  // For what a WRITE_IMM reports.
  owner.endpoint.post_receive(owner.plain_segment, owner.plain.data(), 8);
  channel.send(ids_of(owner));
  channel.receive<int>();
  look(owner);
  channel.send(0);
  channel.receive<int>();
  owner.close();
}

void use(Channel& channel, const std::function<void(Owner&, Peer&)>& body) {
  Owner own;
  Peer peer(&own.endpoint, channel.receive<Ids>());
  body(own, peer);
  channel.send(0);
  channel.receive<int>();
  for (urma_target_seg_t* segment : {peer.device, peer.host, peer.plain}) {
    own.endpoint.unimport(segment);
  }
  channel.send(0);
  own.close();
}

void run(const std::function<void(Owner&, Peer&)>& body, const std::function<void(Owner&)>& look) {
  run_two(
      "owner", [&](Channel& channel) { serve(channel, look); }, "user",
      [&](Channel& channel) { use(channel, body); });
}

class DeviceMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ::setenv("FAKE_HSA_DMABUF", GetParam(), 1); }
  void TearDown() override { ::unsetenv("FAKE_HSA_DMABUF"); }
};

TEST_P(DeviceMemory, WritesFromAnyMemoryToAnyMemory) {
  run(
      [](Owner& own, Peer& peer) {
        const auto bytes = pattern(kBytes, 1);
        own.fake.write(own.device, bytes);
        std::memcpy(own.host, bytes.data(), kBytes);
        std::memcpy(own.plain.data(), bytes.data(), kBytes);
        urma_target_seg_t* locals[] = {own.device_segment, own.host_segment, own.plain_segment};
        const char* memory[] = {own.device, own.host, own.plain.data()};
        urma_target_seg_t* remotes[] = {peer.device, peer.host, peer.plain};
        for (int from = 0; from < 3; ++from) {
          for (int to = 0; to < 3; ++to) {
            // Each at its own place, and one of each size.
            const size_t at = (3 * from + to) * 20000;
            urma_sge_t local = piece(locals[from], memory[from] + at, 20000);
            urma_sge_t remote = piece(remotes[to], remotes[to]->seg.ubva.va + at, 20000);
            own.endpoint.post(write_request(peer.queue, &local, &remote, at));
            wait_for_success(own.endpoint.send_jfc, at);
            urma_sge_t few = piece(locals[from], memory[from] + 200000 + at / 1000, 8);
            urma_sge_t there = piece(remotes[to], remotes[to]->seg.ubva.va + 200000 + at / 1000, 8);
            own.endpoint.post(write_request(peer.queue, &few, &there, 1));
            wait_for_success(own.endpoint.send_jfc, 1);
          }
        }
      },
      [](Owner& owner) {
        const auto bytes = pattern(kBytes, 1);
        const auto device = owner.fake.read(owner.device, kBytes);
        for (int from = 0; from < 3; ++from) {
          for (int to = 0; to < 3; ++to) {
            const size_t at = (3 * from + to) * 20000;
            const char* arrived[] = {device.data(), owner.host, owner.plain.data()};
            EXPECT_EQ(std::memcmp(arrived[to] + at, bytes.data() + at, 20000), 0)
                << from << " to " << to;
            EXPECT_EQ(
                std::memcmp(arrived[to] + 200000 + at / 1000, bytes.data() + 200000 + at / 1000, 8),
                0);
          }
        }
      });
}

TEST_P(DeviceMemory, ReadsFromAnyMemoryToAnyMemory) {
  run(
      [](Owner& own, Peer& peer) {
        const auto bytes = pattern(kBytes, 7);
        urma_target_seg_t* locals[] = {own.device_segment, own.host_segment, own.plain_segment};
        char* memory[] = {own.device, own.host, own.plain.data()};
        urma_target_seg_t* remotes[] = {peer.device, peer.host, peer.plain};
        // First memory that the other side never reads: writes from here fill it.
        own.fake.write(own.device, bytes);
        for (urma_target_seg_t* remote : remotes) {
          urma_sge_t local = piece(own.device_segment, own.device, kBytes);
          urma_sge_t there = piece(remote, remote->seg.ubva.va, kBytes);
          own.endpoint.post(write_request(peer.queue, &local, &there, 1));
          wait_for_success(own.endpoint.send_jfc, 1);
        }
        own.fake.write(own.device, std::vector<char>(kBytes));
        for (int from = 0; from < 3; ++from) {
          for (int to = 0; to < 3; ++to) {
            const size_t at = (3 * from + to) * 20000;
            urma_sge_t local = piece(locals[to], memory[to] + at, 20000);
            urma_sge_t remote = piece(remotes[from], remotes[from]->seg.ubva.va + at, 20000);
            own.endpoint.post(read_request(peer.queue, &local, &remote, at));
            wait_for_success(own.endpoint.send_jfc, at);
            const auto device = own.fake.read(own.device, kBytes);
            const char* arrived[] = {device.data(), own.host, own.plain.data()};
            EXPECT_EQ(std::memcmp(arrived[to] + at, bytes.data() + at, 20000), 0)
                << from << " to " << to;
          }
        }
      },
      [](Owner&) {});
}

TEST_P(DeviceMemory, SendsFromAndToDeviceMemory) {
  run_two(
      "receiver",
      [](Channel& channel) {
        Owner owner;
        for (const size_t size : {size_t{64}, size_t{100000}}) {
          owner.endpoint.post_receive(owner.device_segment, owner.device, kBytes, size);
        }
        owner.endpoint.post_receive(owner.plain_segment, owner.plain.data(), kBytes, 3);
        channel.send(ids_of(owner));
        for (const size_t size : {size_t{64}, size_t{100000}}) {
          const urma_cr_t record = wait_for(owner.endpoint.receive_jfc);
          EXPECT_EQ(record.status, URMA_CR_SUCCESS);
          EXPECT_EQ(record.user_ctx, size);
          EXPECT_EQ(record.completion_len, size);
          EXPECT_EQ(owner.fake.read(owner.device, size), pattern(size, 5));
          channel.send(0);
        }
        wait_for_success(owner.endpoint.receive_jfc, 3);
        EXPECT_EQ(std::memcmp(owner.plain.data(), pattern(kBytes, 5).data(), kBytes), 0);
        channel.receive<int>();
        owner.close();
      },
      "sender",
      [](Channel& channel) {
        Owner own;
        const Ids ids = channel.receive<Ids>();
        urma_target_jetty_t* queue = own.endpoint.import(ids.queue);
        own.fake.write(own.device, pattern(kBytes, 5));
        for (const size_t size : {size_t{64}, size_t{100000}}) {
          urma_sge_t local = piece(own.device_segment, own.device, size);
          own.endpoint.post(send_request(queue, &local, size));
          wait_for_success(own.endpoint.send_jfc, size);
          channel.receive<int>();
        }
        urma_sge_t local = piece(own.device_segment, own.device, kBytes);
        own.endpoint.post(send_request(queue, &local, 3));
        wait_for_success(own.endpoint.send_jfc, 3);
        channel.send(0);
        own.close();
      });
}

TEST_P(DeviceMemory, AtomicsWorkOnHostMemoryAndAreRefusedElsewhere) {
  run(
      [](Owner& own, Peer& peer) {
        auto* old = reinterpret_cast<uint64_t*>(own.plain.data());
        urma_sge_t result = piece(own.plain_segment, old, 8);
        urma_sge_t host = piece(peer.host, peer.host->seg.ubva.va + 8, 8);
        own.endpoint.post(add_request(peer.queue, &result, &host, 5, 1));
        wait_for_success(own.endpoint.send_jfc, 1);
        own.endpoint.post(add_request(peer.queue, &result, &host, 6, 2));
        wait_for_success(own.endpoint.send_jfc, 2);
        EXPECT_EQ(*old, 5U);
        urma_sge_t device = piece(peer.device, peer.device->seg.ubva.va, 8);
        own.endpoint.post(add_request(peer.queue, &result, &device, 5, 3));
        wait_for_status(own.endpoint.send_jfc, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
        own.endpoint.post(write_atomic_request(peer.queue, &result, &device, 4));
        wait_for_status(own.endpoint.send_jfc, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
      },
      [](Owner& owner) {
        uint64_t value;
        std::memcpy(&value, owner.host + 8, sizeof(value));
        EXPECT_EQ(value, 11U);
      });
}

TEST_P(DeviceMemory, NotifiesAfterTheData) {
  run(
      [](Owner& own, Peer& peer) {
        own.fake.set("DELAY_US", 2000);
        own.fake.write(own.device, pattern(kBytes, 9));
        urma_sge_t local = piece(own.device_segment, own.device, 65536);
        urma_sge_t there[] = {piece(peer.device, peer.device->seg.ubva.va, 65536),
                              piece(peer.device, peer.device->seg.ubva.va + 131072, 8)};
        own.endpoint.post(write_notify_request(peer.queue, &local, there, 77, 1));
        wait_for_success(own.endpoint.send_jfc, 1);
        own.endpoint.post(write_imm_request(peer.queue, &local, &there[0], 78, 2));
        wait_for_success(own.endpoint.send_jfc, 2);
      },
      [](Owner& owner) {
        uint64_t value;
        std::memcpy(&value, owner.fake.read(owner.device + 131072, 8).data(), 8);
        EXPECT_EQ(value, 77U);
        EXPECT_EQ(owner.fake.read(owner.device, 65536), pattern(65536, 9));
      });
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceMemory, ::testing::Values("1", "0"),
                         [](const auto& way) { return *way.param == '1' ? "Dmabuf" : "Handle"; });

}  // namespace
}  // namespace urma_test
