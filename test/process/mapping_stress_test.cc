// SPDX-License-Identifier: MIT
//
// Nothing is lost while memory in use changes between private and shared, and atomics of all paths
// are atomic with each other.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

constexpr int kRounds = 12;
constexpr uint64_t kPages = 1024;
constexpr uint64_t kSegment = kPages * kPage;
constexpr uint64_t kStride = 8;  // one of this many pages is the target of the peer in a round

// Where the words of each writer are in each page.
constexpr uint64_t kStores = 0;
constexpr uint64_t kReads = 512;
constexpr uint64_t kAdds = 1024;
constexpr uint64_t kWrites = 2048;
constexpr uint64_t kMappedStores = 3072;

// A thread that counts in one word of each page. No one else writes them, so it knows their values.
class Writer {
 public:
  Writer(const Pages& memory, uint64_t offset, bool by_read)
      : memory_(memory), offset_(offset), thread_([this, by_read] { run(by_read); }) {}
  ~Writer() { stop(); }
  Writer(const Writer&) = delete;

  // Each writer has completed another round.
  void wait_for_a_round() const {
    const uint64_t before = rounds_.load(std::memory_order_relaxed);
    const auto deadline = Clock::now() + patience(seconds(10));
    while (rounds_.load(std::memory_order_relaxed) == before) {
      if (Clock::now() > deadline) throw std::runtime_error("a writer makes no progress");
      std::this_thread::yield();
    }
  }
  void stop() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }
  void expect_none_lost() {
    stop();
    EXPECT_EQ(lost_, 0u);
    EXPECT_EQ(refused_, 0u);
    for (uint64_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(*memory_.word(page * kPage + offset_), expected_[page]) << "page " << page;
    }
  }

 private:
  void run(bool by_read) {
    const int file = ::memfd_create("numbers", MFD_CLOEXEC);
    while (!stop_.load(std::memory_order_relaxed)) {
      for (uint64_t page = 0; page < kPages; ++page) {
        volatile uint64_t* word = memory_.word(page * kPage + offset_);
        if (*word != expected_[page]) ++lost_;
        const uint64_t next = ++expected_[page];
        if (!by_read) {
          *word = next;
        } else if (::pwrite(file, &next, 8, 0) != 8 ||
                   ::pread(file, const_cast<uint64_t*>(word), 8, 0) != 8) {
          ++refused_;
        }
      }
      rounds_.fetch_add(1, std::memory_order_relaxed);
    }
    ::close(file);
  }

  const Pages& memory_;
  const uint64_t offset_;
  std::array<uint64_t, kPages> expected_ = {};
  uint64_t lost_ = 0;
  uint64_t refused_ = 0;  // read calls that failed
  std::atomic<uint64_t> rounds_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it uses all above
};

bool is_target(uint64_t page, int round) { return page % kStride == round % kStride; }

void owner_of_changing_memory(Channel& channel, bool mapped) {
  Pages memory(kSegment);
  OwnedEndpoint owner;
  Writer stores(memory, kStores, false), reads(memory, kReads, true);
  for (int round = 0; round < kRounds; ++round) {
    urma_target_seg_t* segment = owner.add(memory.get(), kSegment);
    channel.send(offer_of(owner, segment));
    channel.sync();
    EXPECT_EQ(memfd_areas(memory.get(), kSegment) > 0, mapped);
    stores.wait_for_a_round();
    reads.wait_for_a_round();
    channel.sync();
    owner.remove(segment);
    EXPECT_EQ(memfd_areas(memory.get(), kSegment), 0);
    stores.wait_for_a_round();
    reads.wait_for_a_round();
  }
  stores.expect_none_lost();
  reads.expect_none_lost();
  for (uint64_t page = 0; page < kPages; ++page) {
    uint64_t adds = 0, last = 0;
    for (int round = 0; round < kRounds; ++round) {
      if (!is_target(page, round)) continue;
      ++adds;
      last = round + 1;
    }
    ASSERT_EQ(*memory.word(page * kPage + kAdds), adds) << "page " << page;
    ASSERT_EQ(*memory.word(page * kPage + kWrites), last) << "page " << page;
    ASSERT_EQ(*memory.word(page * kPage + kMappedStores), mapped ? last : 0) << "page " << page;
  }
}

void peer_of_changing_memory(Channel& channel, bool mapped) {
  Importer peer(channel.receive<Offer>());
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) peer.import_again(channel.receive<Offer>().segment);
    EXPECT_EQ(peer.remote->mva != 0, mapped);
    channel.sync();
    for (uint64_t page = 0; page < kPages; ++page) {
      if (!is_target(page, round)) continue;
      const uint64_t at = page * kPage;
      EXPECT_EQ(peer.add(at + kAdds, 1), round / kStride);
      peer.write(at + kWrites, round + 1);
      EXPECT_EQ(peer.read(at + kWrites), static_cast<uint64_t>(round + 1));
      if (mapped) *peer.mapped_word(at + kMappedStores) = round + 1;
    }
    channel.sync();
  }
}

class ChangingMemoryTest : public ProcessTest, public testing::WithParamInterface<bool> {
 protected:
  ~ChangingMemoryTest() override { ::unsetenv("URMA_SHM_INPLACE"); }
};

