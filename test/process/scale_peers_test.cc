// SPDX-License-Identifier: MIT
//
// Many peers: of one queue, of one process, and on one device.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "test/process/crowd.h"
#include "test/process/endpoint.h"
#include "test/process/footprint.h"
#include "test/process/harness.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr uint32_t kSenders = 200;
constexpr uint32_t kMessages = 20;  // of each
constexpr uint32_t kReceives = 256;
constexpr uint32_t kOwners = 20;
constexpr uint32_t kQueuesOfAnOwner = kCrowd / kOwners;
constexpr uint32_t kJetties = 10000;

// With two hundred processes, one may wait longer for a processor than the timeout of an answer.
class PeersTest : public ProcessTest {
 protected:
  PeersTest() { wait_long_for_answers(); }
};

struct Letter {
  uint32_t sender;
  uint32_t number;
};

// Receives all letters, those of each sender in order.
void receive_letters(Channel& channel) {
  Config config;
  config.receive_depth = kReceives;
  config.events = true;
  std::vector<Letter> room(kReceives);
  std::vector<uint32_t> next(kSenders);
  OwnedEndpoint endpoint(config);
  urma_target_seg_t* segment = endpoint.add(room.data(), room.size() * sizeof(Letter));
  const auto post = [&](uint64_t place) {
    endpoint.post_receive(segment, &room[place], sizeof(Letter), place);
  };
  for (uint64_t place = 0; place < kReceives; ++place) post(place);
  channel.send(endpoint.queue_id());
  for (uint32_t left = kSenders * kMessages; left > 0; --left) {
    const urma_cr_t record = sleep_until_record(endpoint, endpoint.receive_jfc);
    ASSERT_EQ(record.status, URMA_CR_SUCCESS);
    const Letter letter = room[record.user_ctx];
    ASSERT_LT(letter.sender, kSenders);
    ASSERT_EQ(letter.number, next[letter.sender]++) << "of sender " << letter.sender;
    post(record.user_ctx);
  }
  EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
  channel.sync();
}

void send_letters(Channel& channel, uint32_t sender) {
  constexpr uint8_t kForEver = 7;
  Config config;
  config.rnr_retry = kForEver;
  config.events = true;
  std::vector<Letter> letters(kMessages);
  OwnedEndpoint endpoint(config);
  urma_target_seg_t* segment = endpoint.add(letters.data(), kMessages * sizeof(Letter));
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  channel.sync();  // all have arrived
  for (uint32_t i = 0; i < kMessages; ++i) {
    letters[i] = {sender, i};
    urma_sge_t from = piece(segment, &letters[i], sizeof(Letter));
    endpoint.post(send_request(queue, &from, i));
  }
  for (uint32_t i = 0; i < kMessages; ++i) {
    const urma_cr_t record = sleep_until_record(endpoint, endpoint.send_jfc);
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    EXPECT_EQ(record.user_ctx, i);
  }
  channel.sync();
}

TEST_F(PeersTest, TwoHundredProcessesSendToOneQueue) {
  Child receiver("receiver", receive_letters);
  const auto queue = receiver.channel().receive<QueueId>();
  std::vector<std::unique_ptr<Child>> senders;
  for (uint32_t i = 0; i < kSenders; ++i) {
    senders.push_back(
        std::make_unique<Child>("sender", [i](Channel& channel) { send_letters(channel, i); }));
    senders.back()->channel().send(queue);
  }
  for (const auto& sender : senders) sender->channel().receive<char>();
  for (const auto& sender : senders) sender->channel().send('s');
  for (const auto& sender : senders) sender->channel().sync();
  receiver.channel().sync();
  for (const auto& sender : senders) sender->expect_success();
  receiver.expect_success();
}

// A process with some queues that gets a message for each.
void own_queues(Channel& channel) {
  Config config;
  config.events = true;
  Endpoint endpoint(config);
  std::vector<char> memory(64);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  std::vector<urma_jetty_t*> jetties;
  for (uint32_t i = 0; i < kQueuesOfAnOwner; ++i) {
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    cfg.id = 0;
    jetties.push_back(urma_create_jetty(endpoint.ctx, &cfg));
    ASSERT_NE(jetties.back(), nullptr);
    endpoint.post_receive(segment, memory.data(), memory.size(), i);
    QueueId id = endpoint.queue_id();
    id.id = jetties.back()->jetty_id.id;
    channel.send(id);
  }
  for (uint32_t i = 0; i < kQueuesOfAnOwner; ++i) {
    EXPECT_EQ(sleep_until_record(endpoint, endpoint.receive_jfc).status, URMA_CR_SUCCESS);
  }
  channel.sync();
  for (urma_jetty_t* jetty : jetties) EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
  endpoint.close();
}

