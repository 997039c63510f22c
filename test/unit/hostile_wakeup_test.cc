// SPDX-License-Identifier: MIT
//
// What a peer cannot do with the wakeup descriptors that it passes and gets: stop this process from
// waking others, sleeping, or working.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

// A JFR whose JFC has a JFCE, and a ring of a peer that breaks the rules.
class HostileWakeupTest : public urma_test::ProcessTest {
 protected:
  HostileWakeupTest() { EXPECT_EQ(peer_.greet(), Answer::kAccepted); }

  // Sends one message and returns whether the owner takes it, which answers the producer's bell.
  bool send_one() {
    owner_.receive(jfr_, {piece(segment_, memory_.data(), 64)}, 1);
    ring_->begin(0);
    ring_->publish(MessageKind::kSend, kWantsAnswer, 0, 0, 0);
    std::vector<urma_cr_t> received;
    return eventually([&] {
      owner_.poll(jfc_, &received);
      return !received.empty();
    });
  }
  // With a new ring.
  Answer open(WakeupOffer offer, const std::vector<int>& wakeup, uint32_t number = 1) {
    ring_ = std::make_unique<RingProducer>(kMinRingBytes);
    return peer_.open_ring(*jfr_, number, *ring_, offer, wakeup);
  }

  std::vector<char> memory_ = std::vector<char>(4096);
  Node owner_;
  urma_jfce_t* jfce_ = owner_.make_jfce();
  urma_jfc_t* jfc_ = owner_.make_jfc(false, jfce_);
  urma_jfr_t* jfr_ = owner_.make_jfr(jfc_);
  urma_target_seg_t* segment_ = owner_.add(memory_.data(), memory_.size());
  RawPeer peer_{owner_};
  std::unique_ptr<RingProducer> ring_ = std::make_unique<RingProducer>(kMinRingBytes);
};

std::pair<Fd, Fd> sockets(int type = SOCK_STREAM) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

TEST_F(HostileWakeupTest, ABellThatDoesNotExistIsRefused) {
  auto [here, there] = sockets();
  for (const uint32_t bell : {kBells, kBells + 1, UINT32_MAX - 1}) {
    EXPECT_EQ(open({1, bell, 0}, {there.get()}), Answer::kNoResources) << bell;
  }
  // The last bell that exists is accepted.
  EXPECT_EQ(open({1, kBells - 1, 0}, {there.get()}), Answer::kAccepted);
  EXPECT_TRUE(send_one());
}

