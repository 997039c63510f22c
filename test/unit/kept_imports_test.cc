// SPDX-License-Identifier: MIT
//
// Repeated imports: who is asked, when, and what they reach.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "test/process/kernel.h"
#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

urma_seg_t part_of(const urma_target_seg_t* registered, uint64_t offset, uint64_t bytes) {
  urma_seg_t part = registered->seg;
  part.ubva.va += offset;
  part.len = bytes;
  return part;
}

class KeptImportsTest : public urma_test::ProcessTest {
 protected:
  // The status of a READ of 8 bytes at `at` that is posted now.
  urma_cr_status_t read(urma_target_seg_t* remote, const void* at) {
    EXPECT_EQ(pair.sender.read(pair.jfs, pair.queue, piece(remote, at, 8), pair.here(), 1),
              URMA_SUCCESS);
    const urma_cr_t record = pair.wait_for_sent();
    pair.sent.clear();
    return record.status;
  }
  urma_cr_status_t write(urma_target_seg_t* remote, const void* at) {
    EXPECT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, at, 8), 1),
              URMA_SUCCESS);
    const urma_cr_t record = pair.wait_for_sent();
    pair.sent.clear();
    return record.status;
  }
  // The same through a separate import.
  urma_cr_status_t import_and_read(const urma_seg_t& described, const void* at) {
    urma_target_seg_t* remote = pair.sender.import(described);
    const urma_cr_status_t status = read(remote, at);
    pair.sender.end(remote);
    // All messages of the owner have arrived: about the grant, and about what can be mapped.
    pair.sender.settle();
    for (int answer = 0; answer < 2; ++answer) {
      pair.owner.settle();
      pair.sender.settle();
    }
    return status;
  }

  Pair pair;
};

TEST_F(KeptImportsTest, OwnerIsAskedOnce) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  const char* const target = pair.target.data();
  const urma_seg_t descriptions[] = {pair.registered->seg, part_of(pair.registered, 64, 8),
                                     part_of(pair.registered, 4095, 1)};
  // Nothing is mapped here: after the 16th import, the next question to the owner is at the 32nd.
  for (const urma_seg_t& described : descriptions) {
    for (int use = 0; use < 16; ++use) {
      EXPECT_EQ(import_and_read(described, target), URMA_CR_SUCCESS);
    }
  }
  const Pause owner_is_busy(pair.owner);
  for (int round = 0; round < 3; ++round) {
    for (const urma_seg_t& described : descriptions) {
      urma_target_seg_t* remote = pair.sender.import(described);
      // Beyond the descriptor.
      ASSERT_EQ(read(remote, target + 1024), URMA_CR_SUCCESS);
      pair.sender.end(remote);
    }
    urma_seg_t nothing = pair.registered->seg;
    nothing.ubva.va = 0;
    urma_target_seg_t* remote = pair.sender.import(nothing);
    ASSERT_EQ(read(remote, target + 8), URMA_CR_SUCCESS);
    pair.sender.end(remote);
  }
}

TEST_F(KeptImportsTest, EndWithTheRegistration) {
  char* const target = pair.target.data();
  std::vector<char> anchor(8);
  pair.owner.add(anchor.data(), anchor.size());
  const urma_seg_t described = pair.registered->seg;
  EXPECT_EQ(import_and_read(described, target), URMA_CR_SUCCESS);
  pair.owner.end(pair.registered);
  EXPECT_EQ(import_and_read(described, target), URMA_CR_REM_ACCESS_ABORT_ERR);
  // Memory registered in its place is granted as it is: shorter, and read-only.
  pair.owner.add(target, 64, URMA_ACCESS_READ);
  EXPECT_EQ(import_and_read(described, target), URMA_CR_SUCCESS);
  EXPECT_EQ(import_and_read(described, target + 64), URMA_CR_REM_ACCESS_ABORT_ERR);
  urma_target_seg_t* remote = pair.sender.import(described);
  EXPECT_EQ(write(remote, target), URMA_CR_REM_ACCESS_ABORT_ERR);
}

