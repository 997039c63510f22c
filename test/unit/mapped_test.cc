// SPDX-License-Identifier: MIT
//
// One-sided requests on memory that the importer maps: where the bytes go, who may do what, what
// happens when the owner takes the segment back, and what a lying owner achieves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "segment/mapped_view.h"
#include "segment/page_size.h"
#include "test/process/kernel.h"
#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

const uint64_t kPage = page_bytes();
const uint64_t kAreaBytes = 16 * kPage;
constexpr uint64_t kRagged = 100;

// Memory that is shared from the start and handed out page by page, as by the real table.
class BornShared : public SharedPages {
 public:
  BornShared()
      : memory_(SharedMemory::create("test", kAreaBytes, PeerMay::kWrite)),
        begin_(reinterpret_cast<uint64_t>(memory_.data())) {}

  char* data() const { return static_cast<char*>(memory_.data()); }
  // What parts() says instead of the truth.
  std::vector<SharedPart> lie;
  // How long share() takes, in turns.
  std::atomic<int> turns{3};
  std::atomic<bool> lacks_memory{false};
  // The same for remove_some().
  std::atomic<int> leave_turns{3};

  RangeId add(uint64_t va, uint64_t len, const Audience& /*audience*/) override {
    std::lock_guard lock(mutex_);
    ranges_.emplace_back(va, len);
    return ranges_.size();
  }
  bool imported(RangeId /*range*/) override { return true; }
  bool share(RangeId /*range*/, uint64_t /*budget*/) override {
    if (lacks_memory) throw std::bad_alloc();
    return --turns <= 0;
  }
  std::vector<SharedPart> parts(RangeId range) const override {
    if (!lie.empty()) return lie;
    std::lock_guard lock(mutex_);
    const auto [va, len] = ranges_[range - 1];
    const uint64_t first = std::max((va + kPage - 1) / kPage * kPage, begin_);
    const uint64_t last = std::min((va + len) / kPage * kPage, begin_ + kAreaBytes);
    if (first >= last) return {{va, len, -1, 0, URMA_EXT_REASON_RAGGED}};
    std::vector<SharedPart> parts;
    if (first > va) parts.push_back({va, first - va, -1, 0, URMA_EXT_REASON_RAGGED});
    parts.push_back({first, last - first, memory_.fd(), first - begin_, URMA_EXT_REASON_NONE});
    if (last < va + len) parts.push_back({last, va + len - last, -1, 0, URMA_EXT_REASON_RAGGED});
    return parts;
  }
  void remove(RangeId /*range*/) override { ++removed; }
  bool remove_some(RangeId /*range*/, uint64_t /*budget*/) override { return --leave_turns <= 0; }
  void* allocate(uint64_t /*bytes*/, uint32_t /*flags*/) override { return nullptr; }
  bool deallocate(void* /*memory*/) override { return false; }

  std::atomic<int> removed{0};

 private:
  const SharedMemory memory_;
  const uint64_t begin_;
  mutable std::mutex mutex_;
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

Request asks_to_map(const urma_seg_t& seg) {
  Request map = RawPeer::request(RequestType::kMapSegment);
  map.import_segment = {seg.ubva.eid, seg.ubva.va, seg.len, seg.token_id, 0, 0, 0};
  return map;
}

// By requests of the numbers 1 to `count`; the answers remain to be received.
void ask_to_map(RawPeer* peer, const urma_seg_t& seg, uint32_t count) {
  Request map = asks_to_map(seg);
  for (map.number = 1; map.number <= count; ++map.number) {
    EXPECT_TRUE(eventually([&] { return peer->send(&map, sizeof(map)); }));
  }
}

class MappedTest : public urma_test::ProcessTest {
 protected:
  MappedTest() { pages_of_nodes = &pages; }
  ~MappedTest() override { pages_of_nodes = nullptr; }

