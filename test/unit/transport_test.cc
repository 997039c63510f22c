// SPDX-License-Identifier: MIT
//
// What programs may rely on between two honest processes: requests complete, in time and once,
// whatever happens to the objects around them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "jetty/queues.h"
#include "test/process/kernel.h"
#include "test/process/soak.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

class TransportTest : public urma_test::ProcessTest {
 protected:
  TransportTest() { urma_test::wait_long_for_answers(); }
};

// The limit for "at once": far above the usual time, also of a busy machine, far below any timeout.
constexpr milliseconds kPromptly{10000};
constexpr bool kQuietly = false;  // not signalled

// Memory that a peer changes too.
std::atomic_ref<uint64_t> word_at(void* data) {
  return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(data));
}

// A poll that has found nothing in the JFC itself, and looks into its only source now.
int begun_poll(CompletionQueue* jfc, urma::Receiver* source, int count,
               urma_cr_t* records) URMA_NO_THREAD_SAFETY_ANALYSIS {
  jfc->poll_lock().enter();
  return source->poll_alone()(jfc, count, records, source);
}

size_t count_successes(const std::vector<urma_cr_t>& records) {
  return static_cast<size_t>(std::count_if(
      records.begin(), records.end(), [](const auto& cr) { return cr.status == URMA_CR_SUCCESS; }));
}

TEST_F(TransportTest, SignalledRequestCompletesPromptlyAfterUnsignalledSends) {
  Pair pair;
  pair.connect();
  urma_jfr_t* other = pair.owner.make_jfr(pair.receive_jfc);
  urma_target_jetty_t* to_other = pair.sender.import(other->jfr_id);
  for (uint64_t i = 0; i < 2; ++i) pair.post_receive(i);
  pair.owner.receive(other, {piece(pair.registered, pair.target.data() + 2048, 64)}, 2);

  pair.send(10, kQuietly);
  pair.write(11);
  EXPECT_EQ(pair.wait_for_sent(kPromptly).user_ctx, 11u);
  pair.send(12, kQuietly);
  pair.sender.send(pair.jfs, to_other, pair.here(), 13);
  EXPECT_EQ(pair.wait_for_sent(kPromptly).user_ctx, 13u);
  EXPECT_TRUE(pair.wait_for(2, 3));
  EXPECT_EQ(count_successes(pair.sent), 2u);
  EXPECT_EQ(count_successes(pair.received), 3u);
}

TEST_F(TransportTest, QueueOfAnyDepthCarriesEndlessUnsignalledSends) {
  constexpr uint64_t kSends = 1000;
  Pair pair(/*depth=*/4);
  uint64_t posted = 0;
  for (uint64_t i = 0; i < kSends; ++i) {
    for (; posted < i + 8; ++posted) pair.post_receive(posted);
    const auto post = [&] {
      const urma_status_t status = pair.send(i, kQuietly);
      if (status == URMA_SUCCESS) return true;
      EXPECT_EQ(status, URMA_ENOMEM);
      pair.poll();
      return false;
    };
    ASSERT_TRUE(eventually(post)) << "send " << i;
  }
  EXPECT_TRUE(pair.wait_for(0, kSends));
  EXPECT_EQ(count_successes(pair.received), kSends);
  for (uint64_t i = 0; i < kSends; ++i) ASSERT_EQ(pair.received[i].user_ctx, i);
  EXPECT_TRUE(pair.sent.empty());
}

// Making room in a full queue may end the ring that the next message would take.
TEST_F(TransportTest, FullQueueMayFindItsTargetGone) {
  constexpr uint32_t kDepth = 4;
  Pair pair(kDepth);
  for (uint64_t i = 0; i < kDepth; ++i) {
    pair.post_receive(i);
    ASSERT_EQ(pair.send(i, kQuietly), URMA_SUCCESS);
  }
  ASSERT_TRUE(eventually([&] {
    pair.owner.poll(pair.receive_jfc, &pair.received);
    return pair.received.size() == kDepth;
  }));
  pair.owner.end(pair.jfr);
  for (uint64_t i = 0; i < 2 * kDepth; ++i) {
    ASSERT_TRUE(eventually([&] {
      pair.poll();
      return pair.send(i) == URMA_SUCCESS;
    }));
  }
  EXPECT_TRUE(eventually([&] {
    pair.poll();
    return pair.sent.size() == 2 * kDepth;
  }));
  EXPECT_EQ(count_successes(pair.sent), 0u);
}

