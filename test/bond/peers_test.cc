// SPDX-License-Identifier: MIT
//
// Peers of the bonded device that start late, end, and start again elsewhere: the way to a peer is
// chosen anew once it has been lost.
#include <poll.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/inspect_reader.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uint32_t kId = 17;      // of the owner
constexpr uint32_t kUserId = 18;  // in mode RC

Config owner_config(urma_transport_mode_t mode = URMA_TM_RM) {
  Config config;
  config.mode = mode;
  config.id = kId;
  return config;
}

// Has the id and receives one message; then waits to be killed, or for the channel.
std::unique_ptr<Child> start_owner(const std::string& directory,
                                   urma_transport_mode_t mode = URMA_TM_RM) {
  auto child = std::make_unique<Child>("owner", [=](Channel& channel) {
    live_in(directory);
    std::array<char, 64> memory = {};
    Endpoint endpoint(owner_config(mode));
    const Closing closing(endpoint);
    if (mode == URMA_TM_RC)
      endpoint.bind(endpoint.import(QueueId{endpoint.ctx->eid, kUserId, kNoToken, true}));
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    endpoint.post_receive(segment, memory.data(), memory.size());
    channel.send(offer_of(endpoint, segment));
    EXPECT_EQ(wait_for(endpoint.receive_jfc).status, URMA_CR_SUCCESS);
    channel.sync();
    channel.sync();
  });
  return child;
}

// A process that sends to the one that has the id, in the directory "one".
class User {
 public:
  explicit User(urma_transport_mode_t mode = URMA_TM_RM) {
    live_in("one");
    Config config;
    config.mode = mode;
    if (mode == URMA_TM_RC) config.id = kUserId;
    endpoint_ = std::make_unique<Endpoint>(config);
    segment_ = endpoint_->add(memory_.data(), memory_.size());
    queue_ = endpoint_->import(QueueId{endpoint_->ctx->eid, kId, kNoToken, true});
    if (mode == URMA_TM_RC) endpoint_->bind(queue_);
  }
  ~User() {
    if (endpoint_->wants_closing()) endpoint_->close();
  }

  // In one call.
  template <size_t kCount>
  void post_list() {
    sge_ = piece(segment_, memory_.data(), 8);
    std::array<urma_jfs_wr_t, kCount> list;
    list.fill(send_request(queue_, &sge_));
    for (size_t i = 0; i + 1 < kCount; ++i) list[i].next = &list[i + 1];
    endpoint_->post(list[0]);
  }
  void post(std::vector<char>* memory) {
    sge_ = piece(endpoint_->add(memory->data(), memory->size()), memory->data(), memory->size());
    endpoint_->post(send_request(queue_, &sge_));
  }
  void post() {
    sge_ = piece(segment_, memory_.data(), 8);
    endpoint_->post(send_request(queue_, &sge_));
  }
  urma_cr_status_t wait() { return wait_for(endpoint_->send_jfc).status; }
  template <size_t kMost>
  int poll(std::array<urma_cr_t, kMost>* records) {
    return urma_poll_jfc(endpoint_->send_jfc, static_cast<int>(kMost), records->data());
  }
  urma_cr_status_t send() {
    post();
    return wait();
  }
  // Until it has arrived: nobody tells when the network knows that a peer has gone.
  void send_until_received() {
    const auto deadline = Clock::now() + patience(seconds(15));
    while (send() != URMA_CR_SUCCESS) ASSERT_LT(Clock::now(), deadline);
  }
  void expect_peer_lost() {
    const milliseconds wait = patience(seconds(15));
    pollfd waited = {endpoint_->ctx->async_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&waited, 1, static_cast<int>(wait.count())), 1);
    urma_async_event_t event = {};
    ASSERT_EQ(urma_get_async_event(endpoint_->ctx, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_JETTY_ERR);
    EXPECT_EQ(event.element.jetty, endpoint_->jetty);
    urma_ack_async_event(&event);
  }
  // With kWindow requests outstanding all the time, until one ends so. The memory is that of the
  // last offer.
  void write_until(const std::optional<Offer>& offer, urma_cr_status_t status) {
    if (offer.has_value()) {
      remote_ = endpoint_->import(offer->segment);
      there_ = piece(remote_, offer->segment.va, 8);
    }
    const auto deadline = Clock::now() + patience(seconds(15));
    urma_cr_status_t last;
    do {
      for (; outstanding_ < kWindow; ++outstanding_) post_write();
      last = wait();
      --outstanding_;
      ASSERT_LT(Clock::now(), deadline) << "the last one ended with " << last;
    } while (last != status);
  }
  // Of a WRITE to what an owner has offered.
  urma_cr_status_t write(const Offer& offer) {
    if (remote_ == nullptr) remote_ = endpoint_->import(offer.segment);
    there_ = piece(remote_, offer.segment.va, 8);
    post_write();
    return wait();
  }