// One after another, more than are kept.
TEST_F(KeptImportsTest, LeastRecentlyUsedAreDropped) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  constexpr uint32_t kMany = 300, kKept = 256, kEach = 64;
  std::vector<char> memory(kMany * kEach);
  std::vector<urma_target_seg_t*> segments;
  for (uint32_t i = 0; i < kMany; ++i) {
    segments.push_back(pair.owner.add(memory.data() + i * kEach, kEach));
    // As often, because the owner is asked each time when nothing is mapped.
    for (int use = 0; use < 4; ++use) {
      ASSERT_EQ(import_and_read(segments[i]->seg, memory.data() + i * kEach), URMA_CR_SUCCESS);
    }
  }
  auto busy = std::make_unique<Pause>(pair.owner);
  for (uint32_t i = kMany - kKept; i < kMany; ++i) {
    urma_target_seg_t* remote = pair.sender.import(segments[i]->seg);
    ASSERT_EQ(read(remote, memory.data() + i * kEach), URMA_CR_SUCCESS);
    pair.sender.end(remote);
  }
  urma_target_seg_t* remote = pair.sender.import(segments[kMany - kKept - 1]->seg);
  ASSERT_EQ(pair.sender.read(pair.jfs, pair.queue, piece(remote, memory.data(), 8), pair.here(), 1),
            URMA_SUCCESS);
  pair.poll();
  EXPECT_TRUE(pair.sent.empty());
  busy.reset();
  EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS);
}