// The waiter for the first may be the one that makes the second possible.
TEST_F(TransportTest, AWaitingMessageDelaysNoAnswers) {
  Pair pair;
  pair.connect();
  pair.post_receive(0);
  ASSERT_EQ(pair.send(1, kQuietly), URMA_SUCCESS);
  ASSERT_EQ(pair.write(2), URMA_SUCCESS);
  ASSERT_EQ(pair.send(3), URMA_SUCCESS);
  EXPECT_EQ(pair.wait_for_sent(kPromptly).user_ctx, 2u);
  pair.post_receive(4);
  EXPECT_EQ(pair.wait_for_sent(kPromptly).user_ctx, 3u);
}

TEST_F(TransportTest, CompletedRequestOutlivesTheImportOfItsTarget) {
  Pair pair;
  pair.connect();
  urma_jfr_t* other = pair.owner.make_jfr(pair.receive_jfc);
  const std::vector<urma_jfr_id_t> targets = {pair.jfr->jfr_id, pair.jfr->jfr_id, other->jfr_id,
                                              pair.jfr->jfr_id, other->jfr_id};
  for (size_t i = 0; i < targets.size(); ++i) {
    urma_target_jetty_t* queue = pair.sender.import(targets[i]);
    EXPECT_EQ(pair.sender.write(pair.jfs, queue, pair.here(), pair.there(), i), URMA_SUCCESS);
    pair.sender.end(queue);
  }
  EXPECT_TRUE(pair.wait_for(targets.size(), 0));
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(pair.sent[i].user_ctx, i);
    EXPECT_EQ(pair.sent[i].status, URMA_CR_SUCCESS);
    EXPECT_EQ(pair.sent[i].remote_id.id, targets[i].id);
  }
}

// Leaves `spare` descriptors to this process during its lifetime.
class FewDescriptors {
 public:
  explicit FewDescriptors(int spare) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    int highest = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      highest = std::max(highest, std::stoi(entry.path().filename()));
    }
    do {
      fillers_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (fillers_.back().get() <= highest);
    rlimit lowered = before_;
    lowered.rlim_cur = static_cast<rlim_t>(fillers_.back().get()) + 1 + static_cast<rlim_t>(spare);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_ = {};
  std::vector<Fd> fillers_;
};

constexpr int kDescriptorsOfAConnection = 8;  // at both ends, and some more

// The sanitizer of undefined behaviour opens a pipe to look at an object; if it gets none, it takes
// the object for broken.
bool checks_need_descriptors() { return patience(seconds(1)) != seconds(1); }

// A posted request completes, a refused one leaves nothing.
void expect_definite_end(Pair* pair, urma_status_t posted) {
  if (posted == URMA_SUCCESS) {
    pair->wait_for_sent();
  } else {
    pair->sender.settle();
    pair->poll();
    EXPECT_TRUE(pair->sent.empty());
  }
  pair->sent.clear();
}

TEST_F(TransportTest, SendWithoutFreeDescriptorsEndsAndTheNextOneWorks) {
  if (checks_need_descriptors()) GTEST_SKIP() << "a sanitizer itself needs descriptors";
  for (int spare = 0; spare <= kDescriptorsOfAConnection; ++spare) {
    SCOPED_TRACE(spare);
    Pair pair;
    pair.post_receive(1);
    pair.post_receive(2);
    pair.sender.settle();
    pair.owner.settle();
    {
      const FewDescriptors few(spare);
      expect_definite_end(&pair, pair.send(1));
    }
    EXPECT_EQ(pair.send(2), URMA_SUCCESS);
    EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS);
  }
}

TEST_F(TransportTest, ImportWithoutFreeDescriptorsEndsAndTheNextRequestWorks) {
  if (checks_need_descriptors()) GTEST_SKIP() << "a sanitizer itself needs descriptors";
  for (int spare = 0; spare <= kDescriptorsOfAConnection; ++spare) {
    SCOPED_TRACE(spare);
    Pair pair;
    pair.sender.settle();
    pair.owner.settle();
    {
      const FewDescriptors few(spare);
      pair.remote = pair.sender.try_import(pair.registered->seg);
      if (pair.remote != nullptr) expect_definite_end(&pair, pair.write(1));
    }
    if (pair.remote == nullptr) pair.remote = pair.sender.import(pair.registered->seg);
    EXPECT_EQ(pair.write(2), URMA_SUCCESS);
    EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS);
  }
}