  // A pair whose remote segment is [skip, kAreaBytes - skip) of the shared area.
  urma_target_seg_t* map(Pair* pair, uint64_t skip = 0, uint32_t access = kAllAccess) {
    owned = pair->owner.add(pages.data() + skip, kAreaBytes - 2 * skip, access);
    return pair->sender.import_mapped(owned->seg);
  }
  // A message is to invalidate the segment that map() has returned.
  static void invalidate(Pair* pair, urma_target_seg_t* remote, uint64_t user_ctx) {
    urma_sge_t from = pair->here();
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_SEND_INVALIDATE;
    wr.send.src = {&from, 1};
    wr.send.tseg = remote;
    ASSERT_EQ(pair->sender.execute(pair->jfs, pair->queue, wr, user_ctx), URMA_SUCCESS);
  }
  urma_cr_t done(Pair* pair) {
    const urma_cr_t record = pair->wait_for_sent();
    pair->sent.clear();
    return record;
  }

  BornShared pages;
  urma_target_seg_t* owned = nullptr;
};

TEST_F(MappedTest, RequestsMoveBytesWithoutTheKernel) {
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  ASSERT_NE(remote->mva, 0u);
  for (const uint32_t bytes : {1U, 2U, 7U, 8U, 9U, 31U, 64U, 1000U, 4096U}) {
    std::iota(pair.source.begin(), pair.source.end(), static_cast<char>(bytes));
    std::fill_n(pages.data(), kAreaBytes, 0);
    ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(bytes),
                                piece(remote, pages.data() + 3, bytes), bytes),
              URMA_SUCCESS);
    EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    EXPECT_TRUE(std::equal(pair.source.begin(), pair.source.begin() + bytes, pages.data() + 3));
    EXPECT_EQ(pages.data()[2], 0);
    EXPECT_EQ(pages.data()[3 + bytes], 0);
    std::fill(pair.source.begin(), pair.source.end(), 0);
    ASSERT_EQ(pair.sender.read(pair.jfs, pair.queue, piece(remote, pages.data() + 3, bytes),
                               pair.here(bytes), bytes),
              URMA_SUCCESS);
    EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    EXPECT_TRUE(std::equal(pair.source.begin(), pair.source.begin() + bytes, pages.data() + 3));
  }
  EXPECT_EQ(pair.sender.copies(), 0u);
}

size_t mappings_of(const char* name) {
  std::ifstream maps("/proc/self/maps");
  size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.ends_with(name) ? 1 : 0;
  return found;
}

// One import, while its owner registers the memory anew for each request.
TEST_F(MappedTest, FormerRegistrationsDoNotStayMapped) {
  Pair pair;
  pair.connect();
  owned = pair.owner.add(pages.data(), kAreaBytes);
  urma_target_seg_t* const remote = pair.sender.import(owned->seg);
  const size_t before = mappings_of("memfd:test (deleted)");
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(
        pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
        URMA_SUCCESS);
    ASSERT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    pair.owner.end(owned);
    owned = pair.owner.add(pages.data(), kAreaBytes);
  }
  EXPECT_LE(mappings_of("memfd:test (deleted)"), before + 4);
  // Most were mapped: the first request of each waits for that for a moment.
  EXPECT_LT(pair.sender.copies(), 25u);
}

// A program that loads and stores there itself does not ask whether the registration stands.
TEST_F(MappedTest, AnAddressThatTheProgramHasStaysMapped) {
  Pair pair;
  pair.connect();
  urma_target_seg_t* const remote = map(&pair);
  ASSERT_NE(remote->mva, 0u);
  for (int round = 0; round < 5; ++round) {
    pair.owner.end(owned);
    owned = pair.owner.add(pages.data(), kAreaBytes);
    ASSERT_EQ(
        pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
        URMA_SUCCESS);
    ASSERT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    pair.sender.settle();
  }
  EXPECT_EQ(*reinterpret_cast<volatile char*>(remote->mva), 's');
}

// Each answer about mapping brings two descriptors. What a peer has not read is in flight, or waits
// without descriptors.
TEST_F(MappedTest, PeersThatReadNoAnswersTakeNoDescriptors) {
  constexpr uint32_t kRequests = 1000, kMostUnread = 64;
  pages.turns = INT_MAX;
  Node owner;
  const urma_seg_t seg = owner.add(pages.data(), kAreaBytes)->seg;
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  ask_to_map(&peer, seg, kRequests);
  ASSERT_TRUE(eventually([&] {
    owner.settle();
    return INT_MAX - pages.turns >= static_cast<int>(kRequests);
  }));
  const auto before = open_descriptors();
  pages.turns = 0;
  for (int i = 0; i < 10; ++i) owner.settle();
  EXPECT_LE(open_descriptors(), before + 8);
  Reply answer;
  uint32_t answers = 0;
  {
    const Pause pause(owner);
    while (::recv(peer.fd(), &answer, sizeof(answer), MSG_DONTWAIT) > 0) ++answers;
    EXPECT_LE(answers, kMostUnread);
  }
  for (; answers < kRequests; ++answers) {
    ASSERT_TRUE(peer.receive(&answer, sizeof(answer)));
    ASSERT_EQ(answer.answer, Answer::kAccepted);
  }
}

