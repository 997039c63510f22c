/* SPDX-License-Identifier: MIT */

// Messages, one-sided requests, completions and counters between two endpoints.

#include <poll.h>

#include <atomic>
#include <thread>

#include "test/ofi/pair.h"

namespace urma_test {
namespace {

using DataTest = PairTest;

TEST_F(DataTest, MovesMessagesOfAllSizes) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{64}, size_t{513}, size_t{5000}, kMessage}) {
    fill(a_, size);
    ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), kMessage, b_.desc(), 0, &b_), 0);
    ASSERT_EQ(fi_send(a_.ep, a_.memory.data(), size, a_.desc(), 0, &a_), 0);
    const fi_cq_data_entry received = next(b_), sent = next(a_);
    EXPECT_EQ(received.op_context, &b_);
    EXPECT_EQ(received.flags, FI_RECV | FI_MSG);
    EXPECT_EQ(received.len, size);
    EXPECT_EQ(received.buf, b_.memory.data());
    EXPECT_EQ(sent.op_context, &a_);
    EXPECT_EQ(sent.flags, FI_SEND | FI_MSG);
    EXPECT_EQ(std::memcmp(a_.memory.data(), b_.memory.data(), size), 0);
  }
}

TEST_F(DataTest, GathersAndScatters) {
  fill(a_, 300);
  const iovec out[] = {{a_.memory.data(), 100}, {a_.memory.data() + 100, 200}};
  const iovec in[] = {{b_.memory.data(), 10}, {b_.memory.data() + 10, 290}};
  void* from[] = {a_.desc(), a_.desc()};
  void* to[] = {b_.desc(), b_.desc()};
  ASSERT_EQ(fi_recvv(b_.ep, in, to, 2, 0, nullptr), 0);
  ASSERT_EQ(fi_sendv(a_.ep, out, from, 2, 0, nullptr), 0);
  EXPECT_EQ(next(b_).len, 300u);
  EXPECT_EQ(std::memcmp(a_.memory.data(), b_.memory.data(), 300), 0);
  next(a_);
}

TEST_F(DataTest, InjectsWithoutACompletion) {
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 64, b_.desc(), 0, nullptr), 0);
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data() + 64, 64, b_.desc(), 0, nullptr), 0);
  std::string text = "copied at once";
  ASSERT_EQ(fi_inject(a_.ep, text.data(), text.size(), 0), 0);
  ASSERT_EQ(fi_injectdata(a_.ep, text.data(), text.size(), 0x1234567890abcdef, 0), 0);
  text.assign(text.size(), '-');
  EXPECT_EQ(next(b_).len, 14u);
  const fi_cq_data_entry second = next(b_);
  EXPECT_EQ(second.data, 0x1234567890abcdef);
  EXPECT_NE(second.flags & FI_REMOTE_CQ_DATA, 0u);
  EXPECT_EQ(std::string(b_.memory.data(), 14), "copied at once");
  fi_cq_data_entry none;
  EXPECT_EQ(fi_cq_sread(a_.cq, &none, 1, nullptr, 0), -FI_EAGAIN);
}

TEST_F(DataTest, RefusesRequestsBeyondItsLimits) {
  std::vector<char> unregistered(info_->tx_attr->inject_size + 1);
  EXPECT_EQ(fi_inject(a_.ep, unregistered.data(), unregistered.size(), 0), -FI_EMSGSIZE);
  EXPECT_EQ(fi_send(a_.ep, unregistered.data(), unregistered.size(), nullptr, 0, nullptr),
            -FI_EINVAL);
  EXPECT_EQ(fi_recv(b_.ep, unregistered.data(), 8, nullptr, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(
      fi_send(a_.ep, a_.memory.data(), info_->ep_attr->max_msg_size + 1, a_.desc(), 0, nullptr),
      -FI_EMSGSIZE);
  size_t posted = 0;
  ssize_t error;
  while ((error = fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr)) == 0) posted++;
  EXPECT_EQ(error, -FI_EAGAIN);
  EXPECT_EQ(posted, info_->rx_attr->size);
}

TEST_F(DataTest, FillsItsQueueAndEmptiesIt) {
  size_t posted = 0;
  ssize_t error;
  while ((error = fi_send(a_.ep, a_.memory.data(), 8, a_.desc(), 0, nullptr)) == 0) posted++;
  EXPECT_EQ(error, -FI_EAGAIN);
  EXPECT_EQ(posted, info_->tx_attr->size);
  for (size_t i = 0; i < posted; i++) {
    ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr), 0);
    next(b_);
  }
  for (size_t i = 0; i < posted; i++) next(a_);
  EXPECT_EQ(fi_send(a_.ep, a_.memory.data(), 8, a_.desc(), 0, nullptr), 0);
}