TEST_F(TransportTest, AtomicWithAnInvalidResultBufferDoesNotAffectTheNext) {
  Pair pair;
  pair.connect();
  uint64_t results[2] = {7, 7};
  urma_target_seg_t* first = pair.sender.add(&results[0], sizeof(results[0]));
  urma_target_seg_t* second = pair.sender.add(&results[1], sizeof(results[1]));
  char* words[2] = {pair.target.data(), pair.target.data() + 8};
  word_at(words[0]) = 1000;
  word_at(words[1]) = 5000;
  const auto add = [&](urma_target_seg_t* result, int i) {
    return pair.sender.atomic(URMA_OPC_FADD, pair.jfs, pair.queue, piece(result, &results[i], 8),
                              piece(pair.remote, words[i], 8), static_cast<uint64_t>(i));
  };
  {
    const Pause under_way(pair.owner);
    EXPECT_EQ(add(first, 0), URMA_SUCCESS);
    pair.sender.settle();
    pair.sender.end(first);
    EXPECT_EQ(add(second, 1), URMA_SUCCESS);
  }
  EXPECT_TRUE(pair.wait_for(2, 0));
  EXPECT_EQ(pair.sent[0].user_ctx, 0u);
  EXPECT_EQ(pair.sent[0].status, URMA_CR_LOC_ACCESS_ERR);
  EXPECT_EQ(pair.sent[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(results[0], 7u);
  EXPECT_EQ(results[1], 5000u);
  EXPECT_EQ(word_at(words[1]), 5001u);
}

TEST_F(TransportTest, AdjacentSegmentsOfOneTokenIdAreReachableInFull) {
  constexpr uint32_t kSegments = 20, kBytes = 100;
  Pair pair;
  std::vector<char> many(kSegments * kBytes, 't');
  std::vector<urma_target_seg_t*> segments(kSegments);
  // Neither in ascending nor in descending order.
  for (uint32_t i = 0; i < kSegments; ++i) {
    const uint32_t at = (i * 7 + 3) % kSegments;
    segments[at] = pair.owner.add(many.data() + at * kBytes, kBytes);
  }
  for (uint32_t i = 0; i < kSegments; ++i) {
    pair.source.assign(pair.source.size(), static_cast<char>('A' + i));
    urma_target_seg_t* imported = pair.sender.import(segments[i]->seg);
    const urma_sge_t into = piece(imported, many.data() + i * kBytes, kBytes);
    pair.sender.write(pair.jfs, pair.queue, pair.here(kBytes), into, i);
    EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS) << i;
  }
  for (uint32_t i = 0; i < many.size(); ++i) ASSERT_EQ(many[i], static_cast<char>('A' + i / 100));
  for (urma_target_seg_t* segment : segments) pair.owner.end(segment);
}

TEST_F(TransportTest, ReceiveRecordsAreNotStarvedBySendRecords) {
  Pair pair;
  pair.connect();
  // The sender receives into the JFC of its sends.
  urma_jfr_t* own = pair.sender.make_jfr(pair.send_jfc);
  pair.sender.receive(own, {piece(pair.local, pair.source.data() + 2048, 64)}, 77);
  urma_jfs_t* back = pair.owner.make_jfs(pair.receive_jfc, 8);
  urma_target_jetty_t* target = pair.owner.import(own->jfr_id);
  pair.owner.send(back, target, piece(pair.registered, pair.target.data(), 8), 5);
  const auto delivered = [&] {
    pair.owner.poll(pair.receive_jfc, &pair.received);
    return !pair.received.empty();
  };
  ASSERT_TRUE(eventually(delivered));

  int polls = 0;
  do {
    pair.sent.clear();
    pair.write(1);
    pair.sender.poll(pair.send_jfc, &pair.sent, /*count=*/1);
  } while (++polls < 100 && (pair.sent.empty() || pair.sent[0].flag.bs.s_r == 0));
  ASSERT_EQ(pair.sent.size(), 1u);
  EXPECT_EQ(pair.sent[0].user_ctx, 77u) << "not within " << polls << " polls";
}

// Another thread may leave a record in the JFC while a poll begins.
TEST_F(TransportTest, APollBringsRecordsInTheOrderOfTheirMessages) {
  Pair pair;
  pair.connect();
  pair.post_receive(0);
  pair.send(0);
  ASSERT_TRUE(pair.wait_for(1, 1));
  auto* jfc = static_cast<CompletionQueue*>(pair.receive_jfc);
  urma::Receiver& receiver = *static_cast<Jfr*>(pair.jfr)->receiver();
  for (uint64_t i = 1; i < 3; ++i) pair.post_receive(i);
  pair.send(1);
  EXPECT_TRUE(eventually([&] { return receiver.serve() || !jfc->ring().empty(); }));
  pair.send(2);
  urma_cr_t records[16];
  ASSERT_EQ(begun_poll(jfc, &receiver, 16, records), 2);
  EXPECT_EQ(records[0].user_ctx, 1u);
  EXPECT_EQ(records[1].user_ctx, 2u);
}

TEST_F(TransportTest, OneThreadPostsOnALockFreeQueueWhileAnotherPolls) {
  constexpr uint64_t kRequests = 20000;
  Pair pair;
  pair.connect();
  urma_jfc_t* jfc = pair.sender.make_jfc(/*lock_free=*/true);
  urma_jfs_t* jfs = pair.sender.make_jfs(jfc, 32, /*lock_free=*/true);
  std::thread poster([&] {
    for (uint64_t i = 0; i < kRequests; ++i) {
      const auto post = [&] {
        return pair.sender.write(jfs, pair.queue, pair.here(), pair.there(), i) == URMA_SUCCESS;
      };
      ASSERT_TRUE(eventually(post)) << "request " << i;
    }
  });
  std::vector<urma_cr_t> records;
  std::thread poller([&] {
    EXPECT_TRUE(eventually([&] {
      pair.sender.poll(jfc, &records);
      return records.size() >= kRequests;
    }));
  });
  poster.join();
  poller.join();
  ASSERT_EQ(records.size(), kRequests);
  for (uint64_t i = 0; i < kRequests; ++i) ASSERT_EQ(records[i].user_ctx, i);
  EXPECT_EQ(count_successes(records), kRequests);
}

TEST_F(TransportTest, UnregisteringEndsThePendingRequests) {
  Pair pair;
  pair.connect();
  Pages pages(4096);
  urma_target_seg_t* segment = pair.sender.add(pages.data(), pages.bytes());
  const urma_sge_t from = piece(segment, pages.data(), 8);
  {
    // The owner executes the atomic, and all others wait for it.
    const Pause unanswered(pair.owner);
    pair.sender.atomic(URMA_OPC_FADD, pair.jfs, pair.queue, from, pair.there(), 0);
    pair.sender.send(pair.jfs, pair.queue, from, 1);
    pair.sender.send(pair.jfs, pair.queue, from, 2, kQuietly);
    pair.sender.write(pair.jfs, pair.queue, from, pair.there(), 3);
    pair.sender.end(segment);
    pages.unmap();
  }
  ASSERT_TRUE(pair.wait_for(4, 0));
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pair.sent[i].user_ctx, i);
    EXPECT_EQ(pair.sent[i].status, URMA_CR_LOC_ACCESS_ERR);
  }
}