// However often it is asked for a segment, the service thread shares a turn's worth of it at a
// time, and has other work done in between.
TEST_F(MappedTest, PeersThatAskAgainAndAgainDelayNoOthers) {
  constexpr uint32_t kRequests = 500;
  pages.turns = INT_MAX;
  Node owner;
  const urma_seg_t seg = owner.add(pages.data(), kAreaBytes)->seg;
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  ask_to_map(&peer, seg, kRequests);
  // The last one is the first to be answered.
  EXPECT_EQ(peer.ask(RawPeer::request(RequestType::kAtomic)), Answer::kMalformed);
  int before = 0, after = 0;
  owner.service().run([&] {
    before = pages.turns;
    owner.service().post([&] { after = pages.turns; });
  });
  owner.settle();
  EXPECT_LE(before - after, 2);
  pages.turns = 0;
  Reply answer;
  for (uint32_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(peer.receive(&answer, sizeof(answer)));
    EXPECT_EQ(answer.answer, Answer::kAccepted);
  }
}

// What is shared by then is not sealed against peers that may only read it.
TEST_F(MappedTest, WhatCannotBeSharedIsNotHandedOut) {
  pages.lacks_memory = true;
  Node owner;
  const urma_seg_t seg = owner.add(pages.data(), kAreaBytes)->seg;
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  EXPECT_EQ(peer.ask(asks_to_map(seg)), Answer::kNoResources);
  pages.lacks_memory = false;
  EXPECT_EQ(peer.ask(asks_to_map(seg)), Answer::kAccepted);
}

TEST_F(MappedTest, NothingIsSharedForPeersThatHaveGone) {
  pages.turns = INT_MAX;
  Node owner;
  const urma_seg_t seg = owner.add(pages.data(), kAreaBytes)->seg;
  // Whether a turn comes between two tasks.
  const auto shares = [&] {
    int before = 0, after = 0;
    owner.service().run([&] {
      before = pages.turns;
      owner.service().post([&] { after = pages.turns; });
    });
    owner.settle();
    return after < before;
  };
  {
    RawPeer peer(owner);
    ASSERT_EQ(peer.greet(), Answer::kAccepted);
    ask_to_map(&peer, seg, 1);
    EXPECT_TRUE(eventually(shares));
  }
  EXPECT_TRUE(eventually([&] { return !shares(); }));
}

// The news of many registrations is one message, if the peer does not read meanwhile.
TEST_F(MappedTest, PeersThatReadNoAnswersGetTheNewsLater) {
  constexpr uint32_t kSegments = 200;
  Node owner;
  std::vector<char> memory(kSegments * 8);
  std::vector<urma_target_seg_t*> segments;
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  for (uint32_t i = 0; i < kSegments; ++i) {
    segments.push_back(owner.add(memory.data() + i * 8, 8));
    ASSERT_EQ(peer.import(*segments[i]), Answer::kAccepted);
  }
  const Request request = RawPeer::request(RequestType::kAtomic);
  bool more = true;
  while (more) {
    more = false;
    while (peer.send(&request, sizeof(request))) more = true;
    owner.settle();
  }
  for (urma_target_seg_t* segment : segments) owner.end(segment);
  owner.settle();
  Reply answer = {};
  answer.number = 1;
  while (answer.number != 0) ASSERT_TRUE(peer.receive(&answer, sizeof(answer)));
  EXPECT_EQ(answer.answer, Answer::kNoSuchObject);
}

