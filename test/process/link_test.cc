// SPDX-License-Identifier: MIT
//
// The link between two devices goes down and up again under traffic. URMA_TEST_LINK names the
// network device to switch, URMA_DEVICE and URMA_PEER_DEVICE the devices at its two ends.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 4096;
constexpr uint64_t kUnderWay = 8;
constexpr milliseconds kLimit{20000};

class Traffic;

class LinkTest : public ProcessTest {
 protected:
  using Step = std::function<void(Traffic&)>;

  void SetUp() override {
    const char* link = std::getenv("URMA_TEST_LINK");
    if (link == nullptr || std::getenv("URMA_PEER_DEVICE") == nullptr) {
      GTEST_SKIP() << "needs a link to switch: URMA_TEST_LINK, and URMA_PEER_DEVICE behind it";
    }
    link_ = link;
  }
  void interrupt(int rounds, const Step& while_down, const Step& once_up);

 private:
  void switch_link(const char* state) {
    const std::string command = "ip link set " + link_ + " " + state;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  std::string link_;
};

// Receives until told to stop.
void receiver(Channel& channel) {
  std::vector<char> memory(2 * kSize);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  for (uint64_t i = 0; i < 32; ++i) endpoint.post_receive(segment, memory.data(), kSize);
  channel.send(offer_of(endpoint, segment));
  while (!channel.has_message()) {
    urma_cr_t record;
    if (urma_poll_jfc(endpoint.receive_jfc, 1, &record) == 1) {
      endpoint.post_receive(segment, memory.data(), kSize);
    }
    ::sched_yield();
  }
}

// Keeps requests in flight, and reports their status.
class Traffic {
 public:
  explicit Traffic(Channel& channel) {
    const auto offer = channel.receive<Offer>();
    segment_ = endpoint.add(memory_.data(), memory_.size());
    queue_ = endpoint.import(offer.queue);
    remote_ = endpoint.import(offer.segment);
  }

  void fill() {
    for (; outstanding_ < kUnderWay; ++outstanding_) {
      urma_sge_t local = piece(segment_, memory_.data(), kSize);
      urma_sge_t there = piece(remote_, remote_->seg.ubva.va + kSize, kSize);
      switch (posted_++ % 3) {
        case 0:
          endpoint.post(send_request(queue_, &local));
          break;
        case 1:
          endpoint.post(write_request(queue_, &local, &there));
          break;
        default:
          endpoint.post(read_request(queue_, &local, &there));
          break;
      }
    }
  }
  // Ends one request: it survived, or its peer was unreachable.
  bool end_one() {
    const urma_cr_t record = wait_for(endpoint.send_jfc, kLimit);
    --outstanding_;
    EXPECT_TRUE(record.status == URMA_CR_SUCCESS || record.status == URMA_CR_ACK_TIMEOUT_ERR)
        << record.status;
    return record.status == URMA_CR_SUCCESS;
  }
  void end_all() {
    while (outstanding_ != 0) end_one();
  }
  void run(int requests) {
    for (int i = 0; i < requests; ++i) {
      fill();
      EXPECT_TRUE(end_one()) << i;
    }
  }
  // Until the link is known to be up again.
  void recover() {
    const auto deadline = Clock::now() + patience(kLimit);
    do {
      ASSERT_LT(Clock::now(), deadline);
      fill();
    } while (!end_one());
    end_all();
  }

  Endpoint endpoint;

 private:
  std::vector<char> memory_ = std::vector<char>(2 * kSize);
  urma_target_seg_t* segment_;
  urma_target_jetty_t* queue_;
  urma_target_seg_t* remote_;
  uint64_t outstanding_ = 0;
  uint64_t posted_ = 0;
};

// Takes the link down under traffic and up again, repeatedly.
void LinkTest::interrupt(int rounds, const Step& while_down, const Step& once_up) {
  Child other("receiver", receiver);
  Child client("client", [&](Channel& channel) {
    Traffic traffic(channel);
    for (int round = 0; round < rounds; ++round) {
      traffic.run(100);
      channel.sync();  // goes down
      channel.sync();
      while_down(traffic);
      channel.sync();  // comes up
      channel.sync();
      once_up(traffic);
      traffic.run(100);
    }
    channel.sync();
    traffic.endpoint.close();
  });
  client.channel().send(other.channel().receive<Offer>());
  for (int round = 0; round < rounds; ++round) {
    for (const char* state : {"down", "up"}) {
      client.channel().sync();
      switch_link(state);
      client.channel().sync();
    }
  }
  client.channel().sync();
  client.expect_success();
  other.channel().send('e');
  other.expect_success();
}

// Shorter than the timeout of the device: requests in flight may survive, later ones do.
TEST_F(LinkTest, ShortOutage) {
  interrupt(
      3, [](Traffic& traffic) { traffic.fill(); },
      [](Traffic& traffic) {
        traffic.end_all();
        traffic.recover();
      });
}

// Longer than all timeouts: requests in flight, or posted meanwhile, all end.
TEST_F(LinkTest, LongOutage) {
  interrupt(
      2,
      [](Traffic& traffic) {
        for (int i = 0; i < 2; ++i) {
          traffic.fill();
          traffic.end_all();
        }
      },
      [](Traffic& traffic) { traffic.recover(); });
}

}  // namespace
}  // namespace urma_test