// A request whose memory is unregistered while the service thread works on it.
void expect_done_or_cut(const urma_cr_t& cr) {
  EXPECT_TRUE(cr.status == URMA_CR_SUCCESS || cr.status == URMA_CR_LOC_ACCESS_ERR) << cr.status;
}

// A byte that may change at any time.
__attribute__((noinline, no_sanitize("thread"))) char now_at(const volatile char* byte) {
  return *byte;
}

constexpr int kRounds = 6;
constexpr size_t kEach = 4096;  // a mark is at the end of each page

// What a program may do at once with memory that it has unregistered, one way or the other.
void use_otherwise(Pages* pages, int round) {
  if (round % 2 == 0) return pages->unmap();
  for (size_t end = kEach; end <= pages->bytes(); end += kEach) pages->data()[end - 1] = 'z';
}

TEST_F(TransportTest, MemoryIsNotReadOnceItIsUnregistered) {
  // A post moves 1 MiB, the service thread the rest. It should be busy most of the time.
  constexpr size_t kWriters = 8, kBytes = 4 << 20;
  std::vector<char> target(kWriters * kBytes);
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    std::memset(target.data(), 't', target.size());
    Pair pair;
    pair.connect();
    Pages pages(kBytes);
    std::memset(pages.data(), 's', pages.bytes());
    urma_target_seg_t* segment = pair.sender.add(pages.data(), pages.bytes());
    urma_target_seg_t* remote =
        pair.sender.import(pair.owner.add(target.data(), target.size())->seg);
    for (size_t i = 0; i < kWriters; ++i) {
      pair.sender.write(pair.sender.make_jfs(pair.send_jfc, 1), pair.queue,
                        piece(segment, pages.data(), pages.bytes()),
                        piece(remote, target.data() + i * kBytes, pages.bytes()), i);
    }
    const char* moved_by_service_thread = target.data() + kBytes - (2 << 20);
    EXPECT_TRUE(eventually([&] { return now_at(moved_by_service_thread) == 's'; }));
    pair.sender.end(segment);
    use_otherwise(&pages, round);
    EXPECT_TRUE(pair.wait_for(kWriters, 0));
    for (const urma_cr_t& cr : pair.sent) expect_done_or_cut(cr);
    EXPECT_EQ(std::memchr(target.data(), 'z', target.size()), nullptr);
  }
}

