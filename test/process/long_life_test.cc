// SPDX-License-Identifier: MIT
//
// A process that lives long while its peers come and go, orderly or not: it ends with the
// descriptors, mappings, memory and ids that it started with. URMA_SOAK=1 runs it for ten minutes.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/footprint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 64 * kPage;
constexpr uint32_t kId = 4711;  // the same in each round
constexpr int kWarmUp = 12;
constexpr int kRounds = 48;
constexpr int kMessages = 20;
// A log line being written, and the like.
constexpr uint64_t kHeapSlack = 16 << 10;
// For malloc itself, and for a table of 512 KiB with an entry per id: a freed id is reused as late
// as possible, so its pages are touched one after the other.
constexpr uint64_t kSlack = (128 + 512) << 10;

enum class End : int { kClean, kKilled, kKilledInTraffic };
constexpr int kEnds = 3;

bool soaks() {
  const char* soak = std::getenv("URMA_SOAK");
  return soak != nullptr && std::strcmp(soak, "1") == 0;
}

// What must not change over a long life.
struct Holdings {
  size_t descriptors;
  size_t mappings;
  uint32_t queues;
  uint32_t segments;
  uint64_t heap;   // in use
  uint64_t bytes;  // used of the machine

  static Holdings now() {
    const struct mallinfo2 heap = mallinfo2();
    Holdings it = {
        count_descriptors(),          count_mappings(), 0, 0, heap.uordblks + heap.hblkhd,
        take_footprint().held_bytes()};
    EXPECT_EQ(urma_ext_query_queues(0, nullptr, &it.queues), URMA_SUCCESS);
    EXPECT_EQ(urma_ext_query_segments_of(0, nullptr, &it.segments), URMA_SUCCESS);
    return it;
  }
  // Right after a kill, something of the peer may still be there; only what remains counts.
  void take_less(const Holdings& other) {
    descriptors = std::min(descriptors, other.descriptors);
    mappings = std::min(mappings, other.mappings);
  }
  bool same(const Holdings& other) const {
    return descriptors == other.descriptors && mappings == other.mappings &&
           queues == other.queues && segments == other.segments &&
           heap <= other.heap + kHeapSlack && bytes <= other.bytes + kSlack;
  }
};

// Everything that belonged to a dead peer is removed soon.
void expect_back_at(const Holdings& before) {
  const auto deadline = Clock::now() + patience(seconds(10));
  Holdings now = Holdings::now();
  while (!now.same(before) && Clock::now() < deadline) {
    ::sched_yield();
    now = Holdings::now();
  }
  EXPECT_EQ(now.descriptors, before.descriptors);
  EXPECT_EQ(now.mappings, before.mappings);
  EXPECT_EQ(now.queues, before.queues);
  EXPECT_EQ(now.segments, before.segments);
  EXPECT_LE(now.heap, before.heap + kHeapSlack);
  EXPECT_LE(now.bytes, before.bytes + kSlack);
}

Config round_config() {
  Config config;
  config.mode = URMA_TM_RC;
  config.receive_depth = 2 * kMessages;
  config.id = kId;
  return config;
}

// One side of a connection: bound RC jetties, and memory of the other side.
struct Side {
  Side(Endpoint& endpoint, const Pages& memory, Channel& channel)
      : endpoint(endpoint), memory(memory), segment(endpoint.add(memory.get(), kBytes)) {
    const auto peer = channel.swap(offer_of(endpoint, segment));
    queue = endpoint.import(peer.queue);
    remote = endpoint.import(peer.segment, true);
    endpoint.bind(queue);
    channel.sync();
  }
  void post_receive() { endpoint.post_receive(segment, memory.get() + kPage, 8); }
  urma_cr_status_t send() {
    urma_sge_t here = piece(segment, memory.get(), 8);
    endpoint.post(send_request(nullptr, &here));
    return wait_for(endpoint.send_jfc).status;
  }
  void write() {
    urma_sge_t here = piece(segment, memory.get(), 8);
    urma_sge_t there = piece(remote, remote->seg.ubva.va + 2 * kPage, 8);
    endpoint.post(write_request(nullptr, &here, &there));
    wait_for_success(endpoint.send_jfc, 0);
  }

  Endpoint& endpoint;
  const Pages& memory;
  urma_target_seg_t* segment;
  urma_target_jetty_t* queue;
  urma_target_seg_t* remote;
};

void have_traffic(Side& side, Channel& channel) {
  for (int i = 0; i < kMessages; ++i) side.post_receive();
  channel.sync();
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(side.send(), URMA_CR_SUCCESS);
    side.write();
  }
  for (int i = 0; i < kMessages; ++i) wait_for_success(side.endpoint.receive_jfc, 0);
  channel.sync();
}

