// SPDX-License-Identifier: MIT
//
// Races of arming against sending, repeated: a thread that arms either finds what was sent or is
// woken.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

// This many rounds take two free processors seconds; fewer are run when the threads share one and
// hardly race.
constexpr uint64_t kRounds = 1'000'000;
constexpr seconds kLimit{6};
constexpr uint64_t kWarmUp = 100;

// Both threads reach their step of a round at about the same time, in every order.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  void pause(int bits = 5) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t spins = state_ >> (64 - bits); spins != 0; --spins) {
      std::atomic_signal_fence(kOrder);
    }
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

// Keeps this thread on one processor, each number on another one if there are several: the kernel
// likes to put threads that wake each other on the same, and then they do not race.
class Pinned {
 public:
  explicit Pinned(int number) {
    EXPECT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
    const int which = number % CPU_COUNT(&before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &before_) && seen++ == which) CPU_SET(cpu, &one);
    }
    EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~Pinned() { ::sched_setaffinity(0, sizeof(before_), &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

// What the waiting side does before it sleeps.
enum class Waiting {
  kBarrier,  // has the kernel fence for others, or all fence
  kFence,    // fences, as others do who find kFences
  kLook,     // the same, and looks by itself first
};

// The two halves of the protocol alone: a message and a bell.
class BellRace {
 public:
  explicit BellRace(bool peer_has_barrier, Waiting waiting = Waiting::kBarrier)
      : waiting_(waiting),
        bell_(table_.bell(7)),
        region_(std::make_shared<PeerRegion>(Fd(::fcntl(table_.words_fd(), F_DUPFD_CLOEXEC, 0)),
                                             peer_has_barrier)) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_.reset(ends[0]);
    remote_ = RemoteBell(region_, 7, std::make_shared<Doorbell>(Fd(ends[1])));
  }

  // The sender runs freely; this side arms whenever it has taken everything.
  void run() {
    if (waiting_ != Waiting::kBarrier) {
      bell_.bits.store(kFences, std::memory_order_relaxed);
      heavy_barrier(/*fenced=*/false);
    }
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
      arm(&dice);
      Message message;
      if (consumer_.peek(&message) == Peek::kMessage) {
        ++found;
      } else {
        spin_until(sent_, taken + 1);
        EXPECT_TRUE(rung()) << "round " << round
                            << ": the message was neither polled nor did it wake";
        ++woken;
      }
      bell_.bits.fetch_and(kFences, std::memory_order_relaxed);
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
  void arm(Dice* dice) {
    const bool looks = waiting_ == Waiting::kLook;
    bell_.bits.fetch_or(kForAny | (looks ? kLooks : 0), std::memory_order_relaxed);
    if (looks) {
      dice->pause();
      bell_.bits.fetch_and(~kLooks, std::memory_order_relaxed);
    }
    heavy_barrier(/*fenced=*/waiting_ != Waiting::kBarrier);
  }
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

  const Waiting waiting_;
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

TEST(EventRaceTest, NoWakeUpIsLostWithFencesThatTheBellAsksFor) {
  if (!enter_process_barrier()) GTEST_SKIP() << "the kernel refuses membarrier";
  BellRace(true, Waiting::kFence).run();
}

TEST(EventRaceTest, NoWakeUpIsLostAfterALook) {
  if (!enter_process_barrier()) GTEST_SKIP() << "the kernel refuses membarrier";
  BellRace(true, Waiting::kLook).run();
}

TEST(EventRaceTest, NobodyWakesAThreadThatLooks) {
  // Not on the stack, where GCC's address sanitizer aligns to 32 bytes.
  const auto bell = std::make_unique<Bell>();
  EXPECT_EQ(bell->seen(), 0u);
  bell->bits = kFences | kForAny;
  EXPECT_TRUE(wakes(bell->seen(), false));
  bell->bits = kFences | kForSolicited;
  EXPECT_FALSE(wakes(bell->seen(), false));
  EXPECT_TRUE(wakes(bell->seen(), true));
  bell->bits = kFences | kForAny | kLooks;
  EXPECT_FALSE(wakes(bell->seen(), true));
  bell->bits = kFences;
  EXPECT_FALSE(wakes(bell->seen(), true));
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

// Those who publish fence for a program that waits, and no longer once it polls.
TEST_F(TransportRaceTest, ABellAsksForFencesWhileItsProgramWaits) {
  if (!enter_process_barrier()) GTEST_SKIP() << "the kernel refuses membarrier";
  Node owner;
  urma_jfc_t* jfc = owner.make_jfc(false, owner.make_jfce());
  const std::atomic<uint32_t>& bits = static_cast<CompletionQueue*>(jfc)->bell().bits;
  std::vector<urma_cr_t> records;
  const auto arm_and_poll = [&](int times, int polls) {
    for (int i = 0; i < times; ++i) {
      owner.arm(jfc);
      for (int k = 0; k < polls; ++k) owner.poll(jfc, &records);
    }
  };
  arm_and_poll(20, 100);
  EXPECT_EQ(bits, kForAny);
  arm_and_poll(20, 2);
  EXPECT_EQ(bits, kForAny | kFences);
  // Not beside an arming that relies on it.
  arm_and_poll(1, 1000);
  EXPECT_EQ(bits, kForAny | kFences);
  static_cast<CompletionQueue*>(jfc)->completed(1, false);
  EXPECT_EQ(bits, kFences);
  for (int k = 0; k < 1000; ++k) owner.poll(jfc, &records);
  EXPECT_EQ(bits, 0u);
}

// Whether one of `armings` of a JFC looks for its event, if its JFCE has `jfcs` of them.
bool looks_with(int jfcs, int armings) {
  ::setenv("URMA_BUSY_POLL_US", "1000", 1);
  Node owner;
  urma_jfce_t* jfce = owner.make_jfce();
  urma_jfc_t* jfc = owner.make_jfc(false, jfce);
  for (int i = 1; i < jfcs; ++i) owner.make_jfc(false, jfce);
  const std::atomic<uint32_t>& bits = static_cast<CompletionQueue*>(jfc)->bell().bits;
  std::atomic<bool> seen{false}, over{false};
  std::thread watching([&] {
    while (!over) {
      if ((bits & kLooks) != 0) seen = true;
    }
  });
  const auto end = Clock::now() + patience(seconds(10));
  for (int i = 0; i < armings && !seen && Clock::now() < end; ++i) owner.arm(jfc);
  over = true;
  watching.join();
  ::unsetenv("URMA_BUSY_POLL_US");
  return seen;
}

TEST_F(TransportRaceTest, NobodyLooksForManyJfcs) {
  // The first look is soon seen, unless the threads share a processor.
  EXPECT_TRUE(looks_with(1, 1'000'000));
  EXPECT_TRUE(looks_with(16, 1'000'000));
  // Enough for some looks of a millisecond each.
  EXPECT_FALSE(looks_with(17, 100));
}

// The same with everything around it: two transports, and the calls of programs.
void race_through_transports(bool looks) {
  // Some looks find the message, others end before it comes.
  constexpr int kAsLongAsLooks = 15;
  if (looks) ::setenv("URMA_BUSY_POLL_US", "15", 1);
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
    const Pinned pinned(1);
    Dice dice(2);
    std::vector<urma_cr_t> done;
    for (uint64_t round = 1; round <= last; ++round) {
      spin_until(begun, round);
      looks ? dice.pause(kAsLongAsLooks) : dice.pause();
      EXPECT_EQ(sender.send(jfs, queue, piece(from, memory.data() + 2048, 8), round), URMA_SUCCESS);
      sent.store(round, std::memory_order_release);
      // Not before the event is there: a polling sender asks the receiver to look.
      spin_until(begun, round + 1);
      while (done.empty()) sender.poll(send_jfc, &done);
      done.clear();
    }
  });
  const Pinned pinned(0);
  Dice dice(1);
  std::vector<urma_cr_t> received;
  bool lost = false;
  std::optional<Pause> pause;
  const milliseconds limit = patience(seconds(10));
  const auto end = Clock::now() + kLimit;
  for (uint64_t round = 1; round <= last; ++round) {
    if (Clock::now() > end) last = round;  // before the sender learns that it has begun
    // Once they are connected: nothing tells the receiver again of what has come.
    if (round == kWarmUp) pause.emplace(sender);
    owner.receive(jfr, {piece(into, memory.data(), 64)}, round);
    begun.store(round, std::memory_order_release);
    dice.pause();
    owner.arm(jfc);
    if (!looks) spin_until(sent, round);
    const auto since = Clock::now();
    // A wait that ends by its timeout may find the event too.
    lost = owner.wait(jfce, 2 * limit) != jfc || Clock::now() - since > limit;
    EXPECT_FALSE(lost) << "round " << round << ": not woken";
    const auto deadline = Clock::now() + patience(seconds(10));
    while (received.empty() && Clock::now() < deadline) owner.poll(jfc, &received);
    received.clear();
  }
  begun.store(UINT64_MAX, std::memory_order_release);
  sending.join();
  pause.reset();
  ::unsetenv("URMA_BUSY_POLL_US");
}

TEST_F(TransportRaceTest, NoSendIsLostWhileItsReceiverArms) { race_through_transports(false); }
TEST_F(TransportRaceTest, NoSendIsLostWhileItsReceiverLooks) { race_through_transports(true); }

}  // namespace
}  // namespace urma::shm
