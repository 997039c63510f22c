// SPDX-License-Identifier: MIT
//
// Races of arming against sending, repeated: a thread that arms either finds what was sent or is
// woken.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

// This many rounds take two free processors seconds; fewer are run when the threads share one and
// hardly race.
constexpr uint64_t kRounds = 1'000'000;
constexpr seconds kLimit{6};

// Both threads reach their step of a round at about the same time, in every order.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  void pause() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t spins = state_ >> 59; spins != 0; --spins) std::atomic_signal_fence(kOrder);
  }

 private:
  static constexpr auto kOrder = std::memory_order_seq_cst;
  uint64_t state_;
};

void spin_until(const std::atomic<uint64_t>& counter, uint64_t value) {
  // Yields if the other thread does not run.
  for (int spins = 0; counter.load(std::memory_order_acquire) < value; ++spins) {
    if (spins > 10'000) std::this_thread::yield();
  }
}

// The two halves of the protocol alone: a message and a bell.
class BellRace {
 public:
  explicit BellRace(bool peer_has_barrier)
      : bell_(table_.bell(7)),
        region_(std::make_shared<PeerRegion>(Fd(::fcntl(table_.words_fd(), F_DUPFD_CLOEXEC, 0)),
                                             peer_has_barrier)) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_.reset(ends[0]);
    remote_ = RemoteBell(region_, 7, std::make_shared<Doorbell>(Fd(ends[1])));
  }

  // The sender runs freely; this side arms whenever it has taken everything.
  void run() {
    std::thread sender([this] { send_all(); });
    Dice dice(1);
    uint64_t taken = 0, found = 0, woken = 0;
    const auto end = Clock::now() + kLimit;
    for (uint64_t round = 0; round < kRounds && !HasFailure(); ++round) {
      if (round % 256 == 0 && Clock::now() > end) break;
      // Every send taken so far has checked the bell, so a ring from here on is new.
      spin_until(sent_, taken);
      while (rung()) {
      }
      dice.pause();
      bell_.armed.store(Armed::kForAny, std::memory_order_relaxed);
      heavy_barrier(/*fenced=*/false);
      Message message;
      if (consumer_.peek(&message) == Peek::kMessage) {
        ++found;
      } else {
        spin_until(sent_, taken + 1);
        EXPECT_TRUE(rung()) << "round " << round
                            << ": the message was neither polled nor did it wake";
        ++woken;
      }
      bell_.armed.store(Armed::kNo, std::memory_order_relaxed);
      for (; consumer_.peek(&message) == Peek::kMessage; ++taken) {
        consumer_.consume(message, URMA_CR_SUCCESS);
      }
    }
    over_ = true;
    sender.join();
    // A race that always ends the same way tested nothing; the outcome depends on the machine.
    std::printf("armed %lu times: found %lu, woken %lu\n", found + woken, found, woken);
  }

 private:
  static bool HasFailure() { return testing::Test::HasFailure(); }
  bool rung() {
    char bytes[64];
    return ::recv(here_.get(), bytes, sizeof(bytes), MSG_DONTWAIT) > 0;
  }
  void send_all() {
    Dice dice(2);
    for (uint64_t sent = 0; !over_;) {
      uint32_t cookie;
      uint8_t status;
      while (producer_.reap(&cookie, &status)) {
      }
      if (!producer_.room_for(0)) {
        std::this_thread::yield();
        continue;
      }
      dice.pause();
      producer_.begin(0);
      producer_.publish(MessageKind::kSend, kWantsAnswer, 0, 0, 0);
      remote_.ring(false);
      sent_.store(++sent, std::memory_order_release);
    }
  }

  SegmentTable table_;
  Bell& bell_;
  const std::shared_ptr<PeerRegion> region_;
  RemoteBell remote_;
  Fd here_;
  RingProducer producer_{kMinRingBytes};
  RingConsumer consumer_{producer_};
  std::atomic<uint64_t> sent_{0};
  std::atomic<bool> over_{false};
};

TEST(EventRaceTest, NoWakeUpIsLostWithTheKernelsBarrier) {
  if (!enter_process_barrier()) GTEST_SKIP() << "the kernel refuses membarrier";
  BellRace(true).run();
}

