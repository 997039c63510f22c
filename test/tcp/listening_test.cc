// SPDX-License-Identifier: MIT
//
// What a process sees that others look for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

using ListeningTest = ProcessTest;

// Asks the owner of a segment for each of the ports, and waits for no answer.
void ask(Channel& channel) {
  OwnedEndpoint endpoint;
  const urma_eid_t eid = endpoint.queue_id().eid;
  channel.send(eid);
  for (const uint16_t port : channel.receive<std::array<uint16_t, 2>>()) {
    if (port != 0) endpoint.import(SegmentId{eid, 4096, 64, uint32_t{port} << 16, kNoToken});
  }
  channel.sync();
}

// At two of its ports at once: it could keep either of two.
TEST_F(ListeningTest, OnlyOneStreamAwaitsItsAnswer) {
  Child child("asks", ask);
  const auto carrier = carrier_numbered(kGreatest, child.channel().receive<urma_eid_t>());
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
  const uint32_t one = refuse(*kept) >> 16, other = refuse(*kept) >> 16;
  EXPECT_EQ(std::minmax(one, other), std::minmax<uint32_t>(ports[0], ports[1]));
  child.channel().sync();
  child.expect_success();
}

// One that has not answered for a moment ends, and another one takes its port.
TEST_F(ListeningTest, TheNextProcessIsAskedAtOnce) {
  Child child("asks", ask);
  const auto eid = child.channel().receive<urma_eid_t>();
  auto carrier = make_socket_carrier(config_at({eid}));
  CarrierConfig next = config_at({eid});
  next.first_port = next.last_port = carrier->port();
  child.channel().send(std::array<uint16_t, 2>{carrier->port(), 0});
  auto stream = next_open(*carrier);
  expect_frame<HelloBody>(*stream);
  send_all(*stream, frame(HelloBody{}));
  receive_body<FindBody>(*stream);
  // Asks for a sign of life.
  expect_frame<PingBody>(*stream);

  carrier.reset();
  carrier = make_socket_carrier(next);
  stream.reset();
  stream = next_open(*carrier);
  expect_frame<HelloBody>(*stream);
  send_all(*stream, frame(HelloBody{}));
  EXPECT_EQ(refuse(*stream) >> 16, carrier->port());
  child.channel().sync();
  child.expect_success();
}

}  // namespace
}  // namespace urma_test
