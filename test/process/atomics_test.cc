// SPDX-License-Identifier: MIT
//
// Atomics of many processes on the same words, on every path: mapped memory, requests to the owner,
// and the instructions of the owner itself.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

constexpr int kProcesses = 3;
constexpr uint64_t kTurns = 400;
// Each in cache lines of its own.
constexpr uint64_t kCounter = 0, kBits = 64, kTicket = 128, kWide = 192, kWhole = 256;

// Ask the device: 16-byte atomics need support in the processor.
bool has_wide(const Endpoint& endpoint) {
  urma_device_attr_t attr;
  EXPECT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
  return attr.dev_cap.max_cas_size == 16;
}

// The two halves of a value that is swapped in as a whole always agree.
struct Wide {
  uint64_t count;
  uint64_t inverse;
  bool whole() const { return inverse == ~count; }
};

// A process that works on the words of another one.
class Worker {
 public:
  explicit Worker(const Offer& offer)
      : queue_(endpoint_.import(offer.queue)),
        remote_(endpoint_.import(offer.segment, true)),
        local_(endpoint_.add(old_.data(), sizeof(old_))) {}

  uint64_t fetch(urma_opcode_t opcode, uint64_t offset, uint64_t operand) {
    urma_sge_t here = piece(local_, old_.data(), 8), there = at(offset, 8);
    endpoint_.post(fetch_request(opcode, queue_, &here, &there, operand, ++posted_));
    wait_for_success(endpoint_.send_jfc, posted_);
    return old_[0];
  }
  Wide cas(const Wide& compare, const Wide& swap) {
    urma_sge_t here = piece(local_, old_.data(), 16), there = at(kWide, 16);
    endpoint_.post(cas_request(queue_, &here, &there, reinterpret_cast<uint64_t>(&compare),
                               reinterpret_cast<uint64_t>(&swap), ++posted_));
    wait_for_success(endpoint_.send_jfc, posted_);
    return {old_[0], old_[1]};
  }
  void write_whole(const Wide& value) {
    std::memcpy(old_.data(), &value, sizeof(value));
    urma_sge_t here = piece(local_, old_.data(), 16), there = at(kWhole, 16);
    endpoint_.post(write_atomic_request(queue_, &here, &there, ++posted_));
    wait_for_success(endpoint_.send_jfc, posted_);
  }
  void work(int number) {
    const bool wide = has_wide(endpoint_);
    Wide seen = {0, ~uint64_t{0}};
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      fetch(URMA_OPC_FADD, kCounter, 3);
      fetch(URMA_OPC_FSUB, kCounter, 1);
      // Each process owns one bit, which the others leave unchanged.
      const uint64_t bit = uint64_t{1} << number;
      EXPECT_EQ(fetch(URMA_OPC_FOR, kBits, bit) & bit, 0u);
      EXPECT_EQ(fetch(URMA_OPC_FAND, kBits, ~bit) & bit, bit);
      EXPECT_EQ(fetch(URMA_OPC_FXOR, kBits, bit) & bit, 0u);
      EXPECT_EQ(fetch(URMA_OPC_FXOR, kBits, bit) & bit, bit);
      sum_ += fetch(URMA_OPC_SWAP, kTicket, turn + 1);
      if (!wide) continue;
      for (bool done = false; !done;) {
        const Wide now = cas(seen, {seen.count + 1, ~(seen.count + 1)});
        EXPECT_TRUE(now.whole());
        done = now.count == seen.count;
        seen = done ? Wide{seen.count + 1, ~(seen.count + 1)} : now;
      }
      write_whole({turn, ~turn});
    }
  }
  // The sum of all tickets drawn.
  uint64_t sum() const { return sum_; }
  void close() { endpoint_.close(); }

 private:
  urma_sge_t at(uint64_t offset, uint32_t width) {
    return piece(remote_, remote_->seg.ubva.va + offset, width);
  }

  Endpoint endpoint_;
  urma_target_jetty_t* queue_;
  urma_target_seg_t* remote_;
  alignas(16) std::array<uint64_t, 2> old_ = {};
  urma_target_seg_t* local_;
  uint64_t posted_ = 0;
  uint64_t sum_ = 0;
};