TEST_F(DataTest, ReportsAMessageThatIsTooLong) {
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, &b_), 0);
  ASSERT_EQ(fi_send(a_.ep, a_.memory.data(), 9, a_.desc(), 0, &a_), 0);
  const fi_cq_err_entry received = next_error(b_), sent = next_error(a_);
  EXPECT_EQ(received.err, FI_ETRUNC);
  EXPECT_EQ(received.op_context, &b_);
  // Unknown.
  EXPECT_EQ(received.len, 0u);
  EXPECT_EQ(received.olen, 0u);
  EXPECT_EQ(sent.err, FI_EMSGSIZE);
  EXPECT_EQ(sent.op_context, &a_);
  char text[64];
  EXPECT_STRNE(fi_cq_strerror(a_.cq, sent.prov_errno, nullptr, text, sizeof(text)), "");
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, &b_), 0);
  ASSERT_EQ(fi_send(a_.ep, a_.memory.data(), 8, a_.desc(), 0, &a_), 0);
  EXPECT_EQ(next(b_).len, 8u);
  EXPECT_EQ(next(a_).op_context, &a_);
}

TEST_F(DataTest, ReadsAndWritesTheOtherMemory) {
  const uint64_t key = fi_mr_key(b_.mr);
  for (const size_t size : {size_t{1}, size_t{5000}, kMessage}) {
    fill(a_, size);
    const std::string expected(a_.memory.data(), size);
    ASSERT_EQ(fi_write(a_.ep, a_.memory.data(), size, a_.desc(), 0, b_.address(), key, &a_), 0);
    EXPECT_EQ(next(a_).flags, FI_WRITE | FI_RMA);
    EXPECT_EQ(std::memcmp(b_.memory.data(), expected.data(), size), 0);
    std::fill(a_.memory.begin(), a_.memory.end(), 0);
    ASSERT_EQ(fi_read(a_.ep, a_.memory.data(), size, a_.desc(), 0, b_.address(), key, &a_), 0);
    EXPECT_EQ(next(a_).flags, FI_READ | FI_RMA);
    EXPECT_EQ(std::memcmp(a_.memory.data(), expected.data(), size), 0);
  }
  ASSERT_EQ(fi_inject_write(a_.ep, "word", 4, 0, b_.address(), key), 0);
  ASSERT_EQ(fi_read(a_.ep, a_.memory.data(), 4, a_.desc(), 0, b_.address(), key, nullptr), 0);
  next(a_);
  EXPECT_EQ(std::string(a_.memory.data(), 4), "word");
}