TEST_F(MappedTest, TheCallerExecutesAtomics) {
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  auto* word = reinterpret_cast<uint64_t*>(pages.data() + 64);
  auto* result = reinterpret_cast<uint64_t*>(pair.source.data());
  *word = 41;
  const Pause nobody_serves(pair.owner);
  ASSERT_EQ(pair.sender.atomic(URMA_OPC_FADD, pair.jfs, pair.queue, pair.here(),
                               piece(remote, word, 8), 1),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  EXPECT_EQ(*result, 41u);
  EXPECT_EQ(*word, 42u);
  *word = 0;
  ASSERT_EQ(pair.sender.atomic(URMA_OPC_CAS, pair.jfs, pair.queue, pair.here(),
                               piece(remote, word, 8), 2),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  EXPECT_EQ(*result, 0u);
  EXPECT_EQ(*word, 1u);
  ASSERT_EQ(pair.sender.atomic(URMA_OPC_FADD, pair.jfs, pair.queue, pair.here(),
                               piece(remote, pages.data() + 65, 8), 3),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
}

TEST_F(MappedTest, UnalignedEndsAreCopiedAndTheMiddleIsMapped) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  Pair pair;
  urma_target_seg_t* remote = map(&pair, kRagged);
  EXPECT_EQ(remote->mva, 0u);
  const uint64_t kAll = kAreaBytes - 2 * kRagged;
  std::vector<char> bytes(kAll);
  std::iota(bytes.begin(), bytes.end(), 1);
  urma_target_seg_t* from = pair.sender.add(bytes.data(), bytes.size());
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, piece(from, bytes.data(), kAll),
                              piece(remote, pages.data() + kRagged, kAll), 1),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), pages.data() + kRagged));
  // One for each end.
  EXPECT_EQ(pair.sender.copies(), 2u);
  // Across a boundary, and on its copied side.
  for (const uint64_t at : {kPage - 4, kAreaBytes - kPage - 4, kRagged}) {
    ASSERT_EQ(pair.sender.read(pair.jfs, pair.queue, piece(remote, pages.data() + at, 8),
                               pair.here(), at),
              URMA_SUCCESS);
    EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    EXPECT_TRUE(std::equal(pair.source.begin(), pair.source.begin() + 8, pages.data() + at));
  }
}

TEST_F(MappedTest, MappedAndCopiedAtomicsAreAtomicOnOneWord) {
  constexpr uint64_t kEach = 300;
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  // The second registration covers the word in a ragged page, so its owner executes the atomics.
  auto* word = reinterpret_cast<uint64_t*>(pages.data() + 64);
  *word = 0;
  urma_target_seg_t* ragged = pair.owner.add(word, 64);
  urma_target_seg_t* copied = pair.sender.import_mapped(ragged->seg);
  EXPECT_EQ(copied->mva, 0u);
  std::thread local([&] {
    for (uint64_t i = 0; i < kEach; ++i) __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
  });
  for (uint64_t i = 0; i < kEach; ++i) {
    for (urma_target_seg_t* segment : {remote, copied}) {
      EXPECT_EQ(pair.sender.atomic(URMA_OPC_FADD, pair.jfs, pair.queue, pair.here(),
                                   piece(segment, word, 8), i),
                URMA_SUCCESS);
      EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    }
  }
  local.join();
  EXPECT_EQ(*word, 3 * kEach);
}

// The kernel copies bytes in any order: a value that must be seen whole is written by the owner if
// it is not mapped.
TEST_F(MappedTest, AlignedValueOfANotificationIsWrittenAsOneWord) {
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  urma_target_seg_t* ragged = pair.owner.add(pages.data() + 64, 64);
  urma_target_seg_t* copied = pair.sender.import_mapped(ragged->seg);
  EXPECT_EQ(copied->mva, 0u);
  for (const uint64_t offset : {0, 4, 8}) {
    urma_sge_t from = pair.here();
    char* const at = pages.data() + 64 + offset;
    urma_sge_t there[] = {piece(remote, pages.data() + kPage, 8), piece(copied, at, 8)};
    const uint64_t wanted = 0x0102030405060708 + offset;
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_WRITE_NOTIFY;
    wr.rw.src = {&from, 1};
    wr.rw.dst = {there, 2};
    wr.rw.notify_data = wanted;
    const uint64_t before = pair.sender.copies();
    ASSERT_EQ(pair.sender.execute(pair.jfs, pair.queue, wr, offset), URMA_SUCCESS);
    EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    EXPECT_EQ(std::memcmp(at, &wanted, sizeof(wanted)), 0);
    EXPECT_EQ(pair.sender.copies() - before, offset % 8 == 0 ? 0u : 1u);
  }
}

