// SPDX-License-Identifier: MIT
//
// How two processes of the bonded device meet: by shared memory if they share a runtime directory,
// else by the network.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/inspect_reader.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 1 << 16;

// The ways of the queues of a kind.
struct Ways {
  uint32_t near = 0;
  uint32_t far = 0;
};

Ways ways_of(urma_ext_queue_kind_t kind) {
  Ways ways;
  for (const urma_ext_queue_t& queue : queues(0)) {
    if (queue.kind != kind) continue;
    ways.near += queue.near_ways;
    ways.far += queue.far_ways;
  }
  return ways;
}

void expect_way(urma_ext_queue_kind_t kind, bool by_network) {
  const Ways ways = ways_of(kind);
  EXPECT_EQ(ways.near, by_network ? 0u : 1u);
  EXPECT_EQ(ways.far, by_network ? 1u : 0u);
}

// Offers memory, and receives three messages after all that is done to it.
void own(Channel& channel, bool by_network) {
  std::vector<char> memory(kBytes);
  Endpoint endpoint;
  const Closing closing(endpoint);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  for (uint64_t i = 0; i < 3; ++i) {
    endpoint.post_receive(segment, &memory[i * 4096], 4096, i);
  }
  channel.send(offer_of(endpoint, segment));
  for (uint64_t i = 0; i < 3; ++i) {
    const urma_cr_t cr = wait_for(endpoint.receive_jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.user_ctx, i);
    EXPECT_EQ(memory[i * 4096], static_cast<char>('a' + i));
  }
  EXPECT_EQ(memory[20000], 'w');
  uint64_t word;
  std::memcpy(&word, &memory[32768], sizeof(word));
  EXPECT_EQ(word, 42u);
  expect_way(URMA_EXT_QUEUE_JFR, by_network);
  channel.sync();
}

// Of a few requests of each kind.
void use(Endpoint* endpoint, const Offer& offer) {
  std::vector<char> memory(kBytes);
  urma_target_seg_t* segment = endpoint->add(memory.data(), memory.size());
  urma_target_jetty_t* queue = endpoint->import(offer.queue);
  urma_target_seg_t* remote = endpoint->import(offer.segment);
  memory[100] = 'w';
  urma_sge_t local = piece(segment, &memory[100], 1);
  urma_sge_t there = piece(remote, offer.segment.va + 20000, 1);
  endpoint->post(write_request(queue, &local, &there, 10));
  wait_for_success(endpoint->send_jfc, 10);
  local = piece(segment, &memory[200], 1);
  endpoint->post(read_request(queue, &local, &there, 11));
  wait_for_success(endpoint->send_jfc, 11);
  EXPECT_EQ(memory[200], 'w');
  local = piece(segment, &memory[208], 8);
  there = piece(remote, offer.segment.va + 32768, 8);
  endpoint->post(add_request(queue, &local, &there, 42, 12));
  wait_for_success(endpoint->send_jfc, 12);
  for (uint64_t i = 0; i < 3; ++i) {
    memory[i] = static_cast<char>('a' + i);
    local = piece(segment, &memory[i], 1);
    endpoint->post(send_request(queue, &local, i));
    wait_for_success(endpoint->send_jfc, i);
  }
}

struct BondTest : ProcessTest {
  // `by_network`: whether they are expected to meet so.
  static void meet(const std::string& one, const std::string& other, bool by_network) {
    run_two(
        "owner",
        [=](Channel& channel) {
          live_in(one);
          own(channel, by_network);
        },
        "user",
        [=](Channel& channel) {
          live_in(other);
          Endpoint endpoint;
          const Closing closing(endpoint);
          use(&endpoint, channel.receive<Offer>());
          EXPECT_EQ(streams_begun(), by_network ? 1u : 0u);
          expect_way(URMA_EXT_QUEUE_JETTY, by_network);
          channel.sync();
        });
  }
};

TEST_F(BondTest, ProcessesOfOneDirectoryMeetByMemory) { meet("one", "one", false); }

TEST_F(BondTest, ProcessesOfTwoDirectoriesMeetByTheNetwork) { meet("one", "other", true); }

// The provider of the device behind bonding_dev_0.
std::string provider_of(const Endpoint& endpoint) {
  urma_ext_device_t device = {};
  EXPECT_EQ(urma_ext_query_device(endpoint.ctx->dev, &device), URMA_SUCCESS);
  return device.provider;
}

bool exists(std::string name) { return urma_get_device_by_name(name.data()) != nullptr; }

TEST_F(BondTest, WithoutTheSettingThereIsNoNetwork) {
  run_one([](Channel&) {
    ::unsetenv("URMA_BOND");
    OwnedEndpoint endpoint;
    EXPECT_EQ(provider_of(endpoint), "shm");
    EXPECT_FALSE(exists("urma_bond0"));
  });
}

TEST_F(BondTest, AnAliasOfItsNameCounts) {
  run_one([](Channel&) {
    ::setenv("URMA_DEVICE_ALIAS", "bonding_dev_0=urma_net0", 1);
    OwnedEndpoint endpoint;
    EXPECT_EQ(provider_of(endpoint), "tcp");
    EXPECT_TRUE(exists("urma_bond0"));
  });
}

// One EID, that of the network; with it, either device reaches the same process.
TEST_F(BondTest, ItsEidIsTheFirstOfTheNetwork) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    EXPECT_EQ(provider_of(endpoint), "bond");
    urma_device_attr_t attr = {};
    ASSERT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.dev_cap.max_eid_cnt, 1U);
    char name[] = "urma_net0";
    urma_device_t* network = urma_get_device_by_name(name);
    ASSERT_NE(network, nullptr);
    uint32_t count = 0;
    urma_eid_info_t* eids = urma_get_eid_list(network, &count);
    ASSERT_NE(eids, nullptr);
    EXPECT_EQ(std::memcmp(&eids[0].eid, &endpoint.ctx->eid, sizeof(urma_eid_t)), 0);
    urma_free_eid_list(eids);
  });
}

}  // namespace
}  // namespace urma_test