 private:
  static constexpr uint32_t kWindow = 8;

  void post_write() {
    sge_ = piece(segment_, memory_.data(), 8);
    endpoint_->post(write_request(queue_, &sge_, &there_));
  }

  std::array<char, 64> memory_ = {};
  uint32_t outstanding_ = 0;
  std::unique_ptr<Endpoint> endpoint_;
  urma_target_seg_t* segment_;
  urma_target_jetty_t* queue_;
  urma_target_seg_t* remote_ = nullptr;
  urma_sge_t sge_;
  urma_sge_t there_;
};

void finish(Child* owner) {
  owner->channel().sync();
  owner->channel().sync();
  owner->expect_success();
}

struct PeersTest : ProcessTest {
  // The user tries before there is an owner, and again when there is one.
  static void start_late(const std::string& directory, uint32_t streams) {
    Child user("user", [=](Channel& channel) {
      User here;
      EXPECT_EQ(here.send(), URMA_CR_ACK_TIMEOUT_ERR);
      channel.sync();
      const auto offer = channel.receive<Offer>();
      here.send_until_received();
      EXPECT_EQ(here.write(offer), URMA_CR_SUCCESS);
      EXPECT_EQ(streams_begun(), streams);
      channel.sync();
    });
    user.channel().sync();
    const std::unique_ptr<Child> owner = start_owner(directory);
    user.channel().send(owner->channel().receive<Offer>());
    owner->channel().sync();
    user.channel().sync();
    user.expect_success();
    owner->channel().sync();
    owner->expect_success();
  }

  // A jetty in mode RC whose peer starts after the bind, and is killed: it learns of the loss.
  static void lose_late(const std::string& directory) {
    Child user("user", [=](Channel& channel) {
      User here(URMA_TM_RC);
      channel.sync();
      channel.receive<Offer>();
      here.send_until_received();
      channel.sync();
      here.expect_peer_lost();
    });
    user.channel().sync();
    const std::unique_ptr<Child> owner = start_owner(directory, URMA_TM_RC);
    user.channel().send(owner->channel().receive<Offer>());
    owner->channel().sync();
    user.channel().sync();
    owner->kill();
    user.expect_success();
  }

  // The owner of memory is killed, and starts again elsewhere, while a program writes there that
  // always has several requests outstanding.
  static void move_memory(const std::string& first, const std::string& then) {
    std::unique_ptr<Child> owner = start_owner(first);
    Child user("user", [](Channel& channel) {
      User here;
      here.write_until(channel.receive<Offer>(), URMA_CR_SUCCESS);
      channel.sync();
      here.write_until(std::nullopt, URMA_CR_ACK_TIMEOUT_ERR);
      channel.sync();
      here.write_until(channel.receive<Offer>(), URMA_CR_SUCCESS);
      channel.sync();
    });
    user.channel().send(owner->channel().receive<Offer>());
    user.channel().sync();
    owner->kill();
    user.channel().sync();
    owner = start_owner(then);
    user.channel().send(owner->channel().receive<Offer>());
    user.channel().sync();
    user.expect_success();
    owner->kill();
  }

  // The owner is killed while a message waits for a receive, and starts again.
  static void start_again(const std::string& first, const std::string& then) {
    std::unique_ptr<Child> owner = start_owner(first);
    owner->channel().receive<Offer>();
    Child user("user", [=](Channel& channel) {
      User here;
      EXPECT_EQ(here.send(), URMA_CR_SUCCESS);
      here.post();
      channel.sync();
      EXPECT_EQ(here.wait(), URMA_CR_ACK_TIMEOUT_ERR);
      channel.sync();
      channel.sync();
      here.send_until_received();
      channel.sync();
    });
    owner->channel().sync();
    user.channel().sync();
    owner->kill();
    user.channel().sync();
    owner = start_owner(then);
    owner->channel().receive<Offer>();
    user.channel().sync();
    user.channel().sync();
    user.expect_success();
    finish(owner.get());
  }
};

