// SPDX-License-Identifier: MIT
//
// Large messages whose memory ends before they have been sent: each ends only its own request, and
// leaves its receive to others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/stranger.h"

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

// Its bytes would count as those of the next message.
TEST_F(TakenBackTest, NoPartFollows) {
  using namespace urma::tcp;  // NOLINT: what it speaks
  Child receiver("receiver", [](Channel& channel) {
    std::vector<char> memory(kLarge);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    endpoint.post_receive(segment, memory.data(), memory.size());
    channel.send(endpoint.queue_id());
    while (!channel.has_message()) EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
    channel.sync();
  });
  const auto queue = receiver.channel().receive<QueueId>();
  Stranger stranger(queue);
  const auto stream = stranger.connect();
  ASSERT_NE(stream, nullptr);
  const uint32_t way = 5;
  send_all(*stream, frame(way_to(queue, way)));
  EXPECT_EQ(receive_body<WayOpenedBody>(*stream).answer, 0U);
  const auto kind = static_cast<uint8_t>(urma::MessageKind::kSend);
  send_all(*stream, frame(MessageBody{way, kLarge, 0, kind, urma::kByReference, {}}));
  EXPECT_EQ(receive_body<PullBody>(*stream).way, way);
  send_all(*stream, frame(PartBody{way}) + frame(PartBody{way}, std::string(100, 'x')));
  wait_for_end(*stream);
  receiver.channel().sync();
  receiver.expect_success();
}

}  // namespace
}  // namespace urma_test
