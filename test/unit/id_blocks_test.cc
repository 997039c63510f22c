// SPDX-License-Identifier: MIT
//
// Blocks of ids, with several processes simulated by objects.
#include "urma/base/id_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "urma/base/error.h"

namespace urma {
namespace {

constexpr auto kKind = IdKind::kJetty;

class Process;

// State that all processes see.
struct FakeHost {
  std::map<uint32_t, Process*> blocks;
  std::multimap<uint32_t, Process*> joined;
  std::map<std::tuple<IdKind, uint32_t, uint32_t>, Process*> chosen;
  int tries = 0;
};

class Process final : public IdClaims {
 public:
  explicit Process(FakeHost* host, uint64_t random = 7) : ids(this, random), host_(host) {}

  bool claim(uint32_t block) override {
    ++host_->tries;
    if (no_means) fail(URMA_ENOMEM, "no descriptor");
    if (host_->blocks.contains(block) || host_->joined.contains(block)) return false;
    host_->blocks[block] = this;
    return true;
  }
  void release(uint32_t block) override {
    EXPECT_EQ(host_->blocks.at(block), this);
    host_->blocks.erase(block);
  }
  bool join(uint32_t block) override {
    if (host_->blocks.contains(block)) return false;
    host_->joined.emplace(block, this);
    return true;
  }
  void leave(uint32_t block) override {
    EXPECT_EQ(std::erase_if(
                  host_->joined,
                  [&](const auto& entry) { return entry.first == block && entry.second == this; }),
              1u);
  }
  void reserve(IdKind kind, uint32_t eid_index, uint32_t id) override {
    if (!host_->chosen.try_emplace({kind, eid_index, id}, this).second) {
      fail(URMA_EEXIST, "taken");
    }
  }
  void unreserve(IdKind kind, uint32_t eid_index, uint32_t id) override {
    EXPECT_EQ(host_->chosen.erase({kind, eid_index, id}), 1u);
  }
  bool reserved_elsewhere(IdKind /*kind*/, uint32_t id) override { return id == avoided; }

  uint32_t take(IdKind kind = kKind) { return ids.take(kind).value(); }
  void free(uint32_t id) { ids.give_back(kKind, 0, id); }
  int choose(uint32_t id, uint32_t eid_index = 0, IdKind kind = kKind) {
    try {
      ids.choose(kind, eid_index, id);
    } catch (const Error& error) {
      return error.status();
    }
    return 0;
  }
  size_t blocks() const {
    return static_cast<size_t>(std::count_if(host_->blocks.begin(), host_->blocks.end(),
                                             [&](const auto& b) { return b.second == this; }));
  }

  IdBlocks ids;
  uint32_t avoided = 0;
  bool no_means = false;  // for a claim

 private:
  FakeHost* const host_;
};

class IdBlocksTest : public testing::Test {
 protected:
  FakeHost host_;
};

TEST_F(IdBlocksTest, OneBlockServesAllKinds) {
  Process process(&host_);
  const uint32_t first = process.take();
  for (uint32_t i = 1; i < kBlockIds; ++i) EXPECT_EQ(process.take(), first + i);
  for (const auto kind : {IdKind::kJfc, IdKind::kJfs, IdKind::kJfr, IdKind::kGroup}) {
    EXPECT_EQ(process.take(kind), first);
  }
  EXPECT_EQ(host_.blocks.size(), 1u);
  EXPECT_GE(first, 32768u);
}

TEST_F(IdBlocksTest, AFreedIdIsReusedAfterAllOthers) {
  Process process(&host_);
  const uint32_t stays = process.take();
  std::deque<uint32_t> order;
  std::set<uint32_t> seen{stays};
  // Nothing is claimed twice while another block is left in the half where the search begins.
  for (uint32_t i = 0; i < 32000; ++i) {
    const uint32_t id = process.take();
    ASSERT_TRUE(seen.insert(id).second) << i;
    ASSERT_LT(id, kLastBlock * kBlockIds + kBlockIds);
    process.free(id);
  }
  EXPECT_LE(process.blocks(), 2u);
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t id = process.take();
    ASSERT_NE(id, stays);
    process.free(id);
  }
}

TEST_F(IdBlocksTest, FreedBlocksAreReturnedExceptTheNewest) {
  Process process(&host_);
  std::vector<uint32_t> ids;
  for (int i = 0; i < 10000; ++i) ids.push_back(process.take());
  EXPECT_EQ(process.blocks(), 625u);
  EXPECT_EQ(std::set<uint32_t>(ids.begin(), ids.end()).size(), ids.size());
  EXPECT_EQ(host_.tries, 625);
  for (const uint32_t id : ids) process.free(id);
  EXPECT_EQ(process.blocks(), 1u);
}

// Each of them also creates and deletes objects, so that it walks through the ids of the host.
TEST_F(IdBlocksTest, AThousandProcessesFit) {
  std::vector<std::unique_ptr<Process>> processes;
  std::set<uint32_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    processes.push_back(std::make_unique<Process>(&host_, i * 7919));
    for (int kept = 0; kept < 10; ++kept) {
      ASSERT_TRUE(seen.insert(processes.back()->take()).second);
      for (int j = 0; j < 40; ++j) processes.back()->free(processes.back()->take());
    }
    EXPECT_LE(processes.back()->blocks(), 4u);
  }
  EXPECT_EQ(seen.size(), 10000u);
}

