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
#include <utility>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "test/tcp/polling_party.h"

namespace urma_test {
namespace {

using PollingTest = ProcessTest;

// A process is killed between the poll of a message and its answer, which the report of the message
// was to go with.
TEST_F(PollingTest, AMessageThatWasPolledIsReportedThoughItsReceiverIsKilled) {
  constexpr int kRounds = repetitions(10);
  constexpr int kMessages = 200;
  for (int round = 0; round < kRounds; ++round) {
    auto [left, right] = Channel::pair();
    Child sender("sender", std::move(left), [](Channel& channel) {
      Party party(channel);
      for (int i = 0; i < kMessages; ++i) party.ask();
      party.send();
      await(party.endpoint.send_jfc);
    });
    Child receiver("receiver", std::move(right), [](Channel& channel) {
      Party party(channel);
      for (int i = 0; i < kMessages; ++i) party.answer();
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

}  // namespace
}  // namespace urma_test
