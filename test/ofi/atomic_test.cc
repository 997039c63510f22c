/* SPDX-License-Identifier: MIT */

// Atomic operations of the libfabric provider.

#include <rdma/fi_atomic.h>

#include <array>
#include <thread>

#include "test/ofi/pair.h"

namespace urma_test {
namespace {

constexpr fi_datatype kTypes[] = {FI_INT32, FI_UINT32, FI_INT64, FI_UINT64};
constexpr uint64_t kOld = 0xf0f1f2f3e4e5e6e7, kOperand = 0x0123456789abcdef;

size_t bytes_of(fi_datatype type) { return type == FI_INT32 || type == FI_UINT32 ? 4 : 8; }

uint64_t cut(uint64_t value, fi_datatype type) {
  return bytes_of(type) == 4 ? static_cast<uint32_t>(value) : value;
}

class AtomicTest : public PairTest {
 protected:
  uint64_t key() const { return fi_mr_key(b_.mr); }

  static uint64_t& word(End& end, size_t index = 0) {
    return reinterpret_cast<uint64_t*>(end.memory.data())[index];
  }

  // The operand and the compared value of a have no registration: they are read during the call.
  void expect_fetched(fi_datatype type, fi_op op, uint64_t expected) {
    word(b_) = kOld;
    word(a_) = 0;
    const uint64_t operand = kOperand;
    ASSERT_EQ(fi_fetch_atomic(a_.ep, &operand, 1, nullptr, &word(a_), a_.desc(), 0, b_.address(),
                              key(), type, op, &a_),
              0);
    const fi_cq_data_entry entry = next(a_);
    EXPECT_EQ(entry.flags, FI_ATOMIC | FI_READ);
    EXPECT_EQ(entry.op_context, &a_);
    EXPECT_EQ(word(a_), cut(kOld, type));
    expect_now(type, expected);
  }

  void expect_changed(fi_datatype type, fi_op op, uint64_t expected) {
    word(b_) = kOld;
    const uint64_t operand = kOperand;
    ASSERT_EQ(fi_atomic(a_.ep, &operand, 1, nullptr, 0, b_.address(), key(), type, op, &a_), 0);
    EXPECT_EQ(next(a_).flags, FI_ATOMIC | FI_WRITE);
    expect_now(type, expected);
  }

