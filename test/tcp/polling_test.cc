// SPDX-License-Identifier: MIT
//
// Two processes that poll: what a message leaves behind that was polled but not answered, and the
// connections that they share.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "test/tcp/polling_party.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using urma::tcp::Stranger;
using urma::tcp::Stream;

using PollingTest = ProcessTest;

// A process is killed between the poll of a message and its answer, which the report of the message
// was to go with.
TEST_F(PollingTest, AMessageThatWasPolledIsReportedThoughItsReceiverIsKilled) {
  constexpr int kRounds = repetitions(10);
  constexpr int kAnswered = 200;
  for (int round = 0; round < kRounds; ++round) {
    auto [left, right] = Channel::pair();
    Child sender("sender", std::move(left), [](Channel& channel) {
      Party party(channel);
      for (int i = 0; i < kAnswered; ++i) party.ask();
      party.send();
      await(party.endpoint.send_jfc);
    });
    Child receiver("receiver", std::move(right), [](Channel& channel) {
      Party party(channel);
      for (int i = 0; i < kAnswered; ++i) party.answer();
      await(party.endpoint.receive_jfc);
      ::kill(::getpid(), SIGKILL);
    });
    sender.expect_success();
    const int status = receiver.wait();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
}

// The ports of a connection of this process.
struct Ports {
  uint16_t here, there;
};
struct Connections {
  std::array<Ports, 64> ports;
  size_t count;
};

uint16_t port_of(const sockaddr_storage& address) {
  // Both families have the port at the same offset.
  return reinterpret_cast<const sockaddr_in&>(address).sin_port;
}

Connections connections() {
  Connections found = {};
  for (int fd = 0; fd < 256 && found.count < found.ports.size(); ++fd) {
    sockaddr_storage here = {}, there = {};
    socklen_t size = sizeof(here), peer_size = sizeof(there);
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) != 0) continue;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &peer_size) != 0) continue;
    if (here.ss_family != AF_INET && here.ss_family != AF_INET6) continue;
    found.ports[found.count++] = {port_of(here), port_of(there)};
  }
  return found;
}

// Between this process and that of the channel, which calls it too; each may have others.
int shared_connections(Channel& channel) {
  const Connections ours = connections();
  const Connections theirs = channel.swap(ours);
  int shared = 0;
  for (size_t i = 0; i < ours.count; ++i) {
    for (size_t j = 0; j < theirs.count; ++j) {
      const Ports& a = ours.ports[i];
      const Ports& b = theirs.ports[j];
      shared += a.here == b.there && a.there == b.here ? 1 : 0;
    }
  }
  return shared;
}

// Also if both begin at once.
TEST_F(PollingTest, TwoProcessesShareOneConnection) {
  constexpr int kRounds = repetitions(10);
  for (int round = 0; round < kRounds; ++round) {
    const auto body = [](Channel& channel) {
      OwnedEndpoint endpoint;
      std::array<char, 2 * kSize> memory = {};
      urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
      endpoint.post_receive(segment, memory.data(), kSize);
      const auto theirs = channel.swap(endpoint.queue_id());
      urma_target_jetty_t* queue = endpoint.import(theirs);
      urma_sge_t from = piece(segment, memory.data() + kSize, kSize);
      channel.sync();
      endpoint.post(send_request(queue, &from));
      wait_for_success(endpoint.send_jfc, 0);
      wait_for_success(endpoint.receive_jfc, 0);
      const auto deadline = Clock::now() + patience(seconds(10));
      while (shared_connections(channel) != 1) {
        ASSERT_LT(Clock::now(), deadline);
        EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
      }
      channel.sync();
    };
    run_two("first", body, "second", body);
  }
}

constexpr uint32_t kMessages = 1500;  // more than may be on their way to a queue
constexpr uint32_t kDepth = 2048;
constexpr uint8_t kForEver = 7;

// No sign of life gets anything going.
Config deep() {
  ::setenv("URMA_TCP_TIMEOUT_MS", "600000", 1);
  Config config;
  config.send_depth = kDepth;
  config.receive_depth = kDepth;
  config.rnr_retry = kForEver;
  return config;
}

void poll_until_told(const Channel& channel, urma_jfc_t* jfc) {
  while (!channel.has_message()) EXPECT_TRUE(has_nothing(jfc));
}

// Polls look at many connections only if something has come, and nobody asks for these reports.
TEST_F(PollingTest, ReportsDoNotWaitForMoreToCome) {
  Child receiver("receiver", [](Channel& channel) {
    OwnedEndpoint endpoint(deep());
    std::array<char, kSize> memory = {};
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    channel.send(endpoint.queue_id());
    // All that can come has.
    poll_until_told(channel, endpoint.receive_jfc);
    channel.receive<char>();
    for (uint32_t i = 0; i < kMessages; ++i) {
      endpoint.post_receive(segment, memory.data(), kSize);
      await(endpoint.receive_jfc);
    }
    channel.sync();
  });
  Child sender("sender", [](Channel& channel) {
    OwnedEndpoint endpoint(deep());
    std::array<char, kSize> memory = {};
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
    urma_sge_t from = piece(segment, memory.data(), kSize);
    for (uint32_t i = 1; i <= kMessages; ++i) {
      urma_jfs_wr_t request = send_request(queue, &from);
      request.flag.bs.complete_enable = i == kMessages ? 1 : 0;
      endpoint.post(request);
    }
    for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(has_nothing(endpoint.send_jfc));
    // Its service thread goes on.
    channel.send('f');
    channel.sync();
    wait_for_success(endpoint.send_jfc, 0);
  });
  const auto queue = receiver.channel().receive<QueueId>();
  Stranger stranger(queue);
  std::array<std::unique_ptr<Stream>, 5> many;
  for (auto& stream : many) {
    stream = stranger.connect();
    ASSERT_NE(stream, nullptr);
  }
  sender.channel().send(queue);
  receiver.channel().send(sender.channel().receive<char>());
  receiver.channel().sync();
  sender.channel().sync();
  receiver.expect_success();
  sender.expect_success();
}

}  // namespace
}  // namespace urma_test