TEST_F(DataTest, WritesWithDataForTheOtherQueue) {
  ASSERT_EQ(fi_recv(b_.ep, nullptr, 0, nullptr, 0, nullptr), 0);
  fill(a_, 100);
  ASSERT_EQ(fi_writedata(a_.ep, a_.memory.data(), 100, a_.desc(), 0xfeedface12345678, 0,
                         b_.address(), fi_mr_key(b_.mr), nullptr),
            0);
  const fi_cq_data_entry told = next(b_);
  EXPECT_EQ(told.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(told.data, 0xfeedface12345678);
  EXPECT_EQ(std::memcmp(a_.memory.data(), b_.memory.data(), 100), 0);
  next(a_);
}

TEST_F(DataTest, RefusesWrongKeysAndAddresses) {
  const uint64_t key = fi_mr_key(b_.mr);
  const struct {
    uint64_t address, key;
    int error;
  } wrong[] = {{b_.address(), key ^ 1, FI_EACCES},
               {b_.address(), key ^ (1ULL << 38), FI_EACCES},
               {b_.address() + kMessage, key, FI_EACCES},
               {b_.address() + kMessage - 4, key, FI_EACCES},
               // Of no living process.
               {b_.address(), key ^ (1ULL << 62), FI_ECONNRESET},
               {b_.address(), FI_KEY_NOTAVAIL, FI_ECONNRESET}};
  for (const auto& [address, with, expected] : wrong) {
    ASSERT_EQ(fi_write(a_.ep, a_.memory.data(), 8, a_.desc(), 0, address, with, &a_), 0);
    const fi_cq_err_entry error = next_error(a_);
    EXPECT_EQ(error.err, expected);
    EXPECT_EQ(error.op_context, &a_);
  }
  ASSERT_EQ(fi_write(a_.ep, a_.memory.data(), 8, a_.desc(), 0, b_.address(), key, &a_), 0);
  EXPECT_EQ(next(a_).op_context, &a_);
}

TEST_F(DataTest, RefusesWritesToReadOnlyMemory) {
  std::vector<char> memory(64);
  fid_mr* mr = nullptr;
  ASSERT_EQ(fi_mr_reg(domain_, memory.data(), memory.size(), FI_REMOTE_READ, 0, 0, 0, &mr, nullptr),
            0);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  ASSERT_EQ(fi_read(a_.ep, a_.memory.data(), 8, a_.desc(), 0, address, fi_mr_key(mr), nullptr), 0);
  next(a_);
  ASSERT_EQ(fi_write(a_.ep, a_.memory.data(), 8, a_.desc(), 0, address, fi_mr_key(mr), nullptr), 0);
  EXPECT_EQ(next_error(a_).err, FI_EACCES);
  const uint64_t key = fi_mr_key(mr);
  EXPECT_EQ(fi_close(&mr->fid), 0);
  ASSERT_EQ(fi_read(a_.ep, a_.memory.data(), 8, a_.desc(), 0, address, key, nullptr), 0);
  EXPECT_EQ(next_error(a_).err, FI_EACCES);
}

TEST_F(DataTest, TheDescriptorBecomesReadable) {
  int fd = -1;
  ASSERT_EQ(fi_control(&b_.cq->fid, FI_GETWAIT, &fd), 0);
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr), 0);
  fid_t waiting = &b_.cq->fid;
  ASSERT_EQ(fi_trywait(fabric_, &waiting, 1), 0);
  ASSERT_EQ(fi_inject(a_.ep, "wake up", 8, 0), 0);
  pollfd wait = {fd, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 30000), 1);
  EXPECT_EQ(next(b_).len, 8u);
  fid_cq* unwaited = open_cq(FI_WAIT_NONE);
  fi_cq_data_entry entry;
  EXPECT_EQ(fi_cq_sread(unwaited, &entry, 1, nullptr, 0), -FI_ENOSYS);
  EXPECT_EQ(fi_control(&unwaited->fid, FI_GETWAIT, &fd), -FI_ENOSYS);
  EXPECT_EQ(fi_close(&unwaited->fid), 0);
  fid_cq* yielding = open_cq(FI_WAIT_YIELD);
  EXPECT_EQ(fi_cq_sread(yielding, &entry, 1, nullptr, 0), -FI_EAGAIN);
  EXPECT_EQ(fi_close(&yielding->fid), 0);
}

// FI_THREAD_SAFE: a queue may be read while one of its endpoints ends.
TEST_F(DataTest, EndsWhileAnotherThreadReads) {
  std::atomic<bool> done{false};
  std::thread reader([&] {
    fi_cq_data_entry entry;
    fi_cq_err_entry error{};
    while (!done) {
      for (const End* end : {&a_, &b_})
        if (fi_cq_read(end->cq, &entry, 1) == -FI_EAVAIL) fi_cq_readerr(end->cq, &error, 0);
    }
  });
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 64; i++) {
      EXPECT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr), 0);
      EXPECT_EQ(fi_send(a_.ep, a_.memory.data(), 8, a_.desc(), 0, nullptr), 0);
    }
    EXPECT_EQ(fi_close(&b_.ep->fid), 0);
    EXPECT_EQ(next_event(eq_).type, static_cast<uint32_t>(FI_SHUTDOWN));
    EXPECT_EQ(fi_close(&a_.ep->fid), 0);
    connect();
  }
  done = true;
  reader.join();
}

class SelectiveTest : public PairTest {
 protected:
  SelectiveTest() { cq_flags_ = FI_SELECTIVE_COMPLETION; }
};

TEST_F(SelectiveTest, AlsoReportsDataOfThePeer) {
  for (int i = 0; i < 2; i++)
    ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr), 0);
  ASSERT_EQ(fi_inject(a_.ep, "untold", 7, 0), 0);
  ASSERT_EQ(fi_injectdata(a_.ep, "told", 5, 77, 0), 0);
  const fi_cq_data_entry told = next(b_);
  EXPECT_EQ(told.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(told.data, 77u);
}

