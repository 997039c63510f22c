// SPDX-License-Identifier: MIT
//
// A peer that takes a message back: no bytes of it may follow. That those of others still arrive,
// //test/process:taken_back_test shows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

constexpr size_t kLarge = 8 << 20;

using TakenBackTest = ProcessTest;

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
