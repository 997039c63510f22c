// SPDX-License-Identifier: MIT
//
// Sleeping on a JFCE until completions arrive, however arming and completions interleave.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "test/verbs/requests.h"

namespace urma::verbs {
namespace {

constexpr int kPatienceMs = 20'000;

class PumpTest : public ::testing::Test {
 protected:
  PumpTest() : channel_(&pair_.fabric.ctx, 1, 0) {
    receive_jfc_ = pair_.fabric.make_jfc(64, &channel_);
    send_jfc_ = pair_.fabric.make_jfc(64, &channel_);
    receive_ =
        std::make_unique<ReceiveEnd>(&pair_.fabric, pair_.fabric.jfr_cfg(receive_jfc_.get()), 2000);
    send_ = std::make_unique<SendEnd>(&pair_.fabric, pair_.fabric.jfs_cfg(send_jfc_.get()));
    target_ = pair_.fabric.import(2000);
  }
  ~PumpTest() override {
    send_.reset();
    pair_.fabric.settle();
    receive_.reset();
  }

  // Later messages are sent there. The sender still has connections to the earlier targets.
  void aim_at(uint32_t id) {
    former_targets_.push_back(std::move(target_));
    target_ = pair_.fabric.import(id);
  }
  void post_receive() {
    urma_sge_t sge = pair_.there->sge(0, 64);
    urma_jfr_wr_t wr = {};
    wr.src = {&sge, 1};
    urma_jfr_wr_t* bad;
    ASSERT_EQ(receive_->receiver->post(&wr, &bad), URMA_SUCCESS);
  }
  void post_send(bool solicited = false) {
    Chain chain(target_.get());
    chain.send(pair_.here->sge(0, 8), 1).flag.bs.solicited_enable = solicited ? 1 : 0;
    urma_jfs_wr_t* bad;
    ASSERT_EQ(send_->sender->post(chain.first(), &bad), URMA_SUCCESS);
    pair_.fabric.settle();
  }
  // The JFC whose event arrives in time, or NULL.
  urma_jfc_t* wait(int timeout_ms) {
    urma_jfc_t* jfc = nullptr;
    const int got = channel_.wait(1, timeout_ms, &jfc);
    if (got != 1) return nullptr;
    static_cast<CompletionQueue*>(jfc)->ack_events(1);
    return jfc;
  }
  bool readable() {
    pollfd fd = {channel_.fd, POLLIN, 0};
    return ::poll(&fd, 1, kPatienceMs) == 1;
  }
  int drain(TestJfc* jfc) {
    urma_cr_t records[16];
    int all = 0;
    while (const int got = jfc->poll(16, records)) all += got;
    return all;
  }
  void make_connection() {
    post_receive();
    post_send();
    pair_.fabric.poll(send_jfc_.get(), 1);
    pair_.fabric.poll(receive_jfc_.get(), 1);
  }

