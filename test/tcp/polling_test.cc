// SPDX-License-Identifier: MIT
//
// Two processes that poll: what a message leaves behind that was polled but not answered, and the
// connections that they share.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
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

int connections() {
  int found = 0;
  for (int fd = 0; fd < 256; ++fd) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    const bool connected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    const bool network = peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
    found += connected && network ? 1 : 0;
  }
  return found;
}

// Also if both begin at once.
TEST_F(PollingTest, TwoProcessesShareOneConnection) {
  constexpr int kRounds = repetitions(10);
  for (int round = 0; round < kRounds; ++round) {
    const auto body = [](Channel& channel) {
      // Without the processes of other tests.
      ::setenv("URMA_TCP_PORT", "30000-30255", 1);
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
      while (connections() != 1) {
        ASSERT_LT(Clock::now(), deadline) << connections();
        EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
      }
      channel.sync();
    };
    run_two("first", body, "second", body);
  }
}

}  // namespace
}  // namespace urma_test