  // The word of b has this element, and is otherwise as it was.
  void expect_now(fi_datatype type, uint64_t expected) {
    EXPECT_EQ(cut(word(b_), type), cut(expected, type));
    if (bytes_of(type) == 4) {
      EXPECT_EQ(word(b_) >> 32, kOld >> 32);
    }
  }
};

TEST_F(AtomicTest, ChangesAndFetchesEachType) {
  for (const fi_datatype type : kTypes) {
    SCOPED_TRACE(type);
    const std::pair<fi_op, uint64_t> operations[] = {{FI_SUM, kOld + kOperand},
                                                     {FI_BOR, kOld | kOperand},
                                                     {FI_BAND, kOld & kOperand},
                                                     {FI_BXOR, kOld ^ kOperand},
                                                     {FI_ATOMIC_WRITE, kOperand}};
    for (const auto& [op, expected] : operations) {
      SCOPED_TRACE(op);
      expect_changed(type, op, expected);
      expect_fetched(type, op, expected);
    }
    expect_fetched(type, FI_ATOMIC_READ, kOld);
  }
}

TEST_F(AtomicTest, SwapsWhatCompares) {
  for (const fi_datatype type : kTypes) {
    for (const bool same : {true, false}) {
      word(b_) = kOld;
      const uint64_t operand = kOperand, compared = same ? kOld : kOld + 1;
      ASSERT_EQ(fi_compare_atomic(a_.ep, &operand, 1, nullptr, &compared, nullptr, &word(a_),
                                  a_.desc(), 0, b_.address(), key(), type, FI_CSWAP, nullptr),
                0);
      EXPECT_EQ(next(a_).flags, FI_ATOMIC | FI_READ);
      EXPECT_EQ(cut(word(a_), type), cut(kOld, type));
      expect_now(type, same ? kOperand : kOld);
    }
  }
}

TEST_F(AtomicTest, TakesListsAndMessagesOfOneElement) {
  uint64_t operand = 5, compared = 7;
  const fi_ioc pieces = {&operand, 1}, compare = {&compared, 1};
  fi_ioc result = {&word(a_), 1};
  void* descriptor = a_.desc();
  word(b_) = 1;
  ASSERT_EQ(
      fi_atomicv(a_.ep, &pieces, nullptr, 1, 0, b_.address(), key(), FI_UINT64, FI_SUM, nullptr),
      0);
  next(a_);
  EXPECT_EQ(word(b_), 6u);
  const fi_rma_ioc target = {b_.address(), 1, key()};
  fi_msg_atomic message{};
  message.msg_iov = &pieces;
  message.iov_count = 1;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  message.datatype = FI_UINT64;
  message.op = FI_BXOR;
  message.context = &message;
  ASSERT_EQ(fi_atomicmsg(a_.ep, &message, 0), 0);
  EXPECT_EQ(next(a_).op_context, &message);
  EXPECT_EQ(word(b_), 3u);
  ASSERT_EQ(fi_fetch_atomicmsg(a_.ep, &message, &result, &descriptor, 1, 0), 0);
  next(a_);
  EXPECT_EQ(word(a_), 3u);
  ASSERT_EQ(fi_fetch_atomicv(a_.ep, nullptr, nullptr, 0, &result, &descriptor, 1, 0, b_.address(),
                             key(), FI_UINT64, FI_ATOMIC_READ, nullptr),
            0);
  next(a_);
  EXPECT_EQ(word(a_), 6u);
  word(b_) = compared;
  message.op = FI_CSWAP;
  ASSERT_EQ(fi_compare_atomicmsg(a_.ep, &message, &compare, nullptr, 1, &result, &descriptor, 1, 0),
            0);
  next(a_);
  EXPECT_EQ(word(b_), operand);
  ASSERT_EQ(
      fi_compare_atomicv(a_.ep, &pieces, nullptr, 1, &compare, nullptr, 1, &result, &descriptor, 1,
                         0, b_.address(), key(), FI_UINT64, FI_CSWAP, nullptr),
      0);
  next(a_);
  EXPECT_EQ(word(a_), operand);
  message.rma_iov_count = 2;
  EXPECT_EQ(fi_atomicmsg(a_.ep, &message, 0), -FI_EINVAL);
}

TEST_F(AtomicTest, InjectsWithoutARecord) {
  word(b_) = 40;
  uint64_t operand = 2;
  ASSERT_EQ(fi_inject_atomic(a_.ep, &operand, 1, 0, b_.address(), key(), FI_UINT64, FI_SUM), 0);
  operand = 0;
  ASSERT_EQ(fi_fetch_atomic(a_.ep, nullptr, 1, nullptr, &word(a_), a_.desc(), 0, b_.address(),
                            key(), FI_UINT64, FI_ATOMIC_READ, &a_),
            0);
  EXPECT_EQ(next(a_).op_context, &a_);
  EXPECT_EQ(word(a_), 42u);
}

TEST_F(AtomicTest, NamesWhatItSupports) {
  const auto valid = [&](fi_datatype type, fi_op op) {
    size_t count = 0;
    const bool changes = fi_atomicvalid(a_.ep, type, op, &count) == 0 && count == 1;
    const bool fetches = fi_fetch_atomicvalid(a_.ep, type, op, &count) == 0 && count == 1;
    const bool compares = fi_compare_atomicvalid(a_.ep, type, op, &count) == 0 && count == 1;
    return std::array{changes, fetches, compares};
  };
  EXPECT_EQ(valid(FI_INT32, FI_SUM), (std::array{true, true, false}));
  EXPECT_EQ(valid(FI_UINT64, FI_ATOMIC_READ), (std::array{false, true, false}));
  EXPECT_EQ(valid(FI_UINT64, FI_CSWAP), (std::array{false, false, true}));
  EXPECT_EQ(valid(FI_UINT64, FI_MIN), (std::array{false, false, false}));
  EXPECT_EQ(valid(FI_DOUBLE, FI_SUM), (std::array{false, false, false}));
  fi_atomic_attr attr{};
  EXPECT_EQ(fi_query_atomic(domain_, FI_UINT32, FI_SUM, &attr, FI_FETCH_ATOMIC), 0);
  EXPECT_EQ(attr.count, 1u);
  EXPECT_EQ(attr.size, 4u);
  EXPECT_EQ(fi_query_atomic(domain_, FI_UINT64, FI_CSWAP, &attr, FI_COMPARE_ATOMIC), 0);
  EXPECT_EQ(fi_query_atomic(domain_, FI_UINT64, FI_CSWAP, &attr, 0), -FI_EOPNOTSUPP);
  EXPECT_EQ(fi_query_atomic(domain_, FI_UINT64, FI_SUM, &attr, FI_TAGGED), -FI_EOPNOTSUPP);
}

TEST_F(AtomicTest, RefusesWhatItCannotDo) {
  uint64_t operand = 1, unregistered = 0;
  const auto add = [&](size_t count, uint64_t* result, fi_datatype type, fi_op op) {
    return fi_fetch_atomic(a_.ep, &operand, count, nullptr, result,
                           result == &unregistered ? nullptr : a_.desc(), 0, b_.address(), key(),
                           type, op, nullptr);
  };
  EXPECT_EQ(add(2, &word(a_), FI_UINT64, FI_SUM), -FI_EINVAL);
  EXPECT_EQ(add(1, nullptr, FI_UINT64, FI_SUM), -FI_EINVAL);
  EXPECT_EQ(add(1, &unregistered, FI_UINT64, FI_SUM), -FI_EINVAL);
  EXPECT_EQ(add(1, &word(a_), FI_FLOAT, FI_SUM), -FI_EOPNOTSUPP);
  EXPECT_EQ(add(1, &word(a_), FI_UINT64, FI_PROD), -FI_EOPNOTSUPP);
  EXPECT_EQ(
      fi_atomic(a_.ep, nullptr, 1, nullptr, 0, b_.address(), key(), FI_UINT64, FI_SUM, nullptr),
      -FI_EINVAL);
  size_t posted = 0;
  while (add(1, &word(a_), FI_UINT64, FI_SUM) == 0) posted++;
  EXPECT_EQ(posted, info_->tx_attr->size) << "a refused request holds a place";
}

TEST_F(AtomicTest, KeepsStrangersOut) {
  uint64_t operand = 1;
  word(b_) = 7;
  std::vector<uint64_t> readable(8, 7);
  fid_mr* mr = nullptr;
  ASSERT_EQ(fi_mr_reg(domain_, readable.data(), 64, FI_REMOTE_READ, 0, 0, 0, &mr, nullptr), 0);
  const std::pair<uint64_t, uint64_t> wrong[] = {
      {b_.address(), key() ^ 1},
      {b_.address() + kMessage, key()},
      {reinterpret_cast<uint64_t>(readable.data()), fi_mr_key(mr)}};
  for (const auto& [address, with] : wrong) {
    ASSERT_EQ(fi_atomic(a_.ep, &operand, 1, nullptr, 0, address, with, FI_UINT64, FI_SUM, &a_), 0);
    const fi_cq_err_entry error = next_error(a_);
    EXPECT_EQ(error.err, FI_EACCES);
    EXPECT_EQ(error.op_context, &a_);
  }
  EXPECT_EQ(word(b_), 7u);
  EXPECT_EQ(readable[0], 7u);
  EXPECT_EQ(fi_close(&mr->fid), 0);
}

// Both directions add to one word.
TEST_F(AtomicTest, LosesNoAddition) {
  constexpr int kRounds = 2000;
  word(b_) = 0;
  const auto add = [&](const End& end) {
    const uint64_t one = 1;
    for (int i = 0; i < kRounds; i++) {
      EXPECT_EQ(
          fi_atomic(end.ep, &one, 1, nullptr, 0, b_.address(), key(), FI_UINT64, FI_SUM, nullptr),
          0);
      next(end);
    }
  };
  std::thread other(add, std::cref(b_));
  add(a_);
  other.join();
  ASSERT_EQ(fi_fetch_atomic(a_.ep, nullptr, 1, nullptr, &word(a_), a_.desc(), 0, b_.address(),
                            key(), FI_UINT64, FI_ATOMIC_READ, nullptr),
            0);
  next(a_);
  EXPECT_EQ(word(a_), 2u * kRounds);
}

class WithoutAtomics : public AtomicTest {
 protected:
  WithoutAtomics() { caps_ = FI_MSG | FI_RMA; }
};

TEST_F(WithoutAtomics, RefusesThem) {
  const uint64_t operand = 1;
  EXPECT_EQ(
      fi_atomic(a_.ep, &operand, 1, nullptr, 0, b_.address(), key(), FI_UINT64, FI_SUM, nullptr),
      -FI_EOPNOTSUPP);
}

class AtomicCountTest : public AtomicTest {
 protected:
  void TearDown() override {
    EXPECT_EQ(fi_close(&a_.ep->fid), 0);
    a_.ep = nullptr;
    for (fid_cntr* cntr : {reads_, writes_}) EXPECT_EQ(fi_close(&cntr->fid), 0);
    PairTest::TearDown();
  }