// Of everything that its token id grants, whatever the descriptor says.
TEST_F(KeptImportsTest, ReachesEveryRegistrationOfItsTokenId) {
  std::vector<char> second(4096), third(4096);
  pair.owner.add(second.data(), second.size());
  pair.owner.add(third.data(), third.size(), URMA_ACCESS_READ);
  urma_seg_t nothing = pair.registered->seg;
  nothing.ubva.va = 0;
  for (const urma_seg_t& described : {part_of(pair.registered, 0, 8), nothing}) {
    urma_target_seg_t* remote = pair.sender.import(described);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(write(remote, pair.target.data() + 4088), URMA_CR_SUCCESS);
      EXPECT_EQ(write(remote, pair.target.data() + 4089), URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_EQ(write(remote, second.data()), URMA_CR_SUCCESS);
      EXPECT_EQ(write(remote, second.data() + 4089), URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_EQ(read(remote, third.data() + 8), URMA_CR_SUCCESS);
      EXPECT_EQ(write(remote, third.data() + 8), URMA_CR_REM_ACCESS_ABORT_ERR);
    }
    pair.sender.end(remote);
  }
}

// Two registrations of the same bytes: the import of one may use what the other one grants.
TEST_F(KeptImportsTest, RightsAreThoseOfAllRegistrations) {
  std::vector<char> memory(4096);
  urma_target_seg_t* const whole = pair.owner.add(memory.data(), memory.size(), URMA_ACCESS_READ);
  urma_target_seg_t* const part = pair.owner.add(memory.data() + 64, 64);
  urma_target_seg_t* remote = pair.sender.import(whole->seg);
  EXPECT_EQ(read(remote, memory.data()), URMA_CR_SUCCESS);
  EXPECT_EQ(write(remote, memory.data()), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(write(remote, memory.data() + 64), URMA_CR_SUCCESS);
  pair.sender.end(remote);
  // What is kept of the whole is not all that the part grants.
  remote = pair.sender.import(part->seg);
  EXPECT_EQ(read(remote, memory.data() + 64), URMA_CR_SUCCESS);
  EXPECT_EQ(write(remote, memory.data() + 64), URMA_CR_SUCCESS);
  EXPECT_EQ(write(remote, memory.data() + 128), URMA_CR_REM_ACCESS_ABORT_ERR);
}

// The smaller registration is meant, even though the kept import of the other one covers it.
TEST_F(KeptImportsTest, InvalidationEndsTheRegistrationThatWasImported) {
  std::vector<char> memory(4096);
  urma_target_seg_t* const whole = pair.owner.add(memory.data(), memory.size(), URMA_ACCESS_READ);
  urma_target_seg_t* const part = pair.owner.add(memory.data(), 64);
  EXPECT_EQ(import_and_read(whole->seg, memory.data()), URMA_CR_SUCCESS);
  urma_target_seg_t* remote = pair.sender.import(part->seg);
  EXPECT_EQ(write(remote, memory.data()), URMA_CR_SUCCESS);
  pair.post_receive(2);
  urma_sge_t here = pair.here();
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND_INVALIDATE;
  wr.send.src = {&here, 1};
  wr.send.tseg = remote;
  EXPECT_EQ(pair.sender.execute(pair.jfs, pair.queue, wr, 1), URMA_SUCCESS);
  ASSERT_TRUE(pair.wait_for(1, 1));
  pair.sent.clear();
  EXPECT_EQ(write(remote, memory.data()), URMA_CR_REM_ACCESS_ABORT_ERR);
  pair.sender.end(remote);
  EXPECT_EQ(import_and_read(whole->seg, memory.data()), URMA_CR_SUCCESS);
}

// -------------------------------------------------------------------------------------------------
// Owners that are made by hand
// -------------------------------------------------------------------------------------------------

using KeptImportsOfRawOwners = urma_test::ProcessTest;

class OneImport {
 public:
  explicit OneImport(RawOwner* owner) : owner_(owner) {
    target_ = importer_.import(owner->queue());
  }

  urma_target_seg_t* begin() { return remote_ = importer_.import(owner_->segment()); }
  void end() { importer_.end(remote_); }
  // The next import request; empty if none has come.
  std::optional<Request> asked() {
    pollfd watched = {peer().fd(), POLLIN, 0};
    importer_.settle();
    Request request;
    if (::poll(&watched, 1, 0) <= 0) return std::nullopt;
    EXPECT_TRUE(peer().receive(&request, sizeof(request)));
    return request;
  }
  void grant(const Request& request, const ImportSegmentAnswer& given) {
    Reply reply = {};
    reply.number = request.number;
    reply.import_segment = given;
    EXPECT_TRUE(peer().send(&reply, sizeof(reply)));
    importer_.settle();
    // What can be mapped: nothing.
    const std::optional<Request> mapping = asked();
    ASSERT_TRUE(mapping.has_value());
    EXPECT_EQ(mapping->type, RequestType::kMapSegment);
    reply.number = mapping->number;
    reply.answer = Answer::kNoAccess;
    EXPECT_TRUE(peer().send(&reply, sizeof(reply)));
    importer_.settle();
  }

  // The owner reports the end of a registration.
  void tell() {
    const Reply news = {};
    EXPECT_TRUE(peer().send(&news, sizeof(news)));
    importer_.settle();
  }

 private:
  RawSocket& peer() {
    if (!peer_.has_value()) peer_.emplace(owner_->accept());
    return *peer_;
  }

  RawOwner* const owner_;
  Node importer_;
  std::optional<RawSocket> peer_;
  urma_target_jetty_t* target_;
  urma_target_seg_t* remote_ = nullptr;
};

// An owner may share later what it does not share now.
TEST_F(KeptImportsOfRawOwners, OwnersAreAskedOccasionallyWhileNothingIsMapped) {
  RawOwner owner;
  OneImport import(&owner);
  std::vector<int> asked_at;
  for (int use = 1; use <= 64; ++use) {
    import.begin();
    std::optional<Request> request = import.asked();
    if (request.has_value()) {
      EXPECT_EQ(request->type, RequestType::kImportSegment);
      asked_at.push_back(use);
      // The word at its index is 0, the granted generation.
      import.grant(*request, {4096, 4096, kAllAccess, 3, 0, Reach::kMapped});
    }
    import.end();
  }
  EXPECT_EQ(asked_at, (std::vector<int>{1, 2, 3, 4, 8, 16, 32, 64}));
}

// A grant withdrawn while it is kept.
TEST_F(KeptImportsOfRawOwners, WithdrawnGrantIsRequestedAgain) {
  RawOwner owner;
  OneImport import(&owner);
  import.begin();
  import.grant(import.asked().value(), {4096, 4096, kAllAccess, 3, 0, Reach::kMapped});
  import.end();
  owner.set_word(3, 1);
  import.begin();
  const std::optional<Request> again = import.asked();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->type, RequestType::kImportSegment);
  import.end();
}

// Only the flag ends a grant, however often its end is reported.
TEST_F(KeptImportsOfRawOwners, FalseNotificationsOfAnEndAreIgnored) {
  RawOwner owner;
  OneImport import(&owner);
  for (int use = 1; use <= 4; ++use) {
    import.begin();
    import.grant(import.asked().value(), {4096, 4096, kAllAccess, 3, 0, Reach::kMapped});
    import.end();
  }
  for (int i = 0; i < 100; ++i) import.tell();
  import.begin();
  EXPECT_FALSE(import.asked().has_value());
  import.end();
}

}  // namespace
}  // namespace urma::shm