void be_peer(Channel& channel, End end) {
  Config config = round_config();
  config.id = kId + 1;
  Endpoint endpoint(config);
  const Pages memory(kBytes);
  Side side(endpoint, memory, channel);
  have_traffic(side, channel);
  if (end == End::kClean) return endpoint.close();
  if (end == End::kKilled) {
    channel.send('k');
    channel.receive<char>();  // it never comes
  }
  for (int i = 0;; ++i) {
    side.post_receive();
    if (i == kMessages) channel.send('k');
    if (i >= kMessages) wait_for_success(endpoint.receive_jfc, 0);
  }
}

// One connection of the long-lived process, in a context of its own.
void live_round(Endpoint& endpoint, const Pages& memory, Channel& channel, End end) {
  endpoint.open_queues();
  Side side(endpoint, memory, channel);
  have_traffic(side, channel);
  if (end == End::kKilledInTraffic) {
    while (side.send() == URMA_CR_SUCCESS) {
    }
  } else if (end == End::kKilled) {
    channel.receive<char>();
  }
  endpoint.close_queues();
}

void live_long(Channel& channel) {
  ::alarm(0);  // the harness allows no child to live as long as a soak
  Endpoint endpoint(round_config());
  endpoint.close_queues();
  const Pages memory(kBytes);
  Holdings before = {};
  while (true) {
    const auto round = channel.receive<int>();
    if (round < 0) break;
    live_round(endpoint, memory, channel, static_cast<End>(round % kEnds));
    if (round == kWarmUp - 1) before = Holdings::now();
    if (round >= kWarmUp) before.take_less(Holdings::now());
    channel.send('r');
  }
  expect_back_at(before);
  const Holdings now = Holdings::now();
  std::printf("before %lu KiB, after %lu KiB; of the heap %lu and %lu bytes\n", before.bytes >> 10,
              now.bytes >> 10, before.heap, now.heap);
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
}

class LongLifeTest : public ProcessTest {
 protected:
  // A peer that comes, and goes.
  static void run_round(Child& survivor, int round) {
    const auto end = static_cast<End>(round % kEnds);
    survivor.channel().send(round);
    Child peer("peer", [end](Channel& channel) { be_peer(channel, end); });
    introduce<Offer>(survivor, peer);
    for (int i = 0; i < 3; ++i) introduce<char>(survivor, peer);
    if (end == End::kClean) {
      peer.expect_success();
    } else {
      peer.channel().receive<char>();
      peer.kill();
      if (end == End::kKilled) survivor.channel().send('k');
    }
    survivor.channel().receive<char>();
  }
};

TEST_F(LongLifeTest, PeersComeAndGo) {
  const auto end = Clock::now() + seconds(soaks() ? 600 : 0);
  Child survivor("survivor", live_long);
  int rounds = 0;
  while (rounds < kWarmUp + kRounds || Clock::now() < end) run_round(survivor, rounds++);
  survivor.channel().send(-1);
  survivor.expect_success();
  std::printf("%d rounds; %s", rounds, survivor.output().c_str());
  // The table of EIDs and the attributes of the devices stay, and nothing of a process.
  for (const std::string& entry : runtime_entries()) {
    EXPECT_TRUE(entry == "eids" || entry == "ids" || entry == "class") << entry;
  }
}

// The library starts and ends repeatedly in one process.
TEST_F(LongLifeTest, TheLibraryComesAndGoes) {
  run_one([](Channel&) {
    const Pages memory(kBytes);
    uint64_t before = 0;
    size_t descriptors = 0;
    size_t mappings = 0;
    for (int round = 0; round < 2 * kWarmUp; ++round) {
      Endpoint endpoint;
      urma_target_seg_t* segment = endpoint.add(memory.get(), kBytes);
      urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
      urma_sge_t here = piece(segment, memory.get(), 8);
      endpoint.post_receive(segment, memory.get() + kPage, 8);
      endpoint.post(send_request(self, &here));
      wait_for_success(endpoint.receive_jfc, 0);
      wait_for_success(endpoint.send_jfc, 0);
      endpoint.close();
      if (round == kWarmUp - 1) {
        take_footprint();
        before = take_footprint().held_bytes();
        descriptors = count_descriptors();
        mappings = count_mappings();
      }
    }
    EXPECT_EQ(count_descriptors(), descriptors);
    EXPECT_EQ(count_mappings(), mappings);
    EXPECT_LE(take_footprint().held_bytes(), before + kSlack);
  });
}

}  // namespace
}  // namespace urma_test
