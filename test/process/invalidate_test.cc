// SPDX-License-Identifier: MIT
//
// SEND_INVALIDATE: a message that ends the access of peers to one segment, and nothing else.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

constexpr uint32_t kToken = 4711, kOtherToken = 4712;
constexpr size_t kBytes = 8 * kPage;

// Segments under one token id: the one that is invalidated, and others that are not.
struct Segments {
  QueueId queue;
  SegmentId victim, neighbour, other_token;
};

class InvalidateTest : public ProcessTest, public testing::WithParamInterface<bool> {
 protected:
  InvalidateTest() { ::setenv("URMA_SHM_INPLACE", GetParam() ? "1" : "0", 1); }
};

// The side of the importer of one segment.
class Reacher {
 public:
  Reacher(Self* self, urma_target_jetty_t* queue) : self_(self), queue_(queue) {}

  urma_cr_status_t send(urma_target_seg_t* ended, size_t bytes, bool in_wr = false) {
    urma_sge_t from = piece(self_->segment, self_->out(), bytes);
    urma_jfs_wr_t wr = send_invalidate_request(queue_, &from, ended, 1);
    wr.flag.bs.inline_flag = in_wr;
    return status_of(wr);
  }
  urma_cr_status_t write(urma_target_seg_t* segment) {
    urma_sge_t from = piece(self_->segment, self_->out(), 8);
    urma_sge_t into = piece(segment, segment->seg.ubva.va, 8);
    return status_of(write_request(queue_, &from, &into));
  }
  void expect_refused(urma_target_seg_t* segment) {
    urma_sge_t here = piece(self_->segment, self_->in(), 8);
    urma_sge_t there = piece(segment, segment->seg.ubva.va, 8);
    EXPECT_EQ(write(segment), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(status_of(read_request(queue_, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(status_of(add_request(queue_, &here, &there, 1)), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(status_of(write_atomic_request(queue_, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
  }

 private:
  urma_cr_status_t status_of(const urma_jfs_wr_t& wr) {
    self_->endpoint.post(wr);
    return wait_for(self_->endpoint.send_jfc).status;
  }

  Self* self_;
  urma_target_jetty_t* queue_;
};

void expect_no_memfd(const Pages& pages) {
  const auto deadline = Clock::now() + patience(seconds(10));
  while (memfd_areas(pages.get(), pages.bytes()) != 0) {
    if (Clock::now() > deadline) throw std::runtime_error("the owner did not unshare the pages");
    ::sched_yield();
  }
}

void expect_ended(const urma_cr_t& cr, const urma_target_seg_t* victim, size_t bytes) {
  EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
  EXPECT_EQ(cr.opcode, URMA_CR_OPC_SEND_WITH_INV);
  EXPECT_EQ(cr.completion_len, bytes);
  EXPECT_EQ(cr.invalid_token.token_id, victim->seg.token_id);
  EXPECT_EQ(cr.invalid_token.token_value.token, kToken);
}

constexpr size_t kMessages[] = {0, 100, 960, 1000, 60000};

void own(Channel& channel) {
  Self self;
  Endpoint& endpoint = self.endpoint;
  const Pages pages(kBytes), neighbour_pages(kBytes), other_pages(kBytes);
  urma_token_id_t* token_id = urma_alloc_token_id(endpoint.ctx);
  urma_target_seg_t* neighbour =
      add_under(endpoint, token_id, kToken, neighbour_pages.get(), kBytes);
  urma_target_seg_t* other = add_under(endpoint, token_id, kOtherToken, other_pages.get(), kBytes);
  for (const size_t bytes : kMessages) {
    std::memset(pages.get(), 0, kBytes);
    const OwnedSegment victim = add_under(endpoint, token_id, kToken, pages.get(), kBytes);
    // A local use that was posted before continues.
    endpoint.post_receive(self.segment, self.in(), kHalf, 1);
    endpoint.post_receive(victim, pages.get() + kPage, kPage, 2);
    channel.send(Segments{endpoint.queue_id(), endpoint.segment_id(victim, kToken),
                          endpoint.segment_id(neighbour, kToken),
                          endpoint.segment_id(other, kOtherToken)});
    const urma_cr_t cr = wait_for(endpoint.receive_jfc);
    EXPECT_EQ(cr.user_ctx, 1u);
    expect_ended(cr, victim, bytes);
    EXPECT_TRUE(self.arrived(bytes));
    EXPECT_EQ(*pages.word(0), *reinterpret_cast<uint64_t*>(self.out()));
    expect_no_memfd(pages);
    *pages.word(0) = 0;
    channel.sync();
    EXPECT_EQ(wait_for_success(endpoint.receive_jfc, 2).opcode, URMA_CR_OPC_SEND);
    channel.sync();
    EXPECT_EQ(*pages.word(0), 0u);
    EXPECT_EQ(std::memcmp(pages.get() + kPage, self.out(), 8), 0);
  }
  for (urma_target_seg_t* segment : {neighbour, other}) {
    EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
  }
  EXPECT_EQ(urma_free_token_id(token_id), URMA_SUCCESS);
  self.endpoint.close();
}

void end_segments(Channel& channel) {
  Self self;
  urma_target_jetty_t* queue = nullptr;
  for (const size_t bytes : kMessages) {
    const auto ids = channel.receive<Segments>();
    if (queue == nullptr) queue = self.endpoint.import(ids.queue);
    Reacher reacher(&self, queue);
    urma_target_seg_t* victim = self.endpoint.import(ids.victim, true);
    urma_target_seg_t* neighbour = self.endpoint.import(ids.neighbour, true);
    urma_target_seg_t* other = self.endpoint.import(ids.other_token, true);
    for (urma_target_seg_t* segment : {victim, neighbour, other}) {
      EXPECT_EQ(reacher.write(segment), URMA_CR_SUCCESS);
    }
    EXPECT_EQ(reacher.send(victim, bytes, bytes == 100), URMA_CR_SUCCESS);
    channel.sync();
    // A peer that keeps the mapping changes nothing.
    if (victim->mva != 0) *reinterpret_cast<volatile uint64_t*>(victim->mva) = 77;
    reacher.expect_refused(victim);
    reacher.expect_refused(self.endpoint.import(ids.victim));
    for (urma_target_seg_t* segment : {neighbour, other}) {
      EXPECT_EQ(reacher.write(segment), URMA_CR_SUCCESS);
    }
    urma_sge_t from = piece(self.segment, self.out(), 8);
    self.endpoint.post(send_request(queue, &from, 3));
    wait_for_success(self.endpoint.send_jfc, 3);
    channel.sync();
  }
}

TEST_P(InvalidateTest, EndsOneSegmentForAllPeers) {
  run_two("owner", own, "importer", end_segments);
}

// A segment that may not be invalidated stays, and the message that asked for it is not received.
TEST_P(InvalidateTest, SegmentsWithoutAccessAreNotInvalidated) {
  run_one([](Channel&) {
    Self self;
    Reacher reacher(&self, self.queue);
    std::vector<char> memory(kBytes), gone_memory(kBytes);
    urma_target_seg_t* victim = self.endpoint.add(memory.data(), kBytes, kAllAccess, kToken);
    const SegmentId good = self.endpoint.segment_id(victim, kToken);
    urma_target_seg_t* granted = self.endpoint.import(good);
    SegmentId wrong_token = good, no_token = good, wrong_id = good, wrong_eid = good,
              outside = good;
    wrong_token.token = kOtherToken;
    no_token.token = kNoToken;
    wrong_id.token_id ^= 1;
    wrong_eid.eid.raw[0] ^= 0xff;
    outside.va += kBytes;
    urma_target_seg_t* secret =
        self.endpoint.add(gone_memory.data(), kBytes, URMA_ACCESS_LOCAL_ONLY, kToken);
    const SegmentId local_only = self.endpoint.segment_id(secret, kToken);
    urma_target_seg_t* unregistered = self.endpoint.add(gone_memory.data(), 64, kAllAccess, kToken);
    const SegmentId gone = self.endpoint.segment_id(unregistered, kToken);
    self.endpoint.remove(unregistered);

    self.endpoint.post_receive(self.segment, self.in(), kHalf, 9);
    for (const SegmentId& id :
         {wrong_token, no_token, wrong_id, wrong_eid, outside, local_only, gone}) {
      urma_target_seg_t* segment = self.endpoint.import(id);
      EXPECT_EQ(reacher.send(segment, 8), URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_EQ(reacher.send(segment, 50000), URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
      EXPECT_EQ(reacher.write(granted), URMA_CR_SUCCESS);
    }
    // The receive is still there for the message that may. A second one ends nothing more.
    EXPECT_EQ(reacher.send(granted, 8), URMA_CR_SUCCESS);
    expect_ended(wait_for_success(self.endpoint.receive_jfc, 9), victim, 8);
    self.endpoint.post_receive(self.segment, self.in(), kHalf, 10);
    EXPECT_EQ(reacher.send(granted, 8), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
    self.endpoint.close();
  });
}

TEST_P(InvalidateTest, UnreceivedMessageInvalidatesNothing) {
  run_one([](Channel&) {
    Config config;
    config.rnr_retry = 1;
    Self self(config);
    Reacher reacher(&self, self.queue);
    EXPECT_EQ(reacher.send(self.remote, 8), URMA_CR_RNR_RETRY_CNT_EXC_ERR);
    self.endpoint.post_receive(self.segment, self.in(), 4, 1);
    EXPECT_EQ(reacher.send(self.remote, 8), URMA_CR_REM_RESP_LEN_ERR);
    wait_for_status(self.endpoint.receive_jfc, URMA_CR_LOC_LEN_ERR);
    EXPECT_EQ(reacher.write(self.remote), URMA_CR_SUCCESS);
  });
}

TEST_P(InvalidateTest, NeedsAnImportedSegment) {
  run_one([](Channel&) {
    Self self;
    urma_sge_t from = piece(self.segment, self.out(), 8);
    for (urma_target_seg_t* segment : {static_cast<urma_target_seg_t*>(nullptr), self.segment}) {
      urma_jfs_wr_t wr = send_invalidate_request(self.queue, &from, segment);
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &wr);
    }
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
  });
}

INSTANTIATE_TEST_SUITE_P(All, InvalidateTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Mapped" : "Copied"; });

}  // namespace
}  // namespace urma_test
