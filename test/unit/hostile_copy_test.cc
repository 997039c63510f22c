// SPDX-License-Identifier: MIT
//
// What an owner copies for a peer that stages its copies, and what it does not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"
#include "urma/providers/shm/staging.h"

namespace urma::shm {
namespace {

constexpr uint32_t kBytes = 2 * kPlaceBytes;

SharedMemory make_area(size_t bytes = kStagingBytes) {
  return SharedMemory::create("urma-staging", bytes, PeerMay::kWrite);
}

// A peer with an area that its owner has mapped.
struct Copier {
  explicit Copier(Node& owner) : peer(owner), area(make_area()) {
    EXPECT_EQ(peer.greet(), Answer::kAccepted);
    EXPECT_EQ(peer.ask(RawPeer::request(RequestType::kStage), {area.fd()}), Answer::kAccepted);
  }
  char* place(uint32_t index) const {
    return static_cast<char*>(area.data()) + index * kPlaceBytes;
  }
  Answer copy(const CopySegmentRequest& asked) {
    Request request = RawPeer::request(RequestType::kCopySegment);
    request.copy_segment = asked;
    return peer.ask(request);
  }
  Answer copy(const CopyMessageRequest& asked) {
    Request request = RawPeer::request(RequestType::kCopyMessage);
    request.copy_message = asked;
    return peer.ask(request);
  }

  RawPeer peer;
  SharedMemory area;
};

using HostileCopyTest = urma_test::ProcessTest;

TEST_F(HostileCopyTest, InvalidAreasAreRefused) {
  Node owner;
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd unsealed(::memfd_create("area", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), kStagingBytes), 0);
  const SharedMemory small = make_area(kStagingBytes - 4096);
  const SharedMemory good = make_area();
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  const Request stage = RawPeer::request(RequestType::kStage);
  const auto before = open_descriptors();
  EXPECT_EQ(peer.ask(stage), Answer::kNoResources);
  for (const int fd : {null.get(), unsealed.get(), small.fd()}) {
    EXPECT_EQ(peer.ask(stage, {fd}), Answer::kMalformed);
  }
  EXPECT_EQ(peer.ask(stage, {good.fd(), good.fd()}), Answer::kNoResources);
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
  EXPECT_EQ(peer.ask(stage, {good.fd()}), Answer::kAccepted);
  EXPECT_EQ(peer.ask(stage, {good.fd()}), Answer::kMalformed) << "an area was already accepted";
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before + 1; }));
}

TEST_F(HostileCopyTest, SegmentsAreCheckedByTheirOwner) {
  Node owner;
  std::vector<char> memory(kBytes, 'm'), constant(kBytes, 'c');
  urma_target_seg_t* segment = owner.add(memory.data(), kBytes);
  urma_target_seg_t* read_only = owner.add(constant.data(), kBytes, URMA_ACCESS_READ);
  const auto va = reinterpret_cast<uint64_t>(memory.data());
  const auto constant_va = reinterpret_cast<uint64_t>(constant.data());
  const auto index = static_cast<uint32_t>(segment->handle);
  const auto read_only_index = static_cast<uint32_t>(read_only->handle);
  const auto kRead = static_cast<uint32_t>(Direction::kRead);
  const auto kWrite = static_cast<uint32_t>(Direction::kWrite);

  RawPeer bare(owner);
  ASSERT_EQ(bare.greet(), Answer::kAccepted);
  Request request = RawPeer::request(RequestType::kCopySegment);
  request.copy_segment = {va, index, 1, 0, 8, kRead, 0};
  EXPECT_EQ(bare.ask(request), Answer::kNoResources) << "there is no area";

  Copier copier(owner);
  EXPECT_EQ(copier.copy(CopySegmentRequest{va, index, 1, 0, 8, kRead, 0}), Answer::kNoAccess)
      << "it was not granted";
  ASSERT_EQ(copier.peer.import(*segment), Answer::kAccepted);
  ASSERT_EQ(copier.peer.import(*read_only), Answer::kAccepted);
  EXPECT_EQ(copier.copy(CopySegmentRequest{va, index, 1, 3, kPlaceBytes, kRead, 0}),
            Answer::kAccepted);
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + kPlaceBytes, copier.place(3)));
  EXPECT_EQ(*copier.place(2), '\0');

  const CopySegmentRequest malformed[] = {
      {va, index, 1, kPlaces, 8, kRead, 0}, {va, index, 1, ~0u, 8, kRead, 0},
      {va, index, 1, 0, 0, kRead, 0},       {va, index, 1, 0, kPlaceBytes + 1, kRead, 0},
      {va, index, 1, 0, ~0u, kWrite, 0},    {va, index, 1, 0, 8, 2, 0},
  };
  for (const CopySegmentRequest& asked : malformed) {
    EXPECT_EQ(copier.copy(asked), Answer::kMalformed);
  }
  const CopySegmentRequest refused[] = {
      {va - 1, index, 1, 0, 8, kRead, 0},    {va + kBytes - 7, index, 1, 0, 8, kRead, 0},
      {~0ULL, index, 1, 0, 8, kRead, 0},     {va, index, 3, 0, 8, kRead, 0},
      {va, kMaxSegments, 1, 0, 8, kRead, 0}, {constant_va, read_only_index, 1, 0, 8, kWrite, 0},
  };
  for (const CopySegmentRequest& asked : refused) {
    EXPECT_EQ(copier.copy(asked), Answer::kNoAccess);
  }
  EXPECT_EQ(std::count(constant.begin(), constant.end(), 'c'), kBytes);
  owner.end(segment);
  EXPECT_EQ(copier.copy(CopySegmentRequest{va, index, 1, 0, 8, kRead, 0}), Answer::kNoAccess);
}