// The owner's service thread is paused: the owner does not know yet that the queue is gone.
TEST_F(TransportTest, ALargeMessageIsNotReadOnceItsQueueIsDeleted) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  constexpr uint32_t kLarge = 2 * kCopyPerTurn;
  for (const bool half_read : {false, true}) {
    Pair pair;
    pair.connect();
    std::vector<char> source(kLarge, 's'), target(kLarge, 't');
    urma_target_seg_t* from = pair.sender.add(source.data(), kLarge);
    urma_target_seg_t* into = pair.owner.add(target.data(), kLarge);
    const auto receive = [&] {
      pair.owner.receive(pair.jfr, {piece(into, target.data(), kLarge)}, 1);
    };
    urma_jfs_t* jfs = pair.sender.make_jfs(pair.send_jfc, 8);
    // Opens the ring.
    pair.post_receive(0);
    EXPECT_EQ(pair.sender.send(jfs, pair.queue, pair.here(), 0), URMA_SUCCESS);
    EXPECT_TRUE(pair.wait_for(pair.sent.size() + 1, 1));
    {
      const Pause untold(pair.owner);
      EXPECT_EQ(pair.sender.send(jfs, pair.queue, piece(from, source.data(), kLarge), 1),
                URMA_SUCCESS);
      if (half_read) {
        receive();
        pair.owner.poll(pair.receive_jfc, &pair.received);
        EXPECT_EQ(target[0], 's');
        EXPECT_EQ(target[kLarge - 1], 't');
      }
      pair.sender.end(jfs);
      std::fill(source.begin(), source.end(), 'x');
      if (!half_read) receive();
      for (int i = 0; i < 8; ++i) pair.owner.poll(pair.receive_jfc, &pair.received);
      EXPECT_EQ(pair.received.size(), 1u);
    }
    // The receive is there for others.
    pair.send(2);
    EXPECT_TRUE(pair.wait_for(pair.sent.size() + 1, 2));
    EXPECT_EQ(count_successes(pair.received), 2u);
    EXPECT_EQ(pair.received.back().completion_len, 8u);
  }
}

// What fits in the ring is there, and arrives.
TEST_F(TransportTest, SmallMessagesBeforeALargeOneOutliveTheirQueue) {
  constexpr uint32_t kLarge = 4096;
  Pair pair;
  pair.connect();
  urma_jfs_t* jfs = pair.sender.make_jfs(pair.send_jfc, 8);
  for (uint64_t i = 0; i < 4; ++i) pair.post_receive(i);
  {
    const Pause untold(pair.owner);
    EXPECT_EQ(pair.sender.send(jfs, pair.queue, pair.here(), 0), URMA_SUCCESS);
    EXPECT_EQ(pair.sender.send(jfs, pair.queue, pair.here(kLarge), 1), URMA_SUCCESS);
    EXPECT_EQ(pair.sender.send(jfs, pair.queue, pair.here(), 2), URMA_SUCCESS);
    pair.sender.end(jfs);
  }
  EXPECT_TRUE(pair.wait_for(pair.sent.size(), 1));
  pair.owner.settle();
  pair.poll();
  EXPECT_EQ(pair.received.size(), 1u);
  EXPECT_EQ(pair.received.front().completion_len, 8u);
}

