// SPDX-License-Identifier: MIT
//
// Atomics: those of the device, and those built from compare and swap.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "test/verbs/requests.h"

namespace urma::verbs {
namespace {

struct Case {
  urma_opcode_t opcode;
  uint64_t before;
  uint64_t operand;
  uint64_t swap;
  uint64_t after;
};

class AtomicsTest : public ::testing::Test {
 protected:
  uint64_t execute(Pair* pair, const Case& c, uint32_t bytes, size_t offset) {
    std::memset(pair->here->data(), 0xEE, 64);
    Chain chain(pair->target.get());
    chain.atomic(c.opcode, pair->here->sge(0, bytes), pair->there->remote_sge(offset, bytes),
                 c.operand, c.swap, 3);
    EXPECT_EQ(pair->post(&chain), URMA_SUCCESS);
    const urma_cr_t record = pair->sent(1)[0];
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    EXPECT_EQ(record.completion_len, bytes);
    uint64_t old = 0;
    std::memcpy(&old, pair->here->data(), bytes);
    EXPECT_EQ(static_cast<uint8_t>(pair->here->data()[bytes]), 0xEE);
    return old;
  }
};

TEST_F(AtomicsTest, EightBytes) {
  Pair pair;
  constexpr uint64_t kWord = 0x0123456789ABCDEF;
  const std::vector<Case> cases = {
      {URMA_OPC_CAS, kWord, kWord, 42, 42},
      {URMA_OPC_CAS, kWord, 1, 42, kWord},
      {URMA_OPC_SWAP, kWord, 0, 43, 43},
      {URMA_OPC_FADD, kWord, 0x100000001, 0, kWord + 0x100000001},
      {URMA_OPC_FSUB, kWord, 0x100000001, 0, kWord - 0x100000001},
      {URMA_OPC_FAND, kWord, 0xFFFF0000FFFF, 0, kWord & 0xFFFF0000FFFF},
      {URMA_OPC_FOR, kWord, 0xF000000000000000, 0, kWord | 0xF000000000000000},
      {URMA_OPC_FXOR, kWord, UINT64_MAX, 0, ~kWord},
  };
  for (const Case& c : cases) {
    pair.there->words[5] = c.before;
    EXPECT_EQ(execute(&pair, c, 8, 40), c.before) << c.opcode;
    EXPECT_EQ(pair.there->words[5], c.after) << c.opcode;
  }
}

TEST_F(AtomicsTest, FourBytesChangeNoNeighbours) {
  Pair pair;
  const std::vector<Case> cases = {
      {URMA_OPC_CAS, 7, 7, 42, 42},
      {URMA_OPC_CAS, 7, 8, 42, 7},
      {URMA_OPC_SWAP, 7, 0, 0xFFFFFFFF, 0xFFFFFFFF},
      {URMA_OPC_FADD, 0xFFFFFFFF, 2, 0, 1},
      {URMA_OPC_FSUB, 1, 2, 0, 0xFFFFFFFF},
      {URMA_OPC_FAND, 0xFF00FF00, 0x0FF00FF0, 0, 0x0F000F00},
      {URMA_OPC_FOR, 0xFF00FF00, 0x0FF00FF0, 0, 0xFFF0FFF0},
      {URMA_OPC_FXOR, 0xFF00FF00, 0xFFFFFFFF, 0, 0x00FF00FF},
  };
  for (const size_t offset : {64, 68}) {
    for (const Case& c : cases) {
      std::memset(pair.there->data() + 56, 0xA5, 24);
      const auto before = static_cast<uint32_t>(c.before);
      std::memcpy(pair.there->data() + offset, &before, sizeof(before));
      EXPECT_EQ(execute(&pair, c, 4, offset), c.before) << c.opcode;
      uint32_t after;
      std::memcpy(&after, pair.there->data() + offset, sizeof(after));
      EXPECT_EQ(after, c.after) << c.opcode;
      for (size_t i = 56; i < 80; ++i) {
        if (i >= offset && i < offset + 4) continue;
        EXPECT_EQ(static_cast<uint8_t>(pair.there->data()[i]), 0xA5) << i;
      }
    }
  }
}

// A request posted after one that takes several rounds is executed after it.
TEST_F(AtomicsTest, LaterRequestsWaitInOrder) {
  Pair pair;
  pair.there->words[0] = 0xF0;
  Chain chain(pair.target.get());
  chain.atomic(URMA_OPC_FXOR, pair.here->sge(0, 8), pair.there->remote_sge(0, 8), 0xFF, 0, 1);
  chain.read({pair.here->sge(8, 8)}, pair.there->remote_sge(0, 8), 2);
  chain.atomic(URMA_OPC_SWAP, pair.here->sge(16, 8), pair.there->remote_sge(0, 8), 0, 99, 3);
  chain.atomic(URMA_OPC_FADD, pair.here->sge(24, 8), pair.there->remote_sge(0, 8), 1, 0, 4);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(4);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(records[i].user_ctx, i + 1);
  EXPECT_EQ(pair.here->words[0], 0xF0U);
  EXPECT_EQ(pair.here->words[1], 0x0FU);
  EXPECT_EQ(pair.here->words[2], 0x0FU);
  EXPECT_EQ(pair.here->words[3], 99U);
  EXPECT_EQ(pair.there->words[0], 100U);
}

// Two senders alternate on one word, one step each, so that each invalidates the guesses of the
// other.
TEST_F(AtomicsTest, NothingIsLostUnderContention) {
  Pair pair({}, 64);
  auto other_jfc = pair.fabric.make_jfc(256);
  SendEnd other(&pair.fabric, pair.fabric.jfs_cfg(other_jfc.get(), 64));
  pair.there->words[0] = 0;
  constexpr int kEach = 50;
  const auto post = [&](SendEnd* end, uint64_t operand, uint64_t user_ctx) {
    Chain chain(pair.target.get());
    // Addition of 4 bytes, which no device has: each sender has one half of the word, and a carry
    // would change the other half.
    chain.atomic(URMA_OPC_FADD, pair.here->sge(8 * user_ctx, 4),
                 pair.there->remote_sge(operand == 1 ? 0 : 4, 4), operand, 0, user_ctx);
    urma_jfs_wr_t* bad;
    ASSERT_EQ(end->sender->post(chain.first(), &bad), URMA_SUCCESS);
  };
  for (int i = 0; i < kEach; ++i) {
    post(pair.send.get(), 1, 1);
    post(&other, 0x80000001, 2);
  }
  size_t done = 0;
  for (int tries = 0; done < 2 * kEach && tries < 100000; ++tries) {
    pair.fabric.settle();
    urma_cr_t record;
    for (TestJfc* jfc : {pair.send_jfc.get(), other_jfc.get()}) {
      if (jfc->poll(1, &record) != 1) continue;
      EXPECT_EQ(record.status, URMA_CR_SUCCESS);
      ++done;
    }
  }
  EXPECT_EQ(done, size_t{2} * kEach);
  uint32_t halves[2];
  std::memcpy(halves, pair.there->data(), sizeof(halves));
  EXPECT_EQ(halves[0], uint32_t{kEach});
  EXPECT_EQ(halves[1], static_cast<uint32_t>(kEach * 0x80000001ULL));
}

TEST_F(AtomicsTest, MisalignedIsUnsupported) {
  Pair pair;
  Chain chain(pair.target.get());
  chain.atomic(URMA_OPC_FADD, pair.here->sge(0, 8), pair.there->remote_sge(4, 8), 1, 0, 1);
  chain.atomic(URMA_OPC_SWAP, pair.here->sge(0, 4), pair.there->remote_sge(2, 4), 1, 0, 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  for (const urma_cr_t& record : pair.sent(2)) {
    EXPECT_EQ(record.status, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
  }
}

TEST_F(AtomicsTest, WordAroundFourBytesMustBeInTheSegment) {
  Pair pair;
  Buffer small(&pair.fabric, 16);
  pair.fabric.connector.grants[small.segment.token_id_value].len = 12;
  Chain chain(pair.target.get());
  chain.atomic(URMA_OPC_SWAP, pair.here->sge(0, 4), small.remote_sge(8, 4), 0, 1, 1);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair.sent(1)[0].status, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
}

TEST_F(AtomicsTest, MissingRightFails) {
  Pair pair;
  Buffer readable(&pair.fabric, 64, URMA_ACCESS_READ);
  Chain chain(pair.target.get());
  chain.atomic(URMA_OPC_SWAP, pair.here->sge(0, 8), readable.remote_sge(0, 8), 0, 1, 1);
  chain.atomic(URMA_OPC_CAS, pair.here->sge(0, 8), readable.remote_sge(0, 8), 0, 1, 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  for (const urma_cr_t& record : pair.sent(2)) {
    EXPECT_EQ(record.status, URMA_CR_REM_ACCESS_ABORT_ERR);
  }
}

TEST_F(AtomicsTest, ConnectionBreaksDuringALoop) {
  Pair pair;
  pair.connect();
  Buffer narrow(&pair.fabric, 64, URMA_ACCESS_READ);
  pair.fabric.connector.grants[narrow.segment.token_id_value].access = kAllAccess;
  pair.there->words[0] = 5;
  Chain chain(pair.target.get());
  chain.atomic(URMA_OPC_SWAP, pair.here->sge(0, 8), narrow.remote_sge(0, 8), 0, 1, 1);
  chain.atomic(URMA_OPC_SWAP, pair.here->sge(8, 8), pair.there->remote_sge(0, 8), 0, 6, 2);
  ASSERT_EQ(pair.post(&chain), URMA_SUCCESS);
  const auto records = pair.sent(2);
  EXPECT_EQ(records[0].status, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(records[1].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair.here->words[1], 5U);
  EXPECT_EQ(pair.there->words[0], 6U);
}

TEST(AtomicLoopTest, GivesUpUnderConstantContention) {
  AtomicLoop loop(URMA_OPC_SWAP, 64, 8, 0, 1);
  uint64_t word = 1;
  AtomicLoop::Next next;
  do {
    next = loop.found(++word);
  } while (next == AtomicLoop::Next::kAgain);
  EXPECT_EQ(next, AtomicLoop::Next::kHopeless);
}

}  // namespace
}  // namespace urma::verbs
