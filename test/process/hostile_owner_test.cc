// SPDX-License-Identifier: MIT
//
// A process that imports from an owner that lies (hostile_owner_program.cc): every request ends
// within the timeout for peers, with any status, and nothing else is harmed. URMA_TEST_SEED repeats
// a run; URMA_SOAK=1 runs many.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/hostile_orders.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

constexpr seconds kLasting{4};
constexpr uint64_t kBytes = 2 * kPage;

uint64_t seed_of(int round) {
  const char* given = std::getenv("URMA_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10)
                                         : std::random_device()() + static_cast<uint64_t>(round);
  std::printf("URMA_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

int rounds() {
  const char* soak = std::getenv("URMA_SOAK");
  return soak != nullptr && std::string(soak) == "1" ? 40 : 1;
}

struct Totals {
  uint64_t requests;
  uint64_t succeeded;
  int64_t longest_ms;
};

class Importer {
 public:
  Importer() : local_(endpoint.add(memory.get(), memory.bytes())) {
    fill(memory.get() + kBytes, kBytes);
  }

  // Imports, makes one request of each kind, and unimports.
  void visit(Totals* totals) {
    const QueueId queue = {endpoint.ctx->eid, kHostileQueue, kNoToken, false};
    // No memory at that address on either side.
    const SegmentId segment = {endpoint.ctx->eid, 16 * kPage, kBytes, kHostileToken, kNoToken};
    urma_target_jetty_t* target = endpoint.import(queue);
    urma_target_seg_t* remote = endpoint.import(segment);
    urma_sge_t here = piece(local_, memory.get(), 64);
    urma_sge_t there = piece(remote, segment.va, 64);
    urma_sge_t word = piece(local_, memory.get(), 8), far_word = piece(remote, segment.va, 8);
    const urma_jfs_wr_t requests[] = {
        send_request(target, &here), write_request(target, &here, &there),
        read_request(target, &here, &there), add_request(target, &word, &far_word, 1)};
    const auto begun = Clock::now();
    for (const urma_jfs_wr_t& request : requests) endpoint.post(request);
    for (size_t i = 0; i < std::size(requests); ++i) {
      const urma_cr_t record = end_of_one();
      ++totals->requests;
      if (record.status == URMA_CR_SUCCESS) ++totals->succeeded;
    }
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    totals->longest_ms = std::max<int64_t>(totals->longest_ms, took.count());
    endpoint.unimport(remote);
    endpoint.unimport(target);
  }
  // Memory outside the request is unchanged.
  void check() const { expect_filled(memory.get() + kBytes, kBytes); }

  Endpoint endpoint;
  const Pages memory{2 * kBytes};

 private:
  urma_cr_t end_of_one() {
    // Each question to an owner may time out, one after the other.
    const auto deadline = Clock::now() + patience(seconds(15));
    urma_cr_t record = {};
    while (urma_poll_jfc(endpoint.send_jfc, 1, &record) == 0) {
      if (Clock::now() > deadline) throw std::runtime_error("a request does not complete");
      ::sched_yield();
    }
    return record;
  }

  urma_target_seg_t* local_;
};

void be_importer(Channel& channel) {
  channel.sync();
  Importer importer;
  Totals totals = {};
  // On a busy machine most of the time may be spent waiting for silent answers.
  const auto begun = Clock::now();
  do {
    importer.visit(&totals);
  } while (Clock::now() < begun + (totals.succeeded != 0 ? kLasting : 4 * kLasting));
  importer.check();
  // Then it talks to itself as usual.
  urma_target_jetty_t* self = importer.endpoint.import(importer.endpoint.queue_id());
  urma_target_seg_t* segment = importer.endpoint.add(importer.memory.get(), 64);
  importer.endpoint.post_receive(segment, importer.memory.get(), 64, 2);
  urma_sge_t word = piece(segment, importer.memory.get(), 8);
  importer.endpoint.post(send_request(self, &word, 1));
  wait_for_success(importer.endpoint.send_jfc, 1);
  wait_for_success(importer.endpoint.receive_jfc, 2);
  importer.endpoint.close();
  channel.send(totals);
}

class HostileOwnerTest : public ProcessTest {
 protected:
  void lie(uint64_t seed) {
    SCOPED_TRACE("URMA_TEST_SEED=" + std::to_string(seed));
    auto [mine, its] = Channel::pair();
    ASSERT_EQ(::fcntl(its.fd(), F_SETFD, 0), 0);
    Child importer("importer", be_importer);
    Child owner("owner", {std::getenv("HOSTILE_PROGRAM"), std::to_string(its.fd())});
    mine.send(seed);
    mine.sync();
    importer.channel().sync();
    const auto totals = importer.channel().receive<Totals>();
    importer.expect_success();
    mine.send('e');
    const auto report = mine.receive<HostileReport>();
    owner.expect_success();
    std::printf("%llu requests, %llu of them succeeded, %llu answers; the longest took %lld ms\n",
                static_cast<unsigned long long>(totals.requests),
                static_cast<unsigned long long>(totals.succeeded),
                static_cast<unsigned long long>(report.attacks),
                static_cast<long long>(totals.longest_ms));
    EXPECT_GT(totals.succeeded, 0U);
    EXPECT_LT(totals.succeeded, totals.requests);
  }
};

TEST_F(HostileOwnerTest, ImporterLivesAndEveryRequestEnds) {
  for (int round = 0; round < rounds() && !HasFailure(); ++round) lie(seed_of(round));
}

}  // namespace
}  // namespace urma_test
