// SPDX-License-Identifier: MIT
//
// How many descriptors and how much time of an owner a peer can take.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

using GreedyPeerTest = urma_test::ProcessTest;

constexpr size_t kMostConnections = 16;  // of one process
constexpr int kAtOnce = 32;              // connections without a wait

TEST_F(GreedyPeerTest, HasSixteenConnectionsAtMost) {
  Node owner;
  const auto before = open_descriptors();
  {
    std::deque<RawPeer> peers;
    for (size_t i = 0; i < kMostConnections; ++i) {
      EXPECT_EQ(peers.emplace_back(owner).greet(), Answer::kAccepted) << i;
    }
    EXPECT_EQ(RawPeer(owner).greet(), Answer::kUnreachable);
    // A process that closes one may open another.
    peers.pop_back();
    EXPECT_TRUE(eventually([&] { return RawPeer(owner).greet() == Answer::kAccepted; }));
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

// Each connection costs the owner's threads more than the peer.
TEST_F(GreedyPeerTest, ComesAgainAtAPace) {
  constexpr int kMore = 10;
  constexpr milliseconds kInterval{20};
  Node owner;
  const auto begin = Clock::now();
  for (int i = 0; i < kAtOnce + kMore; ++i) EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
  EXPECT_GE(Clock::now() - begin, kMore * kInterval);
}

TEST_F(GreedyPeerTest, MayGoWhileItWaitsAndSoMayItsOwner) {
  const auto before = open_descriptors();
  {
    std::optional<RawPeer> waits;
    Node owner;
    for (int i = 0; i < kAtOnce; ++i) EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
    { const RawPeer gone(owner); }
    EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
    waits.emplace(owner);
    owner.settle();
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

TEST_F(GreedyPeerTest, IsDisconnectedAfterASecondOfSilence) {
  Node owner;
  const auto begin = Clock::now();
  RawPeer silent(owner);
  Reply nothing;
  EXPECT_FALSE(silent.receive(&nothing, sizeof(nothing)));
  EXPECT_GE(Clock::now() - begin, milliseconds(900));
  EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
}

// The greeting came in time; it is the owner that has waited for a processor.
TEST_F(GreedyPeerTest, IsHeardByAnOwnerThatIsLate) {
  Node owner;
  RawPeer peer(owner);
  owner.settle();  // it has accepted the connection
  {
    const Pause late(owner);
    EXPECT_TRUE(peer.send_greeting());
    const auto due = Clock::now() + milliseconds(1100);
    EXPECT_TRUE(eventually([&] { return Clock::now() > due; }));
  }
  Reply welcome;
  ASSERT_TRUE(peer.receive(&welcome, sizeof(welcome)));
  EXPECT_EQ(welcome.answer, Answer::kAccepted);
}

// A peer that waits for a processor as well gets as many looks as one of an owner in time.
TEST_F(GreedyPeerTest, IsAwaitedByAnOwnerThatIsLate) {
  Node owner;
  RawPeer peer(owner);
  owner.settle();
  {
    const Pause late(owner);
    const auto due = Clock::now() + milliseconds(1100);
    EXPECT_TRUE(eventually([&] { return Clock::now() > due; }));
  }
  owner.settle();
  EXPECT_EQ(peer.greet(), Answer::kAccepted);
}

// Each of them claims a write that does not end.
TEST_F(GreedyPeerTest, DelaysNoUnregistrationForLong) {
  Node owner;
  std::vector<char> memory(64);
  urma_target_seg_t* const segment = owner.add(memory.data(), memory.size());
  const SharedMemory region =
      SharedMemory::create("urma-segments", SegmentTable::kSharedBytes, PeerMay::kRead, 0);
  char* const marks =
      static_cast<char*>(region.data()) + SegmentTable::kSharedBytes - sizeof(CopyMarks);
  *reinterpret_cast<std::atomic<uint32_t>*>(marks) = 1;
  std::deque<RawPeer> peers;
  for (size_t i = 0; i < kMostConnections; ++i) {
    RawPeer& peer = peers.emplace_back(owner);
    ASSERT_EQ(peer.greet({region.fd()}), Answer::kAccepted);
    ASSERT_EQ(peer.import(*segment), Answer::kAccepted);
  }
  const auto begin = Clock::now();
  owner.end(segment);
  const auto took = Clock::now() - begin;
  EXPECT_GE(took, milliseconds(100));
  EXPECT_LT(took, milliseconds(100) * kMostConnections);
}

// A service thread that lacks memory for further timers.
class ShortOfMemory : public Service {
 public:
  explicit ShortOfMemory(Service& real) : real_(real) {}
  void post(Task task) override { real_.post(std::move(task)); }
  void run(const Task& task) override { real_.run(task); }
  bool on_thread() const override { return real_.on_thread(); }
  void watch(int fd, uint32_t events, Ready ready) override {
    real_.watch(fd, events, std::move(ready));
  }
  void rewatch(int fd, uint32_t events) override { real_.rewatch(fd, events); }
  void unwatch(int fd) override { real_.unwatch(fd); }
  TimerId after(uint64_t delay_ns, Task task) override {
    if (no_timers) throw std::bad_alloc();
    return real_.after(delay_ns, std::move(task));
  }
  void cancel(TimerId timer) override { real_.cancel(timer); }

  std::atomic<bool> no_timers{false};

 private:
  Service& real_;
};

// Otherwise it would stay for as long as the peer likes, and take one of its places.
TEST_F(GreedyPeerTest, IsDisconnectedIfItsTimeCannotBeTaken) {
  std::optional<ShortOfMemory> service;
  service_of_nodes = [&](Service& real) { return &service.emplace(real); };
  Node owner;
  service_of_nodes = nullptr;
  Reply nothing;
  const auto before = open_descriptors();
  // The first ones are served at once, the last ones have to wait.
  for (int i = 0; i < kAtOnce + 4; ++i) {
    service->no_timers = true;
    EXPECT_FALSE(RawPeer(owner).receive(&nothing, sizeof(nothing))) << i;
    service->no_timers = false;
  }
  EXPECT_EQ(RawPeer(owner).greet(), Answer::kAccepted);
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

}  // namespace
}  // namespace urma::shm