// A process of this directory has the id there for another device, and the bonded device as well.
TEST_F(PeersTest, AnIdOfAnotherDeviceIsNotThatOfThePeer) {
  Child stranger("stranger", [](Channel& channel) {
    live_in("one");
    ::setenv("URMA_DEVICE_ALIAS", "bonding_dev_1=urma_shm0", 1);
    ::setenv("URMA_DEVICE", "bonding_dev_1", 1);
    Endpoint endpoint(owner_config());
    const Closing closing(endpoint);
    char name[] = "bonding_dev_0";
    urma_device_t* device = urma_get_device_by_name(name);
    ASSERT_NE(device, nullptr);
    urma_context_t* bonded = urma_create_context(device, 0);
    ASSERT_NE(bonded, nullptr);
    channel.sync();
    channel.sync();
    EXPECT_EQ(urma_delete_context(bonded), URMA_SUCCESS);
  });
  stranger.channel().sync();
  const std::unique_ptr<Child> owner = start_owner("other");
  owner->channel().receive<Offer>();
  Child user("user", [](Channel&) {
    User here;
    EXPECT_EQ(here.send(), URMA_CR_SUCCESS);
    EXPECT_EQ(streams_begun(), 1U);
  });
  user.expect_success();
  finish(owner.get());
  stranger.channel().sync();
  stranger.expect_success();
}

// Also where others have to be asked for the id each time: else a program that posts a request for
// each one that ends would never take another way.
TEST_F(PeersTest, RequestsThatWaitForALostPeerEndTogether) {
  Child stranger("stranger", [](Channel& channel) {
    live_in("other");
    OwnedEndpoint endpoint;
    channel.sync();
    channel.sync();
  });
  stranger.channel().sync();
  Child user("user", [](Channel&) {
    User here;
    constexpr int kRequests = 8;
    std::array<urma_cr_t, kRequests> others;
    // On a busy machine the first may have ended before the others were posted.
    bool together = false;
    for (int i = 0; i < 20 && !together; ++i) {
      here.post_list<kRequests>();
      EXPECT_EQ(here.wait(), URMA_CR_ACK_TIMEOUT_ERR);
      int left = kRequests - 1;
      left -= here.poll(&others);
      together = left == 0;
      for (; left > 0; --left) EXPECT_EQ(here.wait(), URMA_CR_ACK_TIMEOUT_ERR);
    }
    EXPECT_TRUE(together);
  });
  user.expect_success();
  stranger.channel().sync();
  stranger.expect_success();
}

// It waits for a receive when the peer is killed, and another request waits behind it.
TEST_F(PeersTest, ALargeMessageToAFarPeerThatIsKilledEnds) {
  const std::unique_ptr<Child> owner = start_owner("other");
  owner->channel().receive<Offer>();
  Child user("user", [](Channel& channel) {
    std::vector<char> memory(4 << 20);
    User here;
    EXPECT_EQ(here.send(), URMA_CR_SUCCESS);
    here.post(&memory);
    here.post();
    channel.sync();
    EXPECT_EQ(here.wait(), URMA_CR_ACK_TIMEOUT_ERR);
    EXPECT_EQ(here.wait(), URMA_CR_ACK_TIMEOUT_ERR);
  });
  owner->channel().sync();
  user.channel().sync();
  owner->kill();
  user.expect_success();
}

TEST_F(PeersTest, ANearPeerMayStartLate) { start_late("one", 0); }

TEST_F(PeersTest, AFarPeerMayStartLate) { start_late("other", 1); }

TEST_F(PeersTest, NearMemoryMayMoveElsewhere) { move_memory("one", "other"); }

TEST_F(PeersTest, FarMemoryMayMoveHere) { move_memory("other", "one"); }

TEST_F(PeersTest, TheLossOfANearPeerThatStartedLateIsReported) { lose_late("one"); }

TEST_F(PeersTest, TheLossOfAFarPeerThatStartedLateIsReported) { lose_late("other"); }

TEST_F(PeersTest, ANearPeerMayStartAgain) { start_again("one", "one"); }

TEST_F(PeersTest, AFarPeerMayStartAgain) { start_again("other", "other"); }

TEST_F(PeersTest, ANearPeerMayStartAgainElsewhere) { start_again("one", "other"); }

TEST_F(PeersTest, AFarPeerMayStartAgainHere) { start_again("other", "one"); }

}  // namespace
}  // namespace urma_test
