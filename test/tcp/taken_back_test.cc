// SPDX-License-Identifier: MIT
//
// Large messages whose memory ends before they have been sent: each ends only its own request, and
// leaves its receive to others.
#include <gtest/gtest.h>

#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr size_t kLarge = 8 << 20;
constexpr size_t kSmall = 8;
constexpr int kRounds = 30;
constexpr uint32_t kPosted = 2;

// When the receiver has a receive for the large message.
enum class Ready : char { kBefore, kAfter, kMeanwhile };

void receive(Channel& channel) {
  std::vector<char> memory(kLarge);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  channel.send(endpoint.queue_id());
  uint32_t posted = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto ready = channel.receive<Ready>();
    if (ready == Ready::kAfter) channel.sync();
    for (; posted < kPosted; ++posted) {
      endpoint.post_receive(segment, memory.data(), memory.size());
    }
    if (ready == Ready::kBefore) channel.sync();
    urma_cr_t record;
    do {
      record = wait_for_success(endpoint.receive_jfc, 0);
      --posted;
    } while (record.completion_len != kSmall);
  }
  channel.sync();
}

void send(Channel& channel) {
  std::vector<char> memory(kLarge);
  char small[kSmall] = {};
  OwnedEndpoint endpoint;
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  urma_target_seg_t* stays = endpoint.add(small, kSmall);
  urma_sge_t here = piece(stays, small, kSmall);
  for (int i = 0; i < kRounds; ++i) {
    urma_target_seg_t* ends = endpoint.add(memory.data(), memory.size());
    urma_sge_t large = piece(ends, memory.data(), memory.size());
    const auto ready = static_cast<Ready>(i % 3);
    channel.send(ready);
    if (ready == Ready::kBefore) channel.sync();
    endpoint.post(send_request(queue, &large));
    // A little more of it is sent each time.
    urma_cr_t record;
    bool ended = false;
    for (int polls = 0; polls < i && !ended; ++polls) {
      ended = urma_poll_jfc(endpoint.send_jfc, 1, &record) == 1;
    }
    endpoint.remove(ends);
    if (!ended) record = wait_for(endpoint.send_jfc);
    if (ready == Ready::kAfter) {
      EXPECT_EQ(record.status, URMA_CR_LOC_ACCESS_ERR);
      channel.sync();
    }
    endpoint.post(send_request(queue, &here, 1));
    wait_for_success(endpoint.send_jfc, 1);
  }
  channel.sync();
}

using TakenBackTest = ProcessTest;

TEST_F(TakenBackTest, LaterMessagesArrive) { run_two("receiver", receive, "sender", send); }

}  // namespace
}  // namespace urma_test
