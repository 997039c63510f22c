// SPDX-License-Identifier: MIT
//
// Large messages that both ends copy: every byte arrives, from whichever end, and none later than
// its message, whatever the other end does.
#include "urma/providers/shm/joint_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "test/process/kernel.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

constexpr uint64_t kBytes = kCopyPerTurn;

char byte_of(uint64_t message, uint64_t i) {
  return static_cast<char>(message * 31 + i * 7 + (i >> 12));
}

class JointCopyTest : public urma_test::ProcessTest {
 protected:
  JointCopyTest()
      : memory_(SharedMemory::create("joint", sizeof(JointCopy), PeerMay::kWrite)),
        shared(new (memory_.data()) JointCopy()) {}

  // With this process as the sender.
  JointTurn offer(uint32_t turn, uint64_t bytes = kBytes) {
    return {shared, &self, turn, /*position=*/3, /*offset=*/0, {into.data(), bytes}};
  }
  JointTurn offer_to(const PeerProcess& sender) {
    return {shared, &sender, 1, /*position=*/3, /*offset=*/0, {into.data(), kBytes}};
  }

 private:
  SharedMemory memory_;  // also with children

 protected:
  JointCopy* const shared;
  std::vector<char> into = std::vector<char>(kBytes);
  const PeerProcess self{::getpid(),
                         Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)))};
};

// A sender that takes parts of the next offer and does as it is told.
class OtherEnd {
 public:
  OtherEnd(JointCopy* shared, const std::function<void(JointHelp*, JointHelp::Parts)>& act) {
    process.pid = ::fork();
    if (process.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (!wants_help(*shared)) ::sched_yield();
      JointHelp help(shared);
      const std::optional<JointHelp::Parts> taken = help.take();
      if (taken) act(&help, *taken);
      ::_exit(taken ? 0 : 1);
    }
    process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  }
  ~OtherEnd() {
    if (process.pid == 0) return;
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
  }
  int await(int options) {
    int status = -1;
    EXPECT_EQ(::waitpid(process.pid, &status, options), process.pid);
    if (!WIFSTOPPED(status)) process.pid = 0;
    return status;
  }

  PeerProcess process;
};

TEST_F(JointCopyTest, TheEndsMeet) {
  uint32_t number = 0;
  for (const uint64_t bytes : {kBytes, 2 * kPartBytes - 1ul, 5 * kPartBytes + 1ul}) {
    JointTurn turn = offer(++number, bytes);
    JointHelp help(shared);
    EXPECT_EQ(help.position(), 3u);
    std::vector<int> copied(bytes);
    for (bool more = true; more;) {
      more = false;
      if (const auto window = turn.take()) {
        more = true;
        for (uint64_t i = 0; i < window->bytes; ++i) ++copied[window->offset + i];
      }
      if (const auto parts = help.take()) {
        more = true;
        for (const iovec& place : help.places(*parts)) {
          const auto offset = static_cast<char*>(place.iov_base) - into.data();
          for (uint64_t i = 0; i < place.iov_len; ++i) ++copied[static_cast<size_t>(offset) + i];
        }
        help.tell(true);
      }
    }
    EXPECT_EQ(turn.end(), JointTurn::End::kWhole);
    EXPECT_EQ(turn.unwritten().bytes, 0u);
    EXPECT_EQ(std::count(copied.begin(), copied.end(), 1), static_cast<ptrdiff_t>(bytes));
  }
}

// Nor is it offered parts one by one.
TEST_F(JointCopyTest, ASenderThatDoesNotPollIsNotWaitedFor) {
  JointTurn turn = offer(1);
  const auto first = turn.take();
  const auto rest = turn.take();
  EXPECT_EQ(first->bytes + rest->bytes, kBytes);
  EXPECT_FALSE(turn.take());
  EXPECT_EQ(turn.end(), JointTurn::End::kWhole);
  EXPECT_FALSE(JointHelp(shared).take());
}

TEST_F(JointCopyTest, WhatCannotBeWrittenIsLeftToTheReceiver) {
  JointTurn turn = offer(1);
  uint64_t bytes = turn.take()->bytes;
  {
    JointHelp help(shared);
    const auto first = help.take();
    help.tell(true);
    bytes += first->count * kPartBytes;
    EXPECT_TRUE(help.take());
    help.tell(false);
    EXPECT_FALSE(help.take());
  }
  // Nor does a later poll go on.
  EXPECT_FALSE(JointHelp(shared).take());
  while (const auto window = turn.take()) bytes += window->bytes;
  EXPECT_EQ(turn.end(), JointTurn::End::kWhole);
  EXPECT_EQ(bytes + turn.unwritten().bytes, kBytes);
}