// Imports all queues at once; a peer costs as many descriptors as its process.
void import_thousand(Channel& channel) {
  Endpoint endpoint;
  std::vector<char> memory(64);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  const size_t before = count_descriptors();
  std::vector<urma_target_jetty_t*> peers;
  for (uint32_t i = 0; i < kCrowd; ++i)
    peers.push_back(endpoint.import(channel.receive<QueueId>()));
  urma_sge_t from = piece(segment, memory.data(), 8);
  for (uint32_t i = 0; i < kCrowd; ++i) {
    endpoint.post(send_request(peers[i], &from, i));
    wait_for_success(endpoint.send_jfc, i);
  }
  const size_t more = count_descriptors() - before;
  EXPECT_LE(more, kOwners * 4);
  channel.send(more);
  endpoint.close();
}

TEST_F(PeersTest, AThousandPeersOfOneProcess) {
  Child importer("importer", import_thousand);
  std::vector<std::unique_ptr<Child>> owners;
  for (uint32_t i = 0; i < kOwners; ++i) {
    owners.push_back(std::make_unique<Child>("owner", own_queues));
  }
  for (uint32_t i = 0; i < kCrowd; ++i) {
    Child& owner = *owners[i / kQueuesOfAnOwner];
    importer.channel().send(owner.channel().receive<QueueId>());
  }
  const auto more = importer.channel().receive<size_t>();
  for (const auto& owner : owners) owner->channel().sync();
  for (const auto& owner : owners) owner->expect_success();
  importer.expect_success();
  std::printf("%u peers in %u processes take %zu descriptors\n", kCrowd, kOwners, more);
}

TEST_F(PeersTest, TenThousandJettiesOnOneDevice) {
  run_one([](Channel&) {
    Endpoint endpoint;
    std::vector<char> memory(64);
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_sge_t from = piece(segment, memory.data(), 8);
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    std::vector<urma_jetty_t*> jetties;
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < kJetties; ++i) {
      cfg.id = 0;
      jetties.push_back(urma_create_jetty(endpoint.ctx, &cfg));
      ASSERT_NE(jetties.back(), nullptr) << i;
      ids.push_back(jetties.back()->jetty_id.id);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
    EXPECT_LT(ids.back(), 65536u);
    // The first, the last, and one in the middle reach each other.
    for (const uint32_t i : {0U, kJetties / 2, kJetties - 1}) {
      QueueId id = endpoint.queue_id();
      id.id = jetties[kJetties - 1 - i]->jetty_id.id;
      urma_jfs_wr_t wr = send_request(endpoint.import(id), &from, i);
      urma_jfs_wr_t* bad = nullptr;
      endpoint.post_receive(segment, memory.data() + 8, 8, i);
      EXPECT_EQ(urma_post_jetty_send_wr(jetties[i], &wr, &bad), URMA_SUCCESS);
      wait_for_success(endpoint.receive_jfc, i);
      wait_for_success(endpoint.send_jfc, i);
    }
    for (urma_jetty_t* jetty : jetties) ASSERT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    endpoint.close();
  });
}

// CPU time of a process, and its context switches.
struct CpuUse {
  int64_t ns;
  int64_t switches;
};

CpuUse cpu_use() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec, usage.ru_nvcsw};
}

// Connected with many peers, and asleep.
void be_idle(Channel& channel) {
  Crowd crowd;
  crowd.meet(channel, kCrowd);
  channel.sync();
  const CpuUse before = cpu_use();
  channel.sync();
  const CpuUse after = cpu_use();
  constexpr int64_t kMostNs = 5'000'000;
  constexpr int64_t kMostSwitches = 20;
  if (is_soak()) {
    EXPECT_LE(after.ns - before.ns, kMostNs);
  }
  EXPECT_LE(after.switches - before.switches, kMostSwitches);
  channel.sync();
  crowd.close();
}

// The window: two others work in it. A thread that woke up each millisecond would show up.
void be_busy() {
  constexpr uint64_t kRounds = 20000;
  constexpr milliseconds kLeast{300};
  std::vector<char> memory(64);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
  urma_sge_t from = piece(segment, memory.data(), 8);
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < kRounds || Clock::now() - begin < kLeast; ++i) {
    endpoint.post_receive(segment, memory.data() + 8, 8, i);
    endpoint.post(send_request(self, &from, i));
    wait_for_success(endpoint.receive_jfc, i);
    wait_for_success(endpoint.send_jfc, i);
  }
}

TEST_F(PeersTest, IdlePeersUseNoCpu) {
  Child a("a", be_idle);
  Child b("b", be_idle);
  introduce_crowds(a, b, kCrowd);
  introduce<char>(a, b);
  run_one([](Channel&) { be_busy(); });
  introduce<char>(a, b);
  introduce<char>(a, b);
  a.expect_success();
  b.expect_success();
}

}  // namespace
}  // namespace urma_test