  void prepare(End& end) override {
    if (&end != &a_) return;
    for (fid_cntr** cntr : {&reads_, &writes_})
      ASSERT_EQ(fi_cntr_open(domain_, nullptr, cntr, nullptr), 0);
    ASSERT_EQ(fi_ep_bind(end.ep, &reads_->fid, FI_READ), 0);
    ASSERT_EQ(fi_ep_bind(end.ep, &writes_->fid, FI_WRITE), 0);
  }

  fid_cntr* reads_ = nullptr;
  fid_cntr* writes_ = nullptr;
};

TEST_F(AtomicCountTest, CountsFetchesAsReads) {
  const uint64_t one = 1;
  for (int i = 0; i < 2; i++)
    ASSERT_EQ(fi_inject_atomic(a_.ep, &one, 1, 0, b_.address(), key(), FI_UINT64, FI_SUM), 0);
  ASSERT_EQ(fi_fetch_atomic(a_.ep, &one, 1, nullptr, &word(a_), a_.desc(), 0, b_.address(), key(),
                            FI_UINT64, FI_SUM, nullptr),
            0);
  EXPECT_EQ(fi_cntr_wait(writes_, 2, 30000), 0);
  EXPECT_EQ(fi_cntr_wait(reads_, 1, 30000), 0);
  EXPECT_EQ(fi_cntr_read(writes_), 2u);
  EXPECT_EQ(fi_cntr_read(reads_), 1u);
}

}  // namespace
}  // namespace urma_test