TEST_F(JointCopyTest, NothingIsTakenOfAnEarlierTurn) {
  JointTurn first = offer(1);
  JointHelp late(shared);
  while (first.take()) continue;
  EXPECT_EQ(first.end(), JointTurn::End::kWhole);
  JointTurn second = offer(2);
  EXPECT_FALSE(late.take());
  EXPECT_TRUE(JointHelp(shared).take());
  // The one that took it here has ended without writing it.
  while (second.take()) continue;
  EXPECT_EQ(second.end(), JointTurn::End::kWhole);
  EXPECT_NE(second.unwritten().bytes, 0u);
}

// Whatever the sender writes there, the receiver neither takes a part twice nor waits
// indefinitely.
TEST_F(JointCopyTest, FalseClaimsEndTheTurn) {
  constexpr uint16_t kAll = kJointParts;
  for (const Claims claims : {Claims{2, 0, kAll}, Claims{1, 1, kAll}, Claims{1, 0, kAll + 1},
                              Claims{0, 0, 0}, Claims{1, 0xffff, 0xffff}}) {
    JointTurn turn = offer(1);
    shared->claims = claims;
    EXPECT_FALSE(turn.take());
    EXPECT_EQ(turn.end(), JointTurn::End::kStuck);
    for (const iovec& part : shared->parts) EXPECT_EQ(part.iov_len, 0u);
  }
}

TEST_F(JointCopyTest, ReportsOfMoreThanWasTakenDoNotCount) {
  JointTurn turn = offer(1);
  const uint64_t first = turn.take()->bytes;
  EXPECT_TRUE(JointHelp(shared).take());
  shared->written = {1, 0xffff, 1};
  while (turn.take()) continue;
  EXPECT_EQ(turn.end(), JointTurn::End::kWhole);
  EXPECT_LE(turn.unwritten().offset + turn.unwritten().bytes, kBytes);
  EXPECT_GE(turn.unwritten().offset, first);
}

// And its copy, once it is continued, moves nothing.
TEST_F(JointCopyTest, AStoppedSenderIsNotWaitedFor) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  const pid_t receiver = ::getpid();
  OtherEnd sender(shared, [&](JointHelp* help, JointHelp::Parts taken) {
    const std::vector<char> bytes(kBytes, 'x');
    const iovec own = {const_cast<char*>(bytes.data()), taken.count * kPartBytes};
    const auto places = help->places(taken);
    ::raise(SIGSTOP);
    if (::process_vm_writev(receiver, &own, 1, places.data(), places.size(), 0) != 0) ::_exit(2);
  });
  JointTurn turn = offer_to(sender.process);
  ASSERT_TRUE(WIFSTOPPED(sender.await(WUNTRACED)));
  uint64_t bytes = 0;
  while (const auto window = turn.take()) bytes += window->bytes;
  const auto begin = Clock::now();
  EXPECT_EQ(turn.end(), JointTurn::End::kLast);
  EXPECT_LT(Clock::now() - begin, patience(seconds(1)));
  EXPECT_EQ(bytes + turn.unwritten().bytes, kBytes);
  ::kill(sender.process.pid, SIGCONT);
  EXPECT_EQ(sender.await(0), 0);
  EXPECT_EQ(std::count(into.begin(), into.end(), 'x'), 0);
}

TEST_F(JointCopyTest, ADeadSenderIsNotWaitedFor) {
  OtherEnd sender(shared, [](JointHelp*, JointHelp::Parts) { ::raise(SIGKILL); });
  JointTurn turn = offer_to(sender.process);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(sender.process.pid), &info, WEXITED | WNOWAIT), 0);
  uint64_t bytes = 0;
  while (const auto window = turn.take()) bytes += window->bytes;
  EXPECT_EQ(turn.end(), JointTurn::End::kLast);
  EXPECT_EQ(bytes + turn.unwritten().bytes, kBytes);
}