TEST_F(IdBlocksTest, FreedIdsAreReusedInOrderWhenAllAreTaken) {
  Process other(&host_), process(&host_);
  const uint32_t first = process.take();
  for (uint32_t i = 1; i < kBlockIds; ++i) process.take();
  for (uint32_t i = 0; i < kClaimableIds - kBlockIds; ++i) other.take();
  EXPECT_EQ(other.ids.take(kKind), std::nullopt);
  EXPECT_EQ(process.ids.take(kKind), std::nullopt);
  const std::vector<uint32_t> freed = {first + 3, first + 4, first + 9};
  for (const uint32_t id : freed) process.free(id);
  host_.tries = 0;
  for (int round = 0; round < 4; ++round) {
    for (const uint32_t id : freed) {
      EXPECT_EQ(process.take(), id);
      process.free(id);
    }
  }
  // Few blocks are requested without result.
  EXPECT_LE(host_.tries, 5 * 8);
  // Neither a block in use nor one beyond the last, of another kind.
  for (const uint32_t id : freed) EXPECT_EQ(process.take(), id);
  EXPECT_EQ(process.ids.take(kKind), std::nullopt);
}

TEST_F(IdBlocksTest, ChosenIdsOfAnOwnBlockAreNotHandedOut) {
  Process process(&host_);
  const uint32_t id = process.take();
  EXPECT_EQ(process.choose(id), URMA_EEXIST);
  EXPECT_EQ(process.choose(id, 1), URMA_EEXIST);
  EXPECT_EQ(process.choose(id + 1, 0), 0);
  EXPECT_EQ(process.choose(id + 1, 0), URMA_EEXIST);
  EXPECT_EQ(process.choose(id + 1, 1), 0);
  EXPECT_EQ(process.take(), id + 2);
  process.ids.give_back(kKind, 0, id + 1);
  EXPECT_EQ(process.take(IdKind::kJfr), id);
  EXPECT_TRUE(process.ids.owns(kKind, 0, id + 1));
  EXPECT_EQ(host_.chosen.size(), 1u);
  process.ids.give_back(kKind, 1, id + 1);
  EXPECT_TRUE(host_.chosen.empty());
  EXPECT_EQ(process.choose(id + 1), 0);
}

TEST_F(IdBlocksTest, ChosenIdsOfABlockOfOthersAreRefused) {
  Process process(&host_), other(&host_, 999);
  const uint32_t id = process.take();
  EXPECT_EQ(other.choose(id), URMA_EEXIST);
  EXPECT_EQ(other.choose(id + 1), URMA_EEXIST);
  EXPECT_TRUE(host_.chosen.empty());
  EXPECT_TRUE(host_.joined.empty());
  EXPECT_FALSE(other.ids.owns(kKind, 0, id + 1));
}

TEST_F(IdBlocksTest, ABlockWithChosenIdsIsNotClaimed) {
  Process process(&host_), other(&host_);
  const uint32_t next = Process(&host_).take();
  host_.blocks.clear();
  EXPECT_EQ(process.choose(next), 0);
  EXPECT_EQ(other.choose(next + 1), 0);
  EXPECT_EQ(other.choose(next), URMA_EEXIST);
  EXPECT_NE(block_of(process.take()), block_of(next));
  EXPECT_NE(block_of(other.take()), block_of(next));
  process.free(next);
  other.free(next + 1);
  other.free(next + 1);
  EXPECT_TRUE(host_.joined.empty());
  EXPECT_EQ(Process(&host_).take(), next);
}

TEST_F(IdBlocksTest, FreedIdsAreReusedWhenAClaimFails) {
  Process process(&host_);
  const uint32_t first = process.take();
  process.no_means = true;
  for (uint32_t i = 1; i < kBlockIds; ++i) EXPECT_EQ(process.take(), first + i);
  EXPECT_THROW(process.take(), Error);
  process.free(first + 3);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(process.take(), first + 3);
    process.free(first + 3);
  }
  // Asked for again at the next one.
  EXPECT_EQ(process.take(), first + 3);
  process.no_means = false;
  EXPECT_NE(block_of(process.take()), block_of(first));
}

// A claim of a block does not say that none of its ids was chosen.
TEST_F(IdBlocksTest, IdsReservedElsewhereAreSkipped) {
  Process process(&host_);
  const uint32_t first = process.take();
  process.avoided = first + 1;
  EXPECT_EQ(process.take(), first + 2);
}

}  // namespace
}  // namespace urma