// The sanitizers handle the signal differently.
void store(uint64_t address) {
  std::signal(SIGSEGV, SIG_DFL);
  *reinterpret_cast<volatile char*>(address) = 'y';
}

TEST_F(MappedTest, RightsAreThoseOfTheOwner) {
  Pair pair;
  urma_target_seg_t* remote = map(&pair, 0, URMA_ACCESS_READ);
  ASSERT_NE(remote->mva, 0u);
  const auto* first = reinterpret_cast<volatile char*>(remote->mva);
  pages.data()[0] = 'x';
  EXPECT_EQ(*first, 'x');
  EXPECT_EXIT(store(remote->mva), testing::KilledBySignal(SIGSEGV), "");
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(pages.data()[0], 'x');
}

TEST_F(MappedTest, ImporterMayAskForFewerRights) {
  Pair pair;
  owned = pair.owner.add(pages.data(), kAreaBytes);
  urma_target_seg_t* remote = pair.sender.import_mapped(owned->seg, URMA_ACCESS_READ);
  ASSERT_NE(remote->mva, 0u);
  EXPECT_EXIT(store(remote->mva), testing::KilledBySignal(SIGSEGV), "");
  // The owner allows it, so a request still can, on another path.
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  EXPECT_EQ(pages.data()[0], 's');
  EXPECT_EQ(pair.sender.copies(), 1u);
}

TEST_F(MappedTest, UnregistrationRevokesTheMapping) {
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  ASSERT_NE(remote->mva, 0u);
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  pair.owner.end(owned);
  EXPECT_EQ(pages.removed, 1);
  pages.data()[0] = 'x';
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 2),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(pages.data()[0], 'x');
  // Registered again under the same token id, it is found again.
  owned = pair.owner.add(pages.data(), kAreaBytes);
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 3),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  EXPECT_EQ(pages.data()[0], 's');
}

// The owner's service thread serves others, however long it takes to make the pages private.
TEST_F(MappedTest, UnsharingAnInvalidatedSegmentDelaysNoOther) {
  constexpr int kForEver = 1 << 30;
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  ASSERT_NE(remote->mva, 0u);
  pages.leave_turns = kForEver;
  pair.post_receive(1);
  invalidate(&pair, remote, 2);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  ASSERT_TRUE(eventually([&] { return pages.leave_turns < kForEver - 10; }));
  pair.connect();
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 3),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(pages.removed, 0);
  pair.owner.end(owned);
  EXPECT_EQ(pages.removed, 1);
}

// It applies to what its sender was granted, not to what was registered in its place since.
TEST_F(MappedTest, InvalidationEndsOneRegistration) {
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  ASSERT_NE(remote->mva, 0u);
  pair.post_receive(0);
  ASSERT_EQ(pair.send(0), URMA_SUCCESS);
  ASSERT_TRUE(pair.wait_for(1, 1));
  pair.sent.clear();
  pair.received.clear();
  // With a ring, the message is sent at once; there is no posted receive for it.
  invalidate(&pair, remote, 1);
  pair.owner.end(owned);
  owned = pair.owner.add(pages.data(), kAreaBytes);
  pair.post_receive(2);
  EXPECT_EQ(done(&pair).status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_TRUE(pair.received.empty());
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 3),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  // The new one is granted now.
  invalidate(&pair, remote, 4);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 5),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_REM_ACCESS_ABORT_ERR);
}

TEST_F(MappedTest, CompletionsStayInPostOrder) {
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  // No receive is posted, so the send is unfinished.
  ASSERT_EQ(pair.send(1), URMA_SUCCESS);
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 2),
            URMA_SUCCESS);
  pair.owner.settle();
  pair.poll();
  EXPECT_TRUE(pair.sent.empty());
  pair.post_receive(3);
  ASSERT_TRUE(pair.wait_for(2, 1));
  EXPECT_EQ(pair.sent[0].user_ctx, 1u);
  EXPECT_EQ(pair.sent[1].user_ctx, 2u);
}

