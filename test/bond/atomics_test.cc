// SPDX-License-Identifier: MIT
//
// Atomics of near peers, which run on mapped memory of the owner, and of far ones, which the
// owner's polling thread executes.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

// Words of the segment, by their offsets. A word has two halves.
constexpr uint64_t kSum = 0;
constexpr uint64_t kHalfSum = 8;
constexpr uint64_t kOtherHalfSum = 12;
constexpr uint64_t kLock = 16;
constexpr uint64_t kHalfLock = 24;
constexpr uint64_t kSumBesideHalfLock = 28;
constexpr uint64_t kKind = 32;  // of the lists that all post now, for each far peer
constexpr uint64_t kMessage = 64;

// Of peers.
constexpr int kNear = 2;
constexpr int kFar = 2;

// Of lists.
enum Kind : uint64_t { kSums, kHalfSums, kLocks, kHalfLocks, kKinds };

// How often a word was counted up.
struct Counts {
  uint64_t sum = 0;
  uint64_t half = 0;
  uint64_t other_half = 0;
  uint64_t beside_lock = 0;

  Counts& operator+=(const Counts& more) {
    sum += more.sum;
    half += more.half;
    other_half += more.other_half;
    beside_lock += more.beside_lock;
    return *this;
  }
};

// Posts lists of atomics of one kind, as fast as they come: one after the other, those of a far
// peer would hardly ever meet those of a near one.
class Adder {
 public:
  // `number` is that of the peer, from 1 on.
  Adder(const Offer& offer, bool near, uint64_t number) : party(offer, near), mine_(number) {
    olds_ = party.endpoint.add(old_.data(), sizeof(old_), URMA_ACCESS_LOCAL_ONLY);
  }

  void post_list(uint64_t kind) {
    count_ = 0;
    while (count_ + kLongestStep <= kRequests) step(kind);
    for (size_t i = 0; i < count_; ++i) list_[i].next = i + 1 < count_ ? &list_[i + 1] : nullptr;
    urma_jfs_wr_t* bad = nullptr;
    ASSERT_EQ(party.endpoint.post(list_.data(), &bad), URMA_SUCCESS);
    for (size_t i = 0; i < count_; ++i) wait_for_success(party.endpoint.send_jfc, i);
    if (kind == kSums) check_sums();
    if (kind == kLocks) check_locks(2);
    if (kind == kHalfLocks) check_locks(3);
  }

  Importer party;
  Counts counts;
  uint64_t taken = 0;  // locks

 private:
  static constexpr size_t kRequests = 64;
  static constexpr size_t kLongestStep = 3;

  void step(uint64_t kind) {
    switch (kind) {
      case kSums:
        return add(kSum, 8, &counts.sum);
      case kHalfSums:
        add(kHalfSum, 4, &counts.half);
        return add(kOtherHalfSum, 4, &counts.other_half);
      case kLocks:
        return take_and_leave(kLock, 8);
      default:
        take_and_leave(kHalfLock, 4);
        return add(kSumBesideHalfLock, 4, &counts.beside_lock);
    }
  }
  void pieces(uint64_t offset, uint32_t width) {
    old_[count_] = 0;
    here_[count_] = piece(olds_, &old_[count_], width);
    there_[count_] = piece(party.remote, party.remote->seg.ubva.va + offset, width);
  }
  void add(uint64_t offset, uint32_t width, uint64_t* counted) {
    pieces(offset, width);
    list_[count_] = add_request(party.queue, &here_[count_], &there_[count_], 1, count_);
    ++count_;
    ++*counted;
  }
  void cas(uint64_t offset, uint32_t width, uint64_t from, uint64_t to) {
    pieces(offset, width);
    list_[count_] = cas_request(party.queue, &here_[count_], &there_[count_], from, to, count_);
    ++count_;
  }
  void take_and_leave(uint64_t offset, uint32_t width) {
    cas(offset, width, 0, mine_);
    cas(offset, width, mine_, 0);
  }
  void check_sums() {
    for (size_t i = 0; i < count_; ++i) {
      EXPECT_GE(old_[i], next_) << "another one has the same sum";
      next_ = old_[i] + 1;
    }
  }
  // The process that has taken a lock finds it so, and no other one does.
  void check_locks(size_t step) {
    for (size_t i = 0; i < count_; i += step) {
      taken += old_[i] == 0 ? 1 : 0;
      EXPECT_EQ(old_[i + 1] == mine_, old_[i] == 0) << old_[i] << ", and then " << old_[i + 1];
    }
  }