class AtomicsTest : public ProcessTest, public testing::WithParamInterface<bool> {};

// `shared`: where the words are. Registered as a whole page and as the words alone, so that every
// second worker goes through the owner.
void own(Channel& channel) {
  const Pages pages(kPage);
  OwnedEndpoint endpoint;
  std::memset(pages.get(), 0, kPage);
  auto* wide = reinterpret_cast<Wide*>(pages.get() + kWide);
  auto* whole = reinterpret_cast<Wide*>(pages.get() + kWhole);
  *wide = {0, ~uint64_t{0}};
  *whole = *wide;
  channel.send(offer_of(endpoint, endpoint.add(pages.get(), kPage)));
  channel.send(offer_of(endpoint, endpoint.add(pages.get(), kWhole + sizeof(Wide))));
  const bool has_16 = has_wide(endpoint);
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    __atomic_fetch_add(reinterpret_cast<uint64_t*>(pages.get() + kCounter), 2, __ATOMIC_SEQ_CST);
  }
  const auto sum = channel.receive<uint64_t>();
  EXPECT_EQ(*pages.word(kCounter), 2 * kTurns * (kProcesses + 1));
  EXPECT_EQ(*pages.word(kBits), 0u);
  // Every ticket was taken once, except the last.
  EXPECT_EQ(sum + *pages.word(kTicket), kProcesses * kTurns * (kTurns + 1) / 2);
  EXPECT_TRUE(wide->whole() && whole->whole());
  if (has_16) {
    EXPECT_EQ(wide->count, kProcesses * kTurns);
    EXPECT_EQ(whole->count, kTurns - 1);
  }
}

TEST_P(AtomicsTest, AllKindsAndPathsAreAtomicOnTheSameWord) {
  ::setenv("URMA_SHM_INPLACE", GetParam() ? "1" : "0", 1);
  Child owner("owner", own);
  const auto page = owner.channel().receive<Offer>();
  const auto words = owner.channel().receive<Offer>();
  std::vector<std::unique_ptr<Child>> workers;
  for (int number = 0; number < kProcesses; ++number) {
    const Offer& offer = number % 2 == 0 ? page : words;
    workers.push_back(std::make_unique<Child>("worker", [offer, number](Channel& channel) {
      Worker worker(offer);
      channel.sync();
      worker.work(number);
      channel.send(worker.sum());
      worker.close();
    }));
  }
  for (auto& worker : workers) worker->channel().sync();
  uint64_t sum = 0;
  for (auto& worker : workers) sum += worker->channel().receive<uint64_t>();
  for (auto& worker : workers) worker->expect_success();
  owner.channel().send(sum);
  owner.expect_success();
}

// 16-byte operands are passed by address.
TEST_P(AtomicsTest, WideOperandsMustBeGiven) {
  ::setenv("URMA_SHM_INPLACE", GetParam() ? "1" : "0", 1);
  run_one([](Channel&) {
    Self self;
    if (!has_wide(self.endpoint)) return;
    urma_sge_t here = piece(self.segment, self.out(), 16);
    urma_sge_t there = piece(self.remote, self.in() + kHalf / 2, 16);
    const Wide value = {1, 2};
    const auto given = reinterpret_cast<uint64_t>(&value);
    for (const auto& [compare, swap] : {std::pair{given, uint64_t{0}}, {uint64_t{0}, given}}) {
      urma_jfs_wr_t wr = cas_request(self.queue, &here, &there, compare, swap);
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &wr);
    }
    // The value at the time of posting.
    std::memset(self.in(), 0, kHalf);
    Wide compare = {0, 0}, swap = {3, 4};
    urma_jfs_wr_t wr = cas_request(self.queue, &here, &there, reinterpret_cast<uint64_t>(&compare),
                                   reinterpret_cast<uint64_t>(&swap), 1);
    self.endpoint.post(wr);
    compare = swap = {9, 9};
    wait_for_success(self.endpoint.send_jfc, 1);
    const Wide expected = {3, 4};
    EXPECT_EQ(std::memcmp(self.in() + kHalf / 2, &expected, sizeof(expected)), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(All, AtomicsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Mapped" : "Copied"; });

}  // namespace
}  // namespace urma_test
