// SPDX-License-Identifier: MIT
//
// How often a process wakes up that waits. Only its service thread counts: sanitizers have others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/service_thread.h"

namespace urma_test {
namespace {

constexpr milliseconds kWindow{1000};
// Of what had not ended when the window began.
constexpr int64_t kAlways = 5;

// How often the service thread has gone to sleep.
int64_t sleeps() { return std::stoll(status_of_service_thread("voluntary_ctxt_switches:")); }

// How often this process wakes up in a window that another process keeps.
int64_t wake_ups_in_window(Channel& channel) {
  channel.sync();
  const int64_t before = sleeps();
  channel.sync();
  return sleeps() - before;
}

void keep_window(Child& sleeper) {
  sleeper.channel().sync();
  for (const auto begin = Clock::now(); Clock::now() - begin < kWindow;) continue;
  sleeper.channel().sync();
}

using WakeUpsTest = ProcessTest;

TEST_F(WakeUpsTest, WithoutConnectionsThereAreNone) {
  Child sleeper("sleeper", [](Channel& channel) {
    OwnedEndpoint endpoint;
    EXPECT_LE(wake_ups_in_window(channel), kAlways);
  });
  keep_window(sleeper);
  sleeper.expect_success();
}

// Receives one message, and those in flight only after the window.
void receive(Channel& channel, uint64_t in_flight) {
  std::vector<char> memory(8);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  endpoint.post_receive(segment, memory.data(), 8);
  channel.send(endpoint.queue_id());
  wait_for_success(endpoint.receive_jfc, 0);
  channel.sync();
  for (uint64_t i = 1; i <= in_flight; ++i) {
    endpoint.post_receive(segment, memory.data(), 8, i);
    wait_for_success(endpoint.receive_jfc, i);
  }
  channel.sync();
}

// Sleeps in the window, connected, with that number of messages in flight.
void sleep_connected(Channel& channel, uint64_t in_flight, int64_t most_wake_ups) {
  constexpr uint8_t kForEver = 7;
  Config config;
  config.events = true;
  config.rnr_retry = kForEver;
  std::vector<char> memory(8);
  OwnedEndpoint endpoint(config);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  urma_sge_t from = piece(segment, memory.data(), 8);
  endpoint.post(send_request(queue, &from, 0));
  wait_for_success(endpoint.send_jfc, 0);
  EXPECT_EQ(urma_rearm_jfc(endpoint.send_jfc, false), URMA_SUCCESS);
  for (uint64_t i = 1; i <= in_flight; ++i) endpoint.post(send_request(queue, &from, i));
  EXPECT_LE(wake_ups_in_window(channel), kAlways + most_wake_ups);
  channel.sync();
  for (uint64_t i = 1; i <= in_flight; ++i) wait_for_success(endpoint.send_jfc, i);
}

void run(uint64_t in_flight, int64_t most_wake_ups) {
  Child receiver("receiver", [=](Channel& channel) { receive(channel, in_flight); });
  Child sender("sender",
               [=](Channel& channel) { sleep_connected(channel, in_flight, most_wake_ups); });
  sender.channel().send(receiver.channel().receive<QueueId>());
  keep_window(sender);
  receiver.channel().sync();
  sender.channel().sync();
  receiver.channel().sync();
  sender.expect_success();
  receiver.expect_success();
}

TEST_F(WakeUpsTest, AConnectionAddsOneASecond) { run(0, kWindow / seconds(1)); }

// Each 16 ms after the first few, and four times per timeout, which is a second.
TEST_F(WakeUpsTest, ASleeperLooksSeldomAfterWhatIsInFlight) {
  run(1, kWindow / milliseconds(16) + 8 + 4 * (kWindow / seconds(1)));
}

}  // namespace
}  // namespace urma_test