// fi_cq(3): failures are reported, also of requests that are not to be reported otherwise.
TEST_F(SelectiveTest, ReportsFailuresOfInjectedRequests) {
  const uint64_t wrong = fi_mr_key(b_.mr) ^ 1;
  // Nobody would know it by its context.
  ASSERT_EQ(fi_inject_write(a_.ep, "word", 4, 0, b_.address(), wrong), 0);
  const iovec piece = {a_.memory.data(), 4};
  const fi_rma_iov there = {b_.address(), 4, wrong};
  fi_msg_rma message{};
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.rma_iov = &there;
  message.rma_iov_count = 1;
  message.context = &message;
  ASSERT_EQ(fi_writemsg(a_.ep, &message, FI_INJECT), 0);
  fi_cq_err_entry error = next_error(a_);
  EXPECT_EQ(error.err, FI_EACCES);
  EXPECT_EQ(error.op_context, &message);
  // The same if the flag is one of the endpoint.
  EXPECT_EQ(fi_close(&b_.ep->fid), 0);
  EXPECT_EQ(next_event(eq_).type, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(fi_close(&a_.ep->fid), 0);
  info_->tx_attr->op_flags = FI_INJECT;
  connect();
  ASSERT_EQ(fi_read(a_.ep, a_.memory.data(), 8, a_.desc(), 0, b_.address(), wrong, &a_), 0);
  error = next_error(a_);
  EXPECT_EQ(error.err, FI_EACCES);
  EXPECT_EQ(error.op_context, &a_);
}

class CountTest : public PairTest {
 protected:
  void TearDown() override {
    EXPECT_EQ(fi_close(&a_.ep->fid), 0);
    a_.ep = nullptr;
    for (fid_cntr* cntr : counters_) EXPECT_EQ(fi_close(&cntr->fid), 0);
    PairTest::TearDown();
  }

  void prepare(End& end) override {
    if (&end != &a_) return;
    const uint64_t flags[] = {FI_SEND, FI_RECV, FI_READ | FI_WRITE};
    for (size_t i = 0; i < std::size(flags); i++) {
      ASSERT_EQ(fi_cntr_open(domain_, nullptr, &counters_[i], nullptr), 0);
      ASSERT_EQ(fi_ep_bind(end.ep, &counters_[i]->fid, flags[i]), 0);
      EXPECT_EQ(fi_ep_bind(end.ep, &counters_[i]->fid, flags[i]), -FI_EINVAL);
      EXPECT_EQ(fi_ep_bind(end.ep, &counters_[i]->fid, FI_REMOTE_WRITE), -FI_ENOSYS);
    }
  }

  fid_cntr* counters_[3];
};

TEST_F(CountTest, CountsCompletions) {
  const auto& [sends, receives, accesses] = counters_;
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr), 0);
  ASSERT_EQ(fi_recv(a_.ep, a_.memory.data(), 8, a_.desc(), 0, nullptr), 0);
  ASSERT_EQ(fi_inject(a_.ep, "to b", 4, 0), 0);
  ASSERT_EQ(fi_inject(b_.ep, "to a", 4, 0), 0);
  const uint64_t key = fi_mr_key(b_.mr);
  ASSERT_EQ(fi_read(a_.ep, a_.memory.data(), 8, a_.desc(), 0, b_.address(), key, nullptr), 0);
  ASSERT_EQ(fi_inject_write(a_.ep, "word", 4, 0, b_.address(), key), 0);
  EXPECT_EQ(fi_cntr_wait(sends, 1, 30000), 0);
  EXPECT_EQ(fi_cntr_wait(receives, 1, 30000), 0);
  EXPECT_EQ(fi_cntr_wait(accesses, 2, 30000), 0);
  EXPECT_EQ(fi_cntr_wait(accesses, 3, 0), -FI_ETIMEDOUT);
  ASSERT_EQ(fi_read(a_.ep, a_.memory.data(), 8, a_.desc(), 0, b_.address(), key + 1, nullptr), 0);
  EXPECT_EQ(fi_cntr_wait(accesses, 3, 30000), -FI_EAVAIL);
  EXPECT_EQ(fi_cntr_readerr(accesses), 1u);
  EXPECT_EQ(fi_cntr_set(sends, 7), 0);
  EXPECT_EQ(fi_cntr_add(sends, 2), 0);
  EXPECT_EQ(fi_cntr_read(sends), 9u);
  EXPECT_EQ(fi_close(&sends->fid), -FI_EBUSY);
}

TEST_F(CountTest, AnEndpointThatWasNeverEnabledTakesNoQueueAway) {
  fid_ep* unused = open_ep(info_, a_.cq);
  ASSERT_EQ(fi_ep_bind(unused, &counters_[0]->fid, FI_SEND), 0);
  EXPECT_EQ(fi_close(&unused->fid), 0);
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr), 0);
  ASSERT_EQ(fi_inject(a_.ep, "to b", 4, 0), 0);
  EXPECT_EQ(fi_cntr_wait(counters_[0], 1, 30000), 0);
}

}  // namespace
}  // namespace urma_test