TEST_F(JointCopyTest, ASenderThatDoesNotGoOnIsWaitedForOnce) {
  OtherEnd sender(shared, [](JointHelp*, JointHelp::Parts) {
    for (;;) ::pause();
  });
  JointTurn turn = offer_to(sender.process);
  EXPECT_TRUE(eventually([&] { return shared->claims.load().back != kJointParts; }));
  while (turn.take()) continue;
  const auto begin = Clock::now();
  EXPECT_EQ(turn.end(), JointTurn::End::kStuck);
  EXPECT_LT(Clock::now() - begin, patience(seconds(30)));
}

TEST_F(JointCopyTest, ASlowSenderIsWaitedFor) {
  OtherEnd sender(shared, [](JointHelp* help, JointHelp::Parts taken) {
    // Until the receiver has waited for a while.
    iovec* const place = const_cast<iovec*>(help->places(taken).data());
    while (std::atomic_ref<size_t>(place->iov_len).load() != 0) ::sched_yield();
    help->tell(true);
    for (;;) ::pause();
  });
  JointTurn turn = offer_to(sender.process);
  EXPECT_TRUE(eventually([&] { return shared->claims.load().back != kJointParts; }));
  while (turn.take()) continue;
  EXPECT_NE(turn.end(), JointTurn::End::kStuck);
  EXPECT_EQ(turn.unwritten().bytes, 0u);
}

TEST_F(JointCopyTest, AFalseReceiverIsNotServedIndefinitely) {
  JointTurn turn = offer(1);
  JointHelp help(shared);
  uint32_t served = 0;
  while (const auto parts = help.take()) {
    ASSERT_LE(served += parts->count, kJointParts);
    help.tell(true);
    shared->claims = {1, 0, kJointParts};
  }
  shared->claims = {1, 0, 0};
  shared->written = {1, 0, 1};
}

// Each part of many turns is taken once.
TEST_F(JointCopyTest, BothEndsAtTheSameTime) {
  constexpr uint64_t kHelped = 2000;  // parts
  std::atomic<bool> done{false};
  std::atomic<uint64_t> helped{0};
  std::thread sender([&] {
    while (!done) {
      if (!wants_help(*shared)) continue;
      JointHelp help(shared);
      while (const auto parts = help.take()) {
        for (const iovec& place : help.places(*parts)) *static_cast<char*>(place.iov_base) += 1;
        help.tell(true);
        helped += parts->count;
      }
    }
  });
  for (uint32_t number = 1; helped < kHelped; ++number) {
    JointTurn turn = offer(number);
    std::this_thread::yield();
    while (const auto window = turn.take()) {
      for (uint64_t at = 0; at < window->bytes; at += kPartBytes) into[window->offset + at] += 1;
    }
    EXPECT_NE(turn.end(), JointTurn::End::kStuck);
    for (uint64_t at = 0; at < kBytes; at += kPartBytes) {
      EXPECT_EQ(into[at], static_cast<char>(number)) << at;
    }
  }
  done = true;
  sender.join();
}

// Messages of a size, of which the sender polls whenever the receiver copies.
class JointMessageTest : public urma_test::ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_THE_KERNEL_COPIES();
    if (!is_open_to(::geteuid())) GTEST_SKIP() << "the kernel lets nobody write to this process";
  }
  void begin(uint64_t bytes, bool sender_can_write) {
    from.resize(bytes);
    into.resize(bytes);
    local = pair.sender.add(from.data(), bytes, URMA_ACCESS_LOCAL_ONLY);
    room = pair.owner.add(into.data(), bytes);
    pair.owner.on_copy([this](Direction) {
      const std::lock_guard guard(mutex);
      pair.sender.poll(pair.send_jfc, &pair.sent);
      return true;
    });
    pair.sender.on_copy([=, this](Direction direction) {
      if (direction == Direction::kWrite) ++helped;
      return sender_can_write;
    });
  }
  void send(uint64_t message) {
    for (uint64_t i = 0; i < from.size(); ++i) from[i] = byte_of(message, i);
    pair.received.clear();
    pair.sent.clear();
    pair.owner.receive(pair.jfr, {all_of(room, into)}, message);
    pair.sender.send(pair.jfs, pair.queue, all_of(local, from), message);
    ASSERT_TRUE(eventually([&] {
      pair.owner.poll(pair.receive_jfc, &pair.received);
      const std::lock_guard guard(mutex);
      pair.sender.poll(pair.send_jfc, &pair.sent);
      return pair.received.size() == 1 && pair.sent.size() == 1;
    }));
    EXPECT_EQ(pair.received[0].status, URMA_CR_SUCCESS);
    EXPECT_EQ(pair.received[0].completion_len, from.size());
    EXPECT_EQ(pair.sent[0].status, URMA_CR_SUCCESS);
    EXPECT_TRUE(from == into) << message;
  }

  static urma_sge_t all_of(urma_target_seg_t* segment, const std::vector<char>& bytes) {
    return piece(segment, bytes.data(), static_cast<uint32_t>(bytes.size()));
  }

  std::vector<char> from, into;
  std::mutex mutex;
  std::atomic<uint64_t> helped{0};
  Pair pair;
  urma_target_seg_t* local = nullptr;
  urma_target_seg_t* room = nullptr;
};

