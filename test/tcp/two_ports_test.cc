// SPDX-License-Identifier: MIT
//
// A process that connects to another one at two of its ports at once.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "jetty/remote.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

using TwoPortsTest = ProcessTest;

// With a greater number than almost any process: the other one must await its answer.
std::unique_ptr<Carrier> late_carrier(const urma_eid_t& eid) {
  for (;;) {
    auto carrier = make_socket_carrier(config_at({eid}));
    if (carrier->process()[0] == 0xff) return carrier;
  }
}

// The peer could keep either of two.
TEST_F(TwoPortsTest, OnlyOneStreamAwaitsTheAnswerOfAProcess) {
  Child child("asks", [](Channel& channel) {
    OwnedEndpoint endpoint;
    channel.send(endpoint.queue_id().eid);
    // Each asks the owner, and waits for nothing.
    for (const uint16_t port : channel.receive<std::array<uint16_t, 2>>()) {
      endpoint.import(SegmentId{endpoint.queue_id().eid, 4096, 64, uint32_t{port} << 16, kNoToken});
    }
    channel.sync();
  });
  const auto carrier = late_carrier(child.channel().receive<urma_eid_t>());
  std::array<uint16_t, 2> ports = {carrier->port(), carrier->port()};
  while (!carrier->listen_also(++ports[1])) continue;
  child.channel().send(ports);

  // Both before one is greeted.
  const std::array<std::unique_ptr<Stream>, 2> streams = {next_stream(*carrier),
                                                          next_stream(*carrier)};
  std::string why;
  for (const auto& stream : streams) ASSERT_EQ(finish_greeting(*stream, &why), StreamState::kOpen);
  const std::string hello = frame(HelloBody{});
  Stream* kept = nullptr;
  for (const auto& stream : streams) {
    const std::string first = receive(*stream, hello.size());
    if (first.empty()) continue;
    EXPECT_EQ(first, hello);
    EXPECT_EQ(kept, nullptr) << "it keeps both";
    kept = stream.get();
  }
  ASSERT_NE(kept, nullptr);

  send_all(*kept, hello);
  for (int i = 0; i < 2; ++i) {
    const auto asked = receive_body<FindBody>(*kept);
    EXPECT_TRUE(asked.id >> 16 == ports[0] || asked.id >> 16 == ports[1]) << asked.id;
    AnswerBody answer = {};
    answer.ticket = asked.ticket;
    answer.answer = static_cast<uint32_t>(urma::Answer::kNoSuchObject);
    send_all(*kept, frame(answer));
  }
  child.channel().sync();
  child.expect_success();
}

}  // namespace
}  // namespace urma_test