TEST(EventRaceTest, NoWakeUpIsLostWithFences) {
  internal::process_barrier = false;
  BellRace(false).run();
  internal::process_barrier = enter_process_barrier();
}

using TransportRaceTest = urma_test::ProcessTest;

// Arming also consumes wakeups that peers have sent for other JFCs of the same JFCE.
TEST_F(TransportRaceTest, ArmingOneJfcLosesNoWakeUpOfAnother) {
  Node owner, sender;
  std::vector<char> memory(4096);
  urma_jfce_t* jfce = owner.make_jfce();
  urma_jfc_t* other = owner.make_jfc(false, jfce);
  urma_jfc_t* jfc = owner.make_jfc(false, jfce);
  urma_jfr_t* jfr = owner.make_jfr(jfc);
  urma_target_seg_t* into = owner.add(memory.data(), 2048);
  urma_jfc_t* send_jfc = sender.make_jfc();
  urma_jfs_t* jfs = sender.make_jfs(send_jfc, 64);
  const urma_sge_t from = piece(sender.add(memory.data() + 2048, 2048), memory.data() + 2048, 8);
  urma_target_jetty_t* queue = sender.import(jfr->jfr_id);
  for (uint64_t round = 0; round < 200; ++round) {
    owner.receive(jfr, {piece(into, memory.data(), 64)}, round);
    owner.arm(jfc);
    EXPECT_EQ(sender.send(jfs, queue, from, round), URMA_SUCCESS);
    if (round != 0) {
      for (int i = 0; i < 65; ++i) owner.arm(other);
    }
    ASSERT_EQ(owner.wait(jfce, patience(seconds(10))), jfc) << round;
    std::vector<urma_cr_t> records;
    while (records.empty()) owner.poll(jfc, &records);
    records.clear();
    while (records.empty()) sender.poll(send_jfc, &records);
  }
}

// The same with everything around it: two transports, and the calls of programs.
TEST_F(TransportRaceTest, NoSendIsLostWhileItsReceiverArms) {
  std::atomic<uint64_t> last{kRounds / 10};
  Node owner, sender;
  std::vector<char> memory(4096);
  urma_jfce_t* jfce = owner.make_jfce();
  urma_jfc_t* jfc = owner.make_jfc(false, jfce);
  urma_jfr_t* jfr = owner.make_jfr(jfc);
  urma_target_seg_t* into = owner.add(memory.data(), 2048);
  urma_jfc_t* send_jfc = sender.make_jfc();
  urma_jfs_t* jfs = sender.make_jfs(send_jfc, 64);
  urma_target_seg_t* from = sender.add(memory.data() + 2048, 2048);
  urma_target_jetty_t* queue = sender.import(jfr->jfr_id);

  std::atomic<uint64_t> begun{0}, sent{0};
  std::thread sending([&] {
    Dice dice(2);
    std::vector<urma_cr_t> done;
    for (uint64_t round = 1; round <= last; ++round) {
      spin_until(begun, round);
      dice.pause();
      EXPECT_EQ(sender.send(jfs, queue, piece(from, memory.data() + 2048, 8), round), URMA_SUCCESS);
      sent.store(round, std::memory_order_release);
      // Not before the event is there: a polling sender asks the receiver to look.
      spin_until(begun, round + 1);
      while (done.empty()) sender.poll(send_jfc, &done);
      done.clear();
    }
  });
  Dice dice(1);
  std::vector<urma_cr_t> received;
  bool lost = false;
  const auto end = Clock::now() + kLimit;
  for (uint64_t round = 1; round <= last; ++round) {
    if (Clock::now() > end) last = round;  // before the sender learns that it has begun
    owner.receive(jfr, {piece(into, memory.data(), 64)}, round);
    begun.store(round, std::memory_order_release);
    dice.pause();
    owner.arm(jfc);
    spin_until(sent, round);
    lost = owner.wait(jfce, patience(seconds(10))) != jfc;
    EXPECT_FALSE(lost) << "round " << round << ": not woken";
    const auto deadline = Clock::now() + patience(seconds(10));
    while (received.empty() && Clock::now() < deadline) owner.poll(jfc, &received);
    received.clear();
  }
  begun.store(UINT64_MAX, std::memory_order_release);
  sending.join();
}

}  // namespace
}  // namespace urma::shm