TEST_F(HostileWakeupTest, OtherDescriptorsAreRefused) {
  const auto before = open_descriptors();
  std::vector<Fd> others;
  others.emplace_back(::eventfd(0, EFD_CLOEXEC));
  others.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
  others.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  others.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  others.emplace_back(pipe[0]);
  others.emplace_back(pipe[1]);
  for (const int type : {SOCK_DGRAM, SOCK_SEQPACKET}) {
    auto [one, other] = sockets(type);
    others.push_back(std::move(one));
    others.push_back(std::move(other));
  }
  for (const Fd& other : others) {
    EXPECT_EQ(open({1, 0, 0}, {other.get()}), Answer::kNoResources);
  }
  others.clear();
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

TEST_F(HostileWakeupTest, APeerHandsOverFewDescriptors) {
  const auto before = open_descriptors();
  auto [here, there] = sockets();
  uint32_t accepted = 0;
  for (uint32_t i = 1; i <= 300; ++i) {
    accepted += open({i, 0, 0}, {there.get()}, i) == Answer::kAccepted;
  }
  EXPECT_EQ(accepted, 128u);
  EXPECT_LE(open_descriptors(), before + 132);
  for (uint32_t i = 1; i <= 128; ++i) EXPECT_TRUE(peer_.close_ring(i));
  std::vector<urma_cr_t> received;
  EXPECT_TRUE(eventually([&] {
    owner_.poll(jfc_, &received);
    return open_descriptors() <= before + 4;
  }));
}

TEST_F(HostileWakeupTest, MissingAndUnwantedDescriptorsAreRefused) {
  auto [here, there] = sockets();
  EXPECT_EQ(open({1, 0, 0}, {}), Answer::kNoResources);
  EXPECT_EQ(open({1, kNoBell, 0}, {there.get()}), Answer::kMalformed);
  EXPECT_EQ(open({1, 0, 0}, {there.get(), here.get()}), Answer::kMalformed);
}

// A wakeup descriptor that is full, blocking, or closed at the other end delays no one.
TEST_F(HostileWakeupTest, AFullWakeUpDelaysNothing) {
  auto [here, there] = sockets();
  std::vector<char> much(65536);
  while (::send(there.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
  }
  while (::send(there.get(), much.data(), 1, MSG_DONTWAIT) > 0) {
  }
  // Its bell stays armed.
  const SharedMemory region =
      SharedMemory::create("urma-segments", SegmentTable::kSharedBytes, PeerMay::kRead, 0);
  const_cast<Bell&>(SegmentTable::bell_in(region.data(), 3)).bits = kForAny;
  RawPeer armed(owner_);
  ASSERT_EQ(armed.greet({region.fd()}), Answer::kAccepted);
  ASSERT_EQ(armed.open_ring(*jfr_, 1, *ring_, {1, 3, 0}, {there.get()}), Answer::kAccepted);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(send_one());
  here.reset();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(send_one());
}

TEST_F(HostileWakeupTest, RandomBytesInABellAreHarmless) {
  auto [here, there] = sockets();
  const SharedMemory region =
      SharedMemory::create("urma-segments", SegmentTable::kSharedBytes, PeerMay::kRead, 0);
  std::atomic<uint32_t>& bits = const_cast<Bell&>(SegmentTable::bell_in(region.data(), 3)).bits;
  RawPeer armed(owner_);
  ASSERT_EQ(armed.greet({region.fd()}), Answer::kAccepted);
  ASSERT_EQ(armed.open_ring(*jfr_, 1, *ring_, {1, 3, 0}, {there.get()}), Answer::kAccepted);
  for (const uint32_t random : {~0U, ~kLooks, ~kFences, ~kArmed, ~(kLooks | kFences)}) {
    bits = random;
    EXPECT_TRUE(send_one());
  }
}

TEST_F(HostileWakeupTest, ARegionOfAnotherSizeOrKindIsRefused) {
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const SharedMemory small =
      SharedMemory::create("urma-segments", SegmentTable::kWordBytes, PeerMay::kRead);
  for (const int fd : {null.get(), small.fd()}) {
    RawPeer peer(owner_);
    EXPECT_EQ(peer.greet({fd}), Answer::kNoResources);
  }
  RawPeer peer(owner_);
  EXPECT_EQ(peer.greet({}), Answer::kNoResources);
}

TEST_F(HostileWakeupTest, ARegionThatItsOwnerCanPunchHolesIntoIsRefused) {
  const SharedMemory region =
      SharedMemory::create("urma-segments", SegmentTable::kSharedBytes, PeerMay::kWrite, 0);
  EXPECT_EQ(RawPeer(owner_).greet({region.fd()}), Answer::kNoResources);
  // No seal can be added by this descriptor, and the peer has another one.
  const SharedMemory open = SharedMemory::create("r", SegmentTable::kSharedBytes, PeerMay::kMap, 0);
  const std::string path = "/proc/self/fd/" + std::to_string(open.fd());
  const Fd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_EQ(RawPeer(owner_).greet({read_only.get()}), Answer::kNoResources);
}

// Objects come and go while a peer holds what it was given for them.
TEST_F(HostileWakeupTest, WakeUpsEndWithTheirJfce) {
  ASSERT_EQ(open({0, kNoBell, 0}, {}), Answer::kAccepted);
  const auto before = open_descriptors();
  uint32_t number = 2;
  for (int i = 0; i < 50; ++i) {
    urma_jfce_t* jfce = owner_.make_jfce();
    urma_jfc_t* jfc = owner_.make_jfc(false, jfce);
    urma_jfr_t* jfr = owner_.make_jfr(jfc);
    const RingProducer ring(kMinRingBytes);
    ASSERT_EQ(peer_.open_ring(*jfr, number, ring), Answer::kAccepted);
    owner_.arm(jfc);
    owner_.end(jfr);
    owner_.end(jfc);
    owner_.end(jfce);
    EXPECT_TRUE(peer_.close_ring(number++));
  }
  owner_.settle();
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

}  // namespace
}  // namespace urma::shm