TEST_F(JointMessageTest, BothEndsCopy) {
  // Several turns, the last of them short.
  begin(3 * kCopyPerTurn + 2 * kPartBytes + 5, /*sender_can_write=*/true);
  for (uint64_t message = 0; message < 3; ++message) send(message);
  EXPECT_GT(helped, 0u);
}

TEST_F(JointMessageTest, TheReceiverCopiesWhatTheSenderCannot) {
  begin(2 * kCopyPerTurn, /*sender_can_write=*/false);
  for (uint64_t message = 0; message < 3; ++message) send(message);
  EXPECT_GT(helped, 0u);
}

// It is received again afterwards, copied by one end.
TEST_F(JointMessageTest, ASenderThatIsHeldUpSpoilsOneReceive) {
  begin(kCopyPerTurn, /*sender_can_write=*/true);
  std::atomic<bool> held{false}, go_on{false};
  pair.owner.on_copy([&](Direction) {
    // The sender has taken a part before the receiver goes on.
    return go_on || eventually([&] { return held.load(); });
  });
  pair.sender.on_copy([&](Direction) {
    held = true;
    while (!go_on) std::this_thread::yield();
    return true;
  });
  std::thread sender([&] {
    while (pair.sent.empty()) pair.sender.poll(pair.send_jfc, &pair.sent);
  });
  pair.owner.receive(pair.jfr, {all_of(room, into)}, 1);
  pair.sender.send(pair.jfs, pair.queue, all_of(local, from), 2);
  EXPECT_TRUE(eventually([&] {
    pair.owner.poll(pair.receive_jfc, &pair.received);
    return !pair.received.empty();
  }));
  // Once it is continued, it writes nothing.
  std::fill(into.begin(), into.end(), 'm');
  go_on = true;
  sender.join();
  EXPECT_EQ(std::count(into.begin(), into.end(), 'm'), static_cast<ptrdiff_t>(into.size()));
  EXPECT_EQ(pair.received.at(0).status, URMA_CR_LOC_DATA_POISON);
  EXPECT_EQ(pair.received.at(0).user_ctx, 1u);
  EXPECT_EQ(pair.sent.at(0).status, URMA_CR_REM_DATA_POISON);
  held = false;
  send(3);
  EXPECT_FALSE(held);
}

// Pages of this process were shared once.
class MovingPages : public SharedPages {
 public:
  MovingPages() {
    note_may_move();
    pages_of_nodes = this;
  }
  ~MovingPages() override { pages_of_nodes = nullptr; }
  RangeId add(uint64_t /*va*/, uint64_t /*len*/, const Audience& /*audience*/) override {
    return 1;
  }
  bool imported(RangeId /*range*/) override { return false; }
  bool share(RangeId /*range*/, uint64_t /*budget*/) override { return true; }
  std::vector<SharedPart> parts(RangeId /*range*/) const override { return {}; }
  void remove(RangeId /*range*/) override {}
  bool remove_some(RangeId /*range*/, uint64_t /*budget*/) override { return true; }
  void* allocate(uint64_t /*bytes*/, uint32_t /*flags*/) override { return nullptr; }
  bool deallocate(void* /*memory*/) override { return false; }
};

class JointMovingTest : private MovingPages, public JointMessageTest {};

TEST_F(JointMovingTest, TheReceiverCopiesWherePagesMayMove) {
  begin(kCopyPerTurn, /*sender_can_write=*/true);
  send(0);
  EXPECT_EQ(helped, 0u);
}

TEST_F(JointMessageTest, SmallerOnesAreCopiedByTheReceiver) {
  begin(2 * kPartBytes - 1, /*sender_can_write=*/true);
  send(0);
  EXPECT_EQ(helped, 0u);
  EXPECT_EQ(pair.owner.copies(), 1u);
}

}  // namespace
}  // namespace urma::shm
