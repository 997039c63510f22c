// SPDX-License-Identifier: MIT
//
// Queues that go to ERROR while peers open ways to them.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "test/process/soak.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

using ClosingTest = ProcessTest;

void set_state(urma_jetty_t* jetty, urma_jetty_state_t state) {
  urma_jetty_attr_t attr = {};
  attr.mask = JETTY_STATE;
  attr.state = state;
  ASSERT_EQ(urma_modify_jetty(jetty, &attr), URMA_SUCCESS);
}

// Its jetty goes to ERROR and back all the time, while another thread takes what peers send.
void fickle(Channel& channel) {
  OwnedEndpoint endpoint;
  channel.send(endpoint.queue_id());
  std::atomic<bool> ends = false;
  std::thread polls([&] {
    while (!ends) EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
  });
  while (!channel.has_message()) {
    begin_round();
    set_state(endpoint.jetty, URMA_JETTY_STATE_ERROR);
    set_state(endpoint.jetty, URMA_JETTY_STATE_READY);
    ::sched_yield();
  }
  ends = true;
  polls.join();
  channel.receive<char>();
}

// Opens ways, and closes those that the other end has closed.
class Opener {
 public:
  explicit Opener(Stranger& stranger) : stranger_(stranger), stream_(stranger.connect()) {}

  void open(uint32_t ways) {
    std::string all;
    for (uint32_t i = 0; i < ways; ++i) {
      all += frame(way_to(stranger_.victim(), ++last_));
      // They keep the connection busy while the way opens.
      for (int ping = 0; ping < 100; ++ping) all += frame(PingBody{});
    }
    send_all(*stream_, all);
    answered_ += ways;
  }
  // Until all have been refused, or opened and closed.
  void await_ends() {
    while ((answered_ != 0 || !open_.empty()) && !testing::Test::HasFailure()) take_frame();
  }

 private:
  void take_frame() {
    Head head = {};
    const std::string bytes = receive(*stream_, sizeof(head));
    ASSERT_EQ(bytes.size(), sizeof(head));
    std::memcpy(&head, bytes.data(), sizeof(head));
    const std::string body = receive(*stream_, head.bytes);
    if (head.kind == FrameKind::kWayOpened) {
      WayOpenedBody opened;
      std::memcpy(&opened, body.data(), sizeof(opened));
      --answered_;
      if (opened.answer == 0) open_.insert(opened.way);
      return;
    }
    if (head.kind == FrameKind::kPong) return;
    ASSERT_EQ(head.kind, FrameKind::kWayClosed);
    WayClosedBody closed;
    std::memcpy(&closed, body.data(), sizeof(closed));
    ASSERT_EQ(open_.erase(closed.way), 1U) << "way " << closed.way << " is closed twice";
    send_all(*stream_, frame(CloseWayBody{closed.way}));
  }

  Stranger& stranger_;
  const std::unique_ptr<Stream> stream_;
  uint32_t last_ = 0;
  uint32_t answered_ = 0;  // to come
  std::set<uint32_t> open_;
};

// A second time would break the rules, and end the connection of all queues.
TEST_F(ClosingTest, AWayThatClosesWhileItOpensIsClosedOnce) {
  constexpr uint32_t kAtOnce = 16;
  constexpr uint64_t kRounds = repetitions(300);
  Child target("fickle", fickle);
  {
    Stranger stranger(target.channel().receive<QueueId>());
    Opener opener(stranger);
    for (uint64_t round = 0; round < kRounds && !HasFailure(); ++round) {
      opener.open(kAtOnce);
      opener.await_ends();
    }
  }
  target.channel().send('e');
  target.expect_success();
}

}  // namespace
}  // namespace urma_test