  const uint64_t mine_;
  uint64_t next_ = 0;
  size_t count_ = 0;
  std::array<uint64_t, kRequests> old_ = {};
  std::array<urma_sge_t, kRequests> here_;
  std::array<urma_sge_t, kRequests> there_;
  std::array<urma_jfs_wr_t, kRequests> list_;
  urma_target_seg_t* olds_;
};

// The owner polls a queue that has far senders: its thread executes what they ask for.
void own(Channel& channel) {
  live_in("one");
  OwnedEndpoint endpoint;
  // Can be shared without being moved.
  auto* memory = static_cast<char*>(urma_ext_alloc(kPage, 0));
  ASSERT_NE(memory, nullptr);
  urma_target_seg_t* segment = endpoint.add(memory, kPage);
  for (int i = 0; i < 2 * kFar; ++i) endpoint.post_receive(segment, memory + kMessage, 8);
  channel.send(offer_of(endpoint, segment));
  for (int i = 0; i < 2 * kFar; ++i) {
    EXPECT_EQ(wait_for(endpoint.receive_jfc, seconds(40)).status, URMA_CR_SUCCESS);
    if (i + 1 == kFar) channel.sync();
  }
  Counts all;
  for (int i = 0; i < kNear + kFar; ++i) all += channel.receive<Counts>();
  const auto* halves = reinterpret_cast<const volatile uint32_t*>(memory);
  EXPECT_EQ(*word_at(memory, kSum), all.sum);
  EXPECT_EQ(halves[kHalfSum / 4], static_cast<uint32_t>(all.half));
  EXPECT_EQ(halves[kOtherHalfSum / 4], static_cast<uint32_t>(all.other_half));
  EXPECT_EQ(*word_at(memory, kLock), 0U);
  EXPECT_EQ(halves[kHalfLock / 4], 0U);
  EXPECT_EQ(halves[kSumBesideHalfLock / 4], static_cast<uint32_t>(all.beside_lock));
  endpoint.remove(segment);
  EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
}

using AtomicsTest = ProcessTest;

TEST_F(AtomicsTest, NearAndFarOnesAreAtomicWithEachOther) {
  static constexpr int kFarLists = 400;  // of each kind
  Child owner("owner", own);
  const auto offer = owner.channel().receive<Offer>();
  std::vector<std::unique_ptr<Child>> children;
  const auto start = [&](const char* name, const Body& body) {
    children.push_back(std::make_unique<Child>(name, body));
  };
  for (int i = 0; i < kFar; ++i) {
    start("far", [=](Channel& channel) {
      live_in("other");
      Adder adder(offer, /*near=*/false, kNear + i + 1);
      adder.party.send_word(0);
      channel.sync();
      for (uint64_t kind = 0; kind < kKinds; ++kind) {
        for (int list = 0; list < kFarLists; ++list) adder.post_list(kind);
        adder.party.add(kKind, 1);
      }
      EXPECT_GT(adder.taken, 0U);
      adder.party.send_word(0);
      channel.send(adder.counts);
    });
  }
  owner.channel().sync();
  for (int i = 0; i < kNear; ++i) {
    start("near", [=](Channel& channel) {
      live_in("one");
      Adder adder(offer, /*near=*/true, i + 1);
      expect_all_mapped(adder.party.remote);
      channel.sync();
      uint64_t kind = 0;
      while ((kind = adder.party.read(kKind) / kFar) != kKinds) adder.post_list(kind);
      EXPECT_GT(adder.taken, 0U);
      channel.send(adder.counts);
    });
  }
  // The near ones first: they go on until the far ones have ended.
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    (*child)->channel().sync();
  }
  for (const auto& child : children) {
    owner.channel().send(child->channel().receive<Counts>());
    child->expect_success();
  }
  owner.expect_success();
}

}  // namespace
}  // namespace urma_test
