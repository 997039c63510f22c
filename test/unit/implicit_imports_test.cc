// SPDX-License-Identifier: MIT
//
// Segments that requests name by a user_tseg: who is asked, when, and how long the answer counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "test/process/kernel.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

class ImplicitImportsTest : public urma_test::ProcessTest {
 protected:
  urma_cr_status_t write(const urma_target_seg_t* segment, const void* at, uint32_t bytes = 8) {
    urma_user_tseg_t tseg = {};
    tseg.token_id = segment->seg.token_id;
    urma_sge_t here = pair.here(bytes), there = piece(nullptr, at, bytes);
    there.user_tseg = &tseg;
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_WRITE;
    wr.rw.src = {&here, 1};
    wr.rw.dst = {&there, 1};
    EXPECT_EQ(pair.sender.execute(pair.jfs, pair.queue, wr, 1), URMA_SUCCESS);
    const urma_cr_t record = pair.wait_for_sent();
    pair.sent.clear();
    return record.status;
  }

  Pair pair;
};

TEST_F(ImplicitImportsTest, OwnerIsAskedOnce) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  char* const target = pair.target.data();
  EXPECT_EQ(write(pair.registered, target), URMA_CR_SUCCESS);
  pair.owner.settle();
  pair.sender.settle();
  const Pause owner_is_busy(pair.owner);
  for (uint32_t offset = 8; offset < 512; offset += 8) {
    ASSERT_EQ(write(pair.registered, target + offset), URMA_CR_SUCCESS);
  }
  EXPECT_EQ(pair.target[511], 's');
  EXPECT_EQ(pair.target[512], 't');
}

TEST_F(ImplicitImportsTest, EndWithTheRegistration) {
  char* const target = pair.target.data();
  std::vector<char> anchor(8);
  const urma_target_seg_t* const same_id = pair.owner.add(anchor.data(), anchor.size());
  EXPECT_EQ(write(pair.registered, target), URMA_CR_SUCCESS);
  pair.owner.end(pair.registered);
  std::fill(pair.target.begin(), pair.target.end(), 't');
  EXPECT_EQ(write(same_id, target), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(write(same_id, target + 64), URMA_CR_REM_ACCESS_ABORT_ERR);
  // Found in its current registration, though that begins elsewhere.
  urma_target_seg_t* again = pair.owner.add(target + 64, 64);
  EXPECT_EQ(write(again, target + 64), URMA_CR_SUCCESS);
  EXPECT_EQ(write(again, target + 120, 16), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(write(again, target), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(pair.target[63], 't');
  EXPECT_EQ(pair.target[64], 's');
  EXPECT_EQ(pair.target[120], 't');
}

// More than are cached, all under one token id.
TEST_F(ImplicitImportsTest, ManySegmentsTakeTurns) {
  constexpr uint32_t kMany = 200, kEach = 64;
  std::vector<char> memory(kMany * kEach, 't');
  std::vector<urma_target_seg_t*> segments;
  for (uint32_t i = 0; i < kMany; ++i) {
    segments.push_back(pair.owner.add(memory.data() + i * kEach, kEach));
  }
  for (int round = 0; round < 3; ++round) {
    std::fill(memory.begin(), memory.end(), 't');
    for (uint32_t i = 0; i < kMany; ++i) {
      EXPECT_EQ(write(segments[i], memory.data() + i * kEach, kEach), URMA_CR_SUCCESS);
      EXPECT_EQ(write(segments[i], memory.data() + i * kEach + 1, kEach),
                URMA_CR_REM_ACCESS_ABORT_ERR);
    }
    EXPECT_EQ(std::count(memory.begin(), memory.end(), 's'), kMany * kEach);
  }
}

// All posted before the owner has answered the first one.
TEST_F(ImplicitImportsTest, RequestsOfOneSegmentWaitForOneAnswer) {
  urma_user_tseg_t tseg = {};
  tseg.token_id = pair.registered->seg.token_id;
  auto busy = std::make_unique<Pause>(pair.owner);
  for (uint64_t i = 0; i < 32; ++i) {
    urma_sge_t here = pair.here(64), there = piece(nullptr, pair.target.data() + 64 * i, 64);
    there.user_tseg = &tseg;
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_WRITE;
    wr.rw.src = {&here, 1};
    wr.rw.dst = {&there, 1};
    ASSERT_EQ(pair.sender.execute(pair.jfs, pair.queue, wr, i), URMA_SUCCESS);
  }
  pair.poll();
  EXPECT_TRUE(pair.sent.empty());
  busy.reset();
  ASSERT_TRUE(pair.wait_for(32, 0));
  for (uint64_t i = 0; i < 32; ++i) {
    EXPECT_EQ(pair.sent[i].status, URMA_CR_SUCCESS);
    EXPECT_EQ(pair.sent[i].user_ctx, i);
  }
  EXPECT_EQ(std::count(pair.target.begin(), pair.target.end(), 's'), 2048);
}

}  // namespace
}  // namespace urma::shm