TEST_P(ChangingMemoryTest, LosesNoWrite) {
  const bool mapped = GetParam();
  if (mapped) SKIP_UNLESS_IN_PLACE();
  ::setenv("URMA_SHM_INPLACE", mapped ? "1" : "0", 1);
  run_two(
      "owner", [mapped](Channel& channel) { owner_of_changing_memory(channel, mapped); }, "peer",
      [mapped](Channel& channel) { peer_of_changing_memory(channel, mapped); });
}

INSTANTIATE_TEST_SUITE_P(All, ChangingMemoryTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Mapped" : "Copied");
});

// The pages of the words, and the offsets of those of 4 and of 8 bytes.
constexpr uint64_t kAtomicBytes = 4 * kPage;
constexpr uint64_t kWide = kPage + 64;
constexpr uint64_t kNarrow = kPage + 128;
constexpr uint64_t kCount = 3000;

struct AtomicOffer {
  Offer mapped;
  Offer ragged;
};

template <typename Word>
void add_locally(void* word) {
  for (uint64_t i = 0; i < kCount; ++i) {
    __atomic_fetch_add(static_cast<Word*>(word), 1, __ATOMIC_SEQ_CST);
  }
}

template <typename Word>
void cas_locally(void* word) {
  for (uint64_t i = 0; i < kCount; ++i) {
    Word seen = __atomic_load_n(static_cast<Word*>(word), __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(static_cast<Word*>(word), &seen, seen + 1, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
  }
}

// Counts with requests, which take a different path for each importer.
void add_by_requests(Importer& peer, uint64_t offset, uint32_t width) {
  for (uint64_t i = 0; i < kCount; ++i) peer.add(offset, 1, width);
}

void cas_by_requests(Importer& peer, uint64_t offset, uint32_t width) {
  uint64_t seen = peer.add(offset, 0, width);
  for (uint64_t done = 0; done < kCount;) {
    const uint64_t found = peer.cas(offset, seen, seen + 1, width);
    if (found == seen) {
      ++done;
      ++seen;
    } else {
      seen = found;
    }
  }
}

void owner_of_words(Channel& channel) {
  Pages memory(kAtomicBytes);
  OwnedEndpoint owner;
  urma_target_seg_t* whole = owner.add(memory.get(), kAtomicBytes);
  // It contains no whole page, so nothing of it can be mapped.
  urma_target_seg_t* ragged = owner.add(memory.get() + kPage + 8, kPage - 8);
  char* const wide = memory.get() + kWide;
  char* const narrow = memory.get() + kNarrow;
  // The bits around the narrow word must not change.
  *memory.word(kNarrow) = uint64_t{0xabcdef} << 32 | (UINT32_MAX - 5);
  channel.send(AtomicOffer{offer_of(owner, whole), offer_of(owner, ragged)});
  channel.sync();
  EXPECT_EQ(parts_of(ragged)[0].path, URMA_EXT_PATH_COPIED);
  expect_all_mapped(whole);
  channel.sync();
  add_locally<uint64_t>(wide);
  cas_locally<uint64_t>(wide);
  add_locally<uint32_t>(narrow);
  cas_locally<uint32_t>(narrow);
  channel.sync();
  // Adding and comparing: by the owner, by the first importer in two ways, and by the second.
  constexpr uint64_t kAll = (2 + 4 + 2) * kCount;
  EXPECT_EQ(*memory.word(kWide), kAll);
  EXPECT_EQ(*memory.word(kNarrow), uint64_t{0xabcdef} << 32 | (kAll - 6));
}

void mapped_counter(Channel& channel) {
  Importer peer(channel.receive<AtomicOffer>().mapped);
  ASSERT_NE(peer.remote->mva, 0u);
  channel.sync();
  channel.sync();
  add_locally<uint64_t>(peer.mva() + kWide);
  add_by_requests(peer, kWide, 8);
  cas_locally<uint64_t>(peer.mva() + kWide);
  cas_by_requests(peer, kWide, 8);
  add_locally<uint32_t>(peer.mva() + kNarrow);
  add_by_requests(peer, kNarrow, 4);
  cas_locally<uint32_t>(peer.mva() + kNarrow);
  cas_by_requests(peer, kNarrow, 4);
  channel.sync();
}

void copied_counter(Channel& channel) {
  Importer peer(channel.receive<AtomicOffer>().ragged);
  ASSERT_EQ(peer.remote->mva, 0u);
  EXPECT_EQ(parts_of(peer.remote)[0].path, URMA_EXT_PATH_COPIED);
  channel.sync();
  channel.sync();
  constexpr uint64_t kShift = kPage + 8;
  add_by_requests(peer, kWide - kShift, 8);
  cas_by_requests(peer, kWide - kShift, 8);
  add_by_requests(peer, kNarrow - kShift, 4);
  cas_by_requests(peer, kNarrow - kShift, 4);
  channel.sync();
}

using AtomicPathsTest = ProcessTest;

TEST_F(AtomicPathsTest, AllPathsAreAtomicWithEachOther) {
  SKIP_UNLESS_IN_PLACE();
  Child owner("owner", owner_of_words);
  Child mapped("mapped", mapped_counter);
  Child copied("copied", copied_counter);
  pass_on<AtomicOffer>(owner, {&mapped, &copied});
  for (int step = 0; step < 3; ++step) meet({&owner, &mapped, &copied});
  for (Child* child : {&owner, &mapped, &copied}) child->expect_success();
}

}  // namespace
}  // namespace urma_test