// The ring holds six of these, so a larger one replaces it when 32 have found it full. The new ring
// is there, and the old one has room: messages sent now outlive their queue as usual.
TEST_F(TransportTest, AMessageThatFitsDoesNotWaitForALargerRing) {
  constexpr uint32_t kBytes = 600;
  constexpr int kFit = 5;
  constexpr int kFoundFull = 32;
  Pair pair;
  pair.connect();
  urma_jfs_t* jfs = pair.sender.make_jfs(pair.send_jfc, 64);
  const auto send = [&] {
    EXPECT_EQ(pair.sender.send(jfs, pair.queue, pair.here(kBytes), 0), URMA_SUCCESS);
  };
  const auto receive = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) pair.post_receive(0);
    EXPECT_TRUE(pair.wait_for(pair.sent.size() + count, pair.received.size() + count));
  };
  send();
  receive(1);
  for (int i = 0; i < kFit; ++i) send();
  for (int i = 0; i < kFoundFull; ++i) {
    // So that the larger one follows the last of them.
    const Pause untaken(pair.owner);
    send();
    receive(1);
  }
  pair.sender.settle();
  pair.owner.settle();
  pair.sender.settle();
  receive(2);
  const Pause untold(pair.owner);
  urma_sge_t here = pair.here(kBytes);
  urma_jfs_wr_t fenced = {};
  fenced.opcode = URMA_OPC_SEND;
  fenced.send.src = {&here, 1};
  fenced.flag.bs.complete_enable = 1;
  fenced.flag.bs.fence = 1;  // looks for a larger ring first, which the shortest path does not
  EXPECT_EQ(pair.sender.execute(jfs, pair.queue, fenced, 0), URMA_SUCCESS);
  pair.sender.end(jfs);
  for (int i = 0; i < 4; ++i) pair.post_receive(0);
  EXPECT_TRUE(pair.wait_for(pair.sent.size(), pair.received.size() + 4));
}

TEST_F(TransportTest, MemoryIsNotWrittenOnceItIsUnregistered) {
  std::vector<char> source(32 << 20, 's');
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    Pair pair;
    Pages pages(source.size());
    std::memset(pages.data(), 't', pages.bytes());
    urma_target_seg_t* segment = pair.owner.add(pages.data(), pages.bytes());
    pair.owner.receive(pair.jfr, {piece(segment, pages.data(), pages.bytes())}, 1);
    urma_target_seg_t* from = pair.sender.add(source.data(), source.size());
    pair.sender.send(pair.jfs, pair.queue, piece(from, source.data(), pages.bytes()), 2);
    // The owner's service thread receives.
    EXPECT_TRUE(eventually([&] {
      pair.sender.poll(pair.send_jfc, &pair.sent);
      return now_at(pages.data()) == 's';
    }));
    pair.owner.end(segment);
    use_otherwise(&pages, round);
    ASSERT_TRUE(pair.wait_for(1, 1));
    expect_done_or_cut(pair.received[0]);
    for (size_t end = kEach; pages.data() != nullptr && end <= pages.bytes(); end += kEach) {
      ASSERT_EQ(pages.data()[end - 1], 'z');
    }
  }
}

TEST_F(TransportTest, SendersShareAReceiverFairly) {
  constexpr size_t kMessages = 200;
  Pair pair(/*depth=*/256);
  urma_jfs_t* second = pair.sender.make_jfs(pair.send_jfc, 256);
  const auto send = [&](urma_jfs_t* jfs, bool signalled) {
    EXPECT_EQ(pair.sender.send(jfs, pair.queue, pair.here(), 0, signalled), URMA_SUCCESS);
  };
  // One of each first, so that both have their ring.
  for (urma_jfs_t* jfs : {pair.jfs, second}) {
    pair.post_receive(0);
    send(jfs, true);
    pair.wait_for_sent();
  }
  ASSERT_TRUE(pair.wait_for(2, 2));
  pair.received.clear();
  for (urma_jfs_t* jfs : {pair.jfs, second}) {
    for (size_t i = 0; i < kMessages; ++i) send(jfs, kQuietly);
  }
  for (size_t i = 1; i <= kMessages; ++i) {
    pair.post_receive(i);
    ASSERT_TRUE(pair.wait_for(0, i));
  }
  const auto of_second =
      std::count_if(pair.received.begin(), pair.received.end(),
                    [&](const urma_cr_t& cr) { return cr.remote_id.id == second->jfs_id.id; });
  EXPECT_GE(of_second, 40);
  EXPECT_LE(of_second, 160);
  // Polls the rest, so that nothing is in flight when the objects go.
  for (size_t i = 0; i < kMessages; ++i) pair.post_receive(i);
  EXPECT_TRUE(pair.wait_for(0, 2 * kMessages));
}

}  // namespace
}  // namespace urma::shm