// The peer can remove pages from its area at any time.
TEST_F(HostileCopyTest, HolesInTheAreaReadAsZeros) {
  Node owner;
  std::vector<char> memory(kPlaceBytes, 'm');
  urma_target_seg_t* segment = owner.add(memory.data(), memory.size());
  Copier copier(owner);
  ASSERT_EQ(copier.peer.import(*segment), Answer::kAccepted);
  ASSERT_EQ(
      ::fallocate(copier.area.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kStagingBytes),
      0);
  EXPECT_EQ(copier.copy(CopySegmentRequest{
                reinterpret_cast<uint64_t>(memory.data()), static_cast<uint32_t>(segment->handle),
                1, 0, kPlaceBytes, static_cast<uint32_t>(Direction::kWrite), 0}),
            Answer::kAccepted);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), '\0'), kPlaceBytes);
}

// A message is readable to a peer with the key of its ring, while it is in flight.
TEST_F(HostileCopyTest, MessagesAreReadableOnlyToTheirReceiver) {
  RawOwner receiver;
  Node sender;
  std::vector<char> message(kBytes), behind(64, 's');
  for (uint32_t i = 0; i < kBytes; ++i) message[i] = static_cast<char>(i * 7 + (i >> 9));
  urma_jfs_t* jfs = sender.make_jfs(sender.make_jfc(), 8);
  urma_target_seg_t* segment = sender.add(message.data(), message.size());
  urma_target_seg_t* small = sender.add(behind.data(), behind.size());
  urma_target_jetty_t* to = sender.import(receiver.queue());
  ASSERT_EQ(sender.send(jfs, to, piece(segment, message.data(), kBytes), 1), URMA_SUCCESS);
  ASSERT_EQ(sender.send(jfs, to, piece(small, behind.data(), 64), 2), URMA_SUCCESS);
  uint64_t key;
  {
    RawSocket link = receiver.accept();
    Request open;
    ASSERT_TRUE(link.receive(&open, sizeof(open)));
    ASSERT_EQ(open.type, RequestType::kOpenRing);
    key = open.open_ring.key;
    Reply accepted = {};
    accepted.number = open.number;
    accepted.open_ring.receiver_jfc.bell = kNoBell;
    ASSERT_TRUE(link.send(&accepted, sizeof(accepted)));
    sender.settle();
    std::vector<urma_cr_t> none;
    sender.poll(static_cast<urma_jfc_t*>(jfs->jfs_cfg.jfc), &none);
    EXPECT_TRUE(none.empty());

    Copier copier(sender);
    const CopyMessageRequest good = {key, 0, jfs->jfs_id.id, 1, kPlaceBytes, 100};
    EXPECT_EQ(copier.copy(good), Answer::kAccepted);
    EXPECT_TRUE(std::equal(copier.place(1), copier.place(2), message.begin() + 100));
    std::vector<CopyMessageRequest> lies(9, good);
    lies[0].key ^= 1;
    lies[1].key = 0;
    lies[2].position = 1;  // a message inside the ring
    lies[3].position = 2;
    lies[4].position = ~0ULL;
    lies[5].position = 64;  // the same slot, one lap later
    lies[6].sender ^= 1;
    lies[7].offset = kBytes - kPlaceBytes + 1;
    lies[8].offset = ~0u;
    for (const CopyMessageRequest& lie : lies) {
      EXPECT_EQ(copier.copy(lie), Answer::kNoSuchObject);
    }
    CopyMessageRequest malformed = good;
    malformed.place = kPlaces;
    EXPECT_EQ(copier.copy(malformed), Answer::kMalformed);
    sender.end(segment);
    EXPECT_EQ(copier.copy(good), Answer::kNoAccess) << "its memory is no longer registered";
  }
  // The receiver is gone, and the message with it.
  std::vector<urma_cr_t> records;
  EXPECT_TRUE(eventually([&] {
    sender.poll(static_cast<urma_jfc_t*>(jfs->jfs_cfg.jfc), &records);
    return records.size() == 2;
  }));
  Copier copier(sender);
  EXPECT_EQ(copier.copy(CopyMessageRequest{key, 0, jfs->jfs_id.id, 1, 8, 0}),
            Answer::kNoSuchObject);
}

}  // namespace
}  // namespace urma::shm