TEST_F(MappedTest, InvalidMappingsOfAnOwnerAreRefused) {
  const uint64_t begin = reinterpret_cast<uint64_t>(pages.data());
  const Fd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), kAreaBytes), 0);
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const SharedMemory small = SharedMemory::create("small", kPage, PeerMay::kWrite);
  const std::vector<std::vector<SharedPart>> lies = {
      {{begin, kAreaBytes, unsealed.get(), 0, URMA_EXT_REASON_NONE}},
      {{begin, kAreaBytes, file.get(), 0, URMA_EXT_REASON_NONE}},
      {{begin, kAreaBytes, small.fd(), 0, URMA_EXT_REASON_NONE}},
      {{begin, kPage, small.fd(), kPage, URMA_EXT_REASON_NONE}},
      {{begin, kPage, small.fd(), UINT64_MAX - 10, URMA_EXT_REASON_NONE}},
      {{begin, 2 * kAreaBytes, small.fd(), 0, URMA_EXT_REASON_NONE}},
      {{begin + kPage, kPage, small.fd(), 0, URMA_EXT_REASON_NONE}},
      {{begin, 0, small.fd(), 0, URMA_EXT_REASON_NONE}},
      {{begin, kAreaBytes, -1, 0, static_cast<urma_ext_reason_t>(12345)}},
      std::vector<SharedPart>(100, {begin, kPage, small.fd(), 1, URMA_EXT_REASON_NONE}),
  };
  for (const auto& lie : lies) {
    pages.lie = lie;
    Pair pair;
    urma_target_seg_t* remote = map(&pair);
    EXPECT_EQ(remote->mva, 0u);
    pages.data()[0] = 'x';
    ASSERT_EQ(
        pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
        URMA_SUCCESS);
    EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
    EXPECT_EQ(pages.data()[0], 's');
  }
}

TEST_F(MappedTest, OverlappingPagesAreNotMapped) {
  const uint64_t begin = reinterpret_cast<uint64_t>(pages.data());
  const SharedMemory other = SharedMemory::create("other", kAreaBytes, PeerMay::kWrite);
  pages.lie = {{begin, 100, other.fd(), 0, URMA_EXT_REASON_NONE},
               {begin + 100, kPage - 100, other.fd(), 0, URMA_EXT_REASON_NONE},
               {begin + kPage, kAreaBytes - kPage, other.fd(), kPage, URMA_EXT_REASON_NONE}};
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  EXPECT_EQ(remote->mva, 0u);
  pages.data()[0] = 'x';
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  EXPECT_EQ(pages.data()[0], 's');
}

// A word written as a whole is seen as a whole, and as the last of its request.
TEST_F(MappedTest, WordsAreNotTorn) {
  constexpr uint32_t kValues[] = {0x00ffffff, 0x01000000};
  Pair pair;
  urma_target_seg_t* remote = map(&pair);
  auto* const seen = reinterpret_cast<std::atomic<uint32_t>*>(pages.data() + 64);
  seen->store(kValues[0]);
  std::atomic<bool> stop{false};
  uint64_t torn = 0;
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const uint32_t value = seen->load(std::memory_order_relaxed);
      if (value != kValues[0] && value != kValues[1]) ++torn;
    }
  });
  for (uint64_t i = 0; i < 20000; ++i) {
    std::memcpy(pair.source.data(), &kValues[i % 2], 4);
    EXPECT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(4), piece(remote, seen, 4), i),
              URMA_SUCCESS);
    pair.poll();
    pair.sent.clear();
  }
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0u);
}

TEST_F(MappedTest, SegmentUnregisteredWhileItIsSharedIsNotHandedOut) {
  Pair pair;
  pages.turns = 1 << 30;
  owned = pair.owner.add(pages.data(), kAreaBytes);
  urma_target_seg_t* remote = pair.sender.import(owned->seg);
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 1),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_SUCCESS);
  pair.owner.end(owned);
  pages.turns = 0;
  pair.owner.settle();
  pair.sender.settle();
  ASSERT_EQ(pair.sender.write(pair.jfs, pair.queue, pair.here(), piece(remote, pages.data(), 8), 2),
            URMA_SUCCESS);
  EXPECT_EQ(done(&pair).status, URMA_CR_REM_ACCESS_ABORT_ERR);
}

}  // namespace
}  // namespace urma::shm