  Pair pair_;
  EventChannel channel_;
  std::unique_ptr<TestJfc> receive_jfc_;
  std::unique_ptr<TestJfc> send_jfc_;
  std::unique_ptr<ReceiveEnd> receive_;
  std::unique_ptr<SendEnd> send_;
  std::vector<std::unique_ptr<RemoteQueue>> former_targets_;
  std::unique_ptr<RemoteQueue> target_;
};

TEST_F(PumpTest, ReceiveWakesTheProgram) {
  make_connection();
  post_receive();
  receive_jfc_->arm(false);
  EXPECT_EQ(wait(0), nullptr);
  post_send();
  EXPECT_TRUE(readable());
  EXPECT_EQ(wait(kPatienceMs), receive_jfc_.get());
  EXPECT_EQ(drain(receive_jfc_.get()), 1);
  // Once per arming.
  EXPECT_EQ(wait(0), nullptr);
}

TEST_F(PumpTest, SendCompletionWakesTheProgram) {
  NEEDS_FAKE();
  make_connection();
  post_receive();
  pair_.fabric.fake->stall_all();
  post_send();
  send_jfc_->arm(false);
  EXPECT_EQ(wait(0), nullptr);
  pair_.fabric.fake->resume_all();
  EXPECT_EQ(wait(kPatienceMs), send_jfc_.get());
  EXPECT_EQ(drain(send_jfc_.get()), 1);
}

TEST_F(PumpTest, PostAfterArmingWakesTheProgram) {
  NEEDS_FAKE();
  make_connection();
  post_receive();
  // The queue is empty when the JFC is armed.
  send_jfc_->arm(false);
  pair_.fabric.fake->stall_all();
  post_send();
  pair_.fabric.fake->resume_all();
  EXPECT_EQ(wait(kPatienceMs), send_jfc_.get());
}

// The post arms it, and the request is done before that is complete.
TEST_F(PumpTest, PostThatCompletesAtOnceWakesTheProgram) {
  NEEDS_FAKE();
  make_connection();
  for (int i = 0; i < 3; ++i) {
    send_jfc_->arm(false);
    post_receive();
    post_send();
    EXPECT_EQ(wait(kPatienceMs), send_jfc_.get());
    EXPECT_EQ(drain(send_jfc_.get()), 1);
  }
}

std::function<void()> before_arming;
int (*arm_device)(ibv_cq*, int);
int arm_late(ibv_cq* cq, int solicited_only) {
  if (before_arming) std::exchange(before_arming, {})();
  return arm_device(cq, solicited_only);
}

// Of two JFCEs, one reads the event for both. The poll of the other one arms the device again, and
// must find what arrives meanwhile.
TEST_F(PumpTest, CompletionWhileAPollArmsIsNotLost) {
  NEEDS_FAKE();
  EventChannel other_channel(&pair_.fabric.ctx, 2, 0);
  auto other_jfc = pair_.fabric.make_jfc(64, &other_channel);
  make_connection();
  receive_jfc_->arm(false);
  post_receive();
  post_send();
  EXPECT_EQ(wait(kPatienceMs), receive_jfc_.get());
  EXPECT_EQ(drain(receive_jfc_.get()), 1);
  {
    Attachment attachment(other_jfc.get(), receive_->receiver.get());
    Endpoint other = pair_.fabric.connector.endpoints[2000];
    other.jfc = other_jfc.get();
    pair_.fabric.connector.endpoints[2001] = other;
    aim_at(2001);
    for (int i = 0; i < 3; ++i) post_receive();
    post_send();
    drain(send_jfc_.get());
    EXPECT_EQ(drain(other_jfc.get()), 1);
    other_jfc->arm(true);
    post_send(/*solicited=*/true);
    EXPECT_EQ(wait(0), nullptr);
    Api& verbs = pair_.fabric.fake->table();
    arm_device = std::exchange(verbs.req_notify_cq, arm_late);
    before_arming = [this] { post_send(/*solicited=*/true); };
    urma_cr_t records[16];
    EXPECT_EQ(other_jfc->poll(16, records), 2);
    verbs.req_notify_cq = arm_device;
    pair_.fabric.connector.endpoints.erase(2001);
    receive_->receiver->close_ways(reinterpret_cast<uint64_t>(&receive_->object));
    drain(send_jfc_.get());
    pair_.fabric.settle();
  }
}

TEST_F(PumpTest, CompletionBeforeArmingIsReportedAtOnce) {
  make_connection();
  post_receive();
  post_send();
  receive_jfc_->arm(false);
  EXPECT_EQ(wait(kPatienceMs), receive_jfc_.get());
  EXPECT_EQ(drain(receive_jfc_.get()), 1);
}

// Each of these calls is a system call.
TEST_F(PumpTest, WaitingForAMessageTakesOneCallOfEachKind) {
  NEEDS_FAKE();
  make_connection();
  receive_jfc_->arm(false);
  post_receive();
  post_send();
  EXPECT_EQ(wait(kPatienceMs), receive_jfc_.get());
  EXPECT_EQ(drain(receive_jfc_.get()), 1);
  const auto& fake = pair_.fabric.fake;
  const uint64_t asked = fake->calls("req_notify_cq"), taken = fake->calls("get_cq_event");
  for (uint64_t i = 1; i <= 40; ++i) {
    receive_jfc_->arm(false);
    post_receive();
    post_send();
    ASSERT_EQ(wait(kPatienceMs), receive_jfc_.get());
    ASSERT_EQ(drain(receive_jfc_.get()), 1);
    drain(send_jfc_.get());
    ASSERT_EQ(fake->calls("req_notify_cq") - asked, i);
    ASSERT_EQ(fake->calls("get_cq_event") - taken, i);
  }
}

// A completion polled before anyone sleeps leaves its event behind, one more than is waited for.
TEST_F(PumpTest, LeftoverEventsHideNoNewOnes) {
  make_connection();
  for (int i = 0; i < 100; ++i) {
    receive_jfc_->arm(false);
    post_receive();
    post_send();
    pair_.fabric.poll(receive_jfc_.get(), 1);
    drain(send_jfc_.get());
    receive_jfc_->arm(false);
    send_jfc_->arm(false);
    post_receive();
    post_send();
    bool received = false, sent = false;
    while (!received || !sent) {
      const urma_jfc_t* woken = wait(kPatienceMs);
      ASSERT_NE(woken, nullptr) << i;
      (woken == receive_jfc_.get() ? received : sent) = true;
    }
    drain(receive_jfc_.get());
    drain(send_jfc_.get());
  }
}

TEST_F(PumpTest, CompletionWithoutRecordLeavesItArmed) {
  NEEDS_FAKE();
  make_connection();
  Chain first(target_.get());
  first.write(pair_.here->sge(0, 8), pair_.there->remote_sge(0, 8), 1);
  urma_jfs_wr_t* refused;
  ASSERT_EQ(send_->sender->post(first.first(), &refused), URMA_SUCCESS);
  pair_.fabric.poll(send_jfc_.get(), 1);
  send_jfc_->arm(false);
  // The device completes some of these for the library itself.
  for (int i = 0; i < 40; ++i) {
    Chain chain(target_.get());
    chain.write(pair_.here->sge(0, 8), pair_.there->remote_sge(0, 8), 1, /*signalled=*/false);
    urma_jfs_wr_t* bad;
    ASSERT_EQ(send_->sender->post(chain.first(), &bad), URMA_SUCCESS);
  }
  EXPECT_EQ(wait(0), nullptr);
  post_receive();
  pair_.fabric.fake->stall_all();
  post_send();
  EXPECT_EQ(wait(0), nullptr);
  pair_.fabric.fake->resume_all();
  EXPECT_EQ(wait(kPatienceMs), send_jfc_.get());
}

TEST_F(PumpTest, RecordBehindAnUnsignalledRequestWakesTheProgram) {
  NEEDS_FAKE();
  make_connection();
  ReceiveEnd other(&pair_.fabric, pair_.fabric.jfr_cfg(receive_jfc_.get()), 3000);
  aim_at(3000);
  Chain chain(target_.get());
  chain.write(pair_.here->sge(0, 8), pair_.there->remote_sge(0, 8), 1);
  urma_jfs_wr_t* bad;
  ASSERT_EQ(send_->sender->post(chain.first(), &bad), URMA_SUCCESS);
  pair_.fabric.poll(send_jfc_.get(), 1);
  pair_.fabric.fake->stall_all();
  Chain unsignalled(former_targets_.back().get());
  unsignalled.write(pair_.here->sge(0, 8), pair_.there->remote_sge(0, 8), 2, /*signalled=*/false);
  ASSERT_EQ(send_->sender->post(unsignalled.first(), &bad), URMA_SUCCESS);
  ASSERT_EQ(send_->sender->post(chain.first(), &bad), URMA_SUCCESS);
  send_jfc_->arm(false);
  EXPECT_EQ(wait(0), nullptr);
  pair_.fabric.fake->resume_all();
  EXPECT_EQ(wait(kPatienceMs), send_jfc_.get());
  EXPECT_EQ(drain(send_jfc_.get()), 1);
  send_.reset();
  pair_.fabric.settle();
}

TEST_F(PumpTest, OnlySolicitedMessagesWakeIfAskedFor) {
  make_connection();
  post_receive();
  post_receive();
  receive_jfc_->arm(true);
  post_send(/*solicited=*/false);
  EXPECT_EQ(wait(0), nullptr);
  post_send(/*solicited=*/true);
  EXPECT_EQ(wait(kPatienceMs), receive_jfc_.get());
  EXPECT_EQ(drain(receive_jfc_.get()), 2);
}

TEST_F(PumpTest, ModerationCountsEachCompletionOnce) {
  make_connection();
  urma_jfc_attr_t attr = {JFC_MODERATE_COUNT, /*moderate_count=*/4, /*moderate_period=*/0};
  ASSERT_EQ(receive_jfc_->modify(&attr), URMA_SUCCESS);
  for (const bool solicited : {false, true}) {
    for (int i = 0; i < 4; ++i) post_receive();
    receive_jfc_->arm(solicited);
    for (int i = 0; i < 4; ++i) {
      // Each one raises an event, and is taken before the next one comes.
      EXPECT_EQ(wait(0), nullptr) << i;
      post_send(solicited);
      EXPECT_TRUE(readable());
    }
    EXPECT_EQ(wait(kPatienceMs), receive_jfc_.get());
    EXPECT_EQ(drain(receive_jfc_.get()), 4);
    pair_.fabric.poll(send_jfc_.get(), 4);
  }
}

// Only the device knows which message was solicited, and another thread may take it.
TEST_F(PumpTest, SolicitedMessagePolledByAnotherJfcWakes) {
  auto other_jfc = pair_.fabric.make_jfc(64, &channel_);
  {
    Attachment attachment(other_jfc.get(), receive_->receiver.get());
    Endpoint other = pair_.fabric.connector.endpoints[2000];
    other.jfc = other_jfc.get();
    pair_.fabric.connector.endpoints[2001] = other;
    aim_at(2001);
    for (int i = 0; i < 3; ++i) post_receive();
    post_send();
    pair_.fabric.poll(send_jfc_.get(), 1);
    EXPECT_EQ(drain(other_jfc.get()), 1);
    other_jfc->arm(true);
    EXPECT_EQ(wait(0), nullptr);
    post_send(/*solicited=*/false);
    EXPECT_EQ(drain(receive_jfc_.get()), 0);
    EXPECT_EQ(wait(0), nullptr);
    post_send(/*solicited=*/true);
    EXPECT_EQ(drain(receive_jfc_.get()), 0);
    EXPECT_EQ(wait(kPatienceMs), other_jfc.get());
    EXPECT_EQ(drain(other_jfc.get()), 2);
    pair_.fabric.connector.endpoints.erase(2001);
    receive_->receiver->close_ways(reinterpret_cast<uint64_t>(&receive_->object));
    drain(send_jfc_.get());
    pair_.fabric.settle();
  }
}

TEST_F(PumpTest, ProgramThatPollsItselfIsStillWoken) {
  make_connection();
  for (int i = 0; i < 4; ++i) {
    post_receive();
    receive_jfc_->arm(false);
    post_send();
    // Its own polls take the record, and never read the event: from the second round on, the event
    // may precede the message.
    EXPECT_TRUE(readable());
    pair_.fabric.poll(receive_jfc_.get(), 1);
    pair_.fabric.poll(send_jfc_.get(), 1);
  }
  while (wait(0) != nullptr) {
  }
  post_receive();
  receive_jfc_->arm(false);
  post_send();
  EXPECT_EQ(wait(kPatienceMs), receive_jfc_.get());
}

// One thread arms and sleeps, the other one sends: no wakeup may be lost, whenever it comes.
TEST_F(PumpTest, ArmingRacesWithCompletions) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr uint64_t kInSoftware = 20'000;
#else
  constexpr uint64_t kInSoftware = 200'000;
#endif
  // If the two threads share a processor with the device, each message takes milliseconds.
  const uint64_t messages = real_device() == nullptr ? kInSoftware : 1'000;
  make_connection();
  std::atomic<uint64_t> received{0};
  std::atomic<bool> ended{false};
  for (int i = 0; i < 8; ++i) post_receive();
  std::thread sender([&] {
    Chain chain(target_.get());
    chain.send(pair_.here->sge(0, 8), 1);
    for (uint64_t sent = 0; sent < messages && !ended.load();) {
      urma_cr_t record;
      send_jfc_->poll(1, &record);
      // Mostly one at a time, so that the receiver sleeps before each.
      if (sent - received.load(std::memory_order_acquire) >= 1 + sent % 3) {
        std::this_thread::yield();
        continue;
      }
      urma_jfs_wr_t* bad;
      if (send_->sender->post(chain.first(), &bad) == URMA_SUCCESS) ++sent;
    }
  });
  uint64_t lost = 0;
  uint64_t got = 0;
  while (got < messages && lost == 0) {
    receive_jfc_->arm(false);
    if (got % 2 == 0) {
      urma_cr_t record;
      while (receive_jfc_->poll(1, &record) == 1) {
        ++got;
        post_receive();
        received.store(got, std::memory_order_release);
      }
    }
    if (got == messages) break;
    if (wait(kPatienceMs) == nullptr) ++lost;
    urma_cr_t record;
    while (receive_jfc_->poll(1, &record) == 1) {
      ++got;
      post_receive();
      received.store(got, std::memory_order_release);
    }
  }
  EXPECT_EQ(lost, 0U) << "asleep with " << got << " received";
  EXPECT_EQ(got, messages);
  ended.store(true);
  sender.join();
  drain(send_jfc_.get());
}

}  // namespace
}  // namespace urma::verbs
