// SPDX-License-Identifier: MIT
//
// Every operation with its completions found by polling or after an event: at both ends, in the
// order that programs use, and in sizes that take different paths.
#include <alloca.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "test/conformance/parties.h"
#include "test/conformance/regions.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

// The largest one still fits on the stack, and is moved in several turns.
constexpr size_t kSizes[] = {1, 64, 4096, 65537, 3 << 20};

enum class Queues { kJfsJfr, kJetty, kRcJetty };
enum class Learns { kByPolling, kByEvent };

// Arms before anything can happen, and takes one successful completion afterwards.
class Completions {
 public:
  Completions(Endpoint& endpoint, urma_jfc_t* jfc) : jfce_(endpoint.jfce), jfc_(jfc) {}

  void expect() { EXPECT_TRUE(jfce_ == nullptr || urma_rearm_jfc(jfc_, false) == URMA_SUCCESS); }
  void take(uint64_t user_ctx) {
    if (jfce_ != nullptr) {
      urma_jfc_t* fired = nullptr;
      EXPECT_EQ(urma_wait_jfc(jfce_, 1, -1, &fired), 1);
      EXPECT_EQ(fired, jfc_);
      uint32_t events = 1;
      urma_ack_jfc(&fired, &events, 1);
    }
    urma_cr_t cr = {};
    // An event means that a completion is there, so one poll finds it.
    const int got = jfce_ != nullptr ? urma_poll_jfc(jfc_, 1, &cr) : (cr = wait_for(jfc_), 1);
    EXPECT_EQ(got, 1);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.user_ctx, user_ctx);
    EXPECT_TRUE(has_nothing(jfc_));
  }

 private:
  urma_jfce_t* jfce_;
  urma_jfc_t* jfc_;
};

Config config_of(Queues queues, Learns learns) {
  Config config;
  config.jetty = queues != Queues::kJfsJfr;
  config.mode = queues == Queues::kRcJetty ? URMA_TM_RC : URMA_TM_RM;
  config.events = learns == Learns::kByEvent;
  return config;
}

size_t offset_of(Operation operation, uint64_t va) {
  return is_atomic(operation) ? (8 - va % 8) % 8 : 0;
}

// The target of requests: none in RC, where both sides bind.
urma_target_jetty_t* reach(Channel& channel, Endpoint& endpoint) {
  urma_target_jetty_t* queue = endpoint.import(channel.swap(endpoint.queue_id()));
  if (endpoint.config.mode != URMA_TM_RC) return queue;
  endpoint.bind(queue);
  return nullptr;
}

// Executes each step of the target when told the kind of memory.
__attribute__((noinline)) void serve(Channel& channel, Operation operation, const Config& config,
                                     size_t size) {
  Endpoint endpoint(config);
  const size_t total = segment_size(operation, size);
  Regions regions(endpoint, total, kAllAccess, kNoToken, ::alloca(total + kGuards));
  reach(channel, endpoint);
  for (size_t kind = 0; kind < kKinds; ++kind) channel.send(regions.id(kind));
  for (uint64_t seed = 1; seed <= kKinds; ++seed) {
    Region& region = regions.region(seed - 1);
    const size_t offset = offset_of(operation, reinterpret_cast<uint64_t>(region.data()));
    if (operation == Operation::kRead) {
      region.expect_pattern(size, seed);
    } else if (is_atomic(operation)) {
      region.expect_value(offset, 5, size);
    } else {
      region.expect_poison();
    }
    region.put();
    Completions received(endpoint, endpoint.receive_jfc);
    if (is_message(operation)) {
      endpoint.post_receive(regions.segment(seed - 1), region.data(), size, seed);
      received.expect();
    }
    channel.sync();  // go
    if (is_message(operation)) received.take(seed);
    channel.sync();  // done
    if (is_atomic(operation)) {
      region.expect_value(offset, operation == Operation::kCas ? 9 : 12, size);
    } else {
      region.expect_pattern(size, seed);
    }
    region.check("target");
  }
  endpoint.close();
}

urma_jfs_wr_t request(Operation operation, urma_target_jetty_t* queue, urma_sge_t* local,
                      urma_sge_t* remote, uint64_t user_ctx) {
  switch (operation) {
    case Operation::kWrite:
      return write_request(queue, local, remote, user_ctx);
    case Operation::kWriteImm:
      return write_imm_request(queue, local, remote, immediate_of(user_ctx), user_ctx);
    case Operation::kSendImm:
      return send_imm_request(queue, local, immediate_of(user_ctx), user_ctx);
    case Operation::kRead:
      return read_request(queue, local, remote, user_ctx);
    case Operation::kCas:
      return cas_request(queue, local, remote, 5, 9, user_ctx);
    case Operation::kFadd:
      return add_request(queue, local, remote, 7, user_ctx);
    default:
      return send_request(queue, local, user_ctx);
  }
}

__attribute__((noinline)) void initiate(Channel& channel, Operation operation, const Config& config,
                                        size_t size) {
  Endpoint endpoint(config);
  const size_t total = segment_size(operation, size);
  Regions regions(endpoint, total, kAllAccess, kNoToken, ::alloca(total + kGuards));
  urma_target_jetty_t* queue = reach(channel, endpoint);
  Segments remote;
  for (urma_target_seg_t*& segment : remote)
    segment = endpoint.import(channel.receive<SegmentId>(), true);
  for (uint64_t seed = 1; seed <= kKinds; ++seed) {
    Region& region = regions.region(kKinds - seed);
    if (operation == Operation::kRead || is_atomic(operation)) {
      region.expect_poison();
    } else {
      region.expect_pattern(size, seed);
    }
    region.put();
    urma_sge_t here = piece(regions.segment(kKinds - seed), region.data(), size);
    const uint64_t va = remote[seed - 1]->seg.ubva.va;
    urma_sge_t there = piece(remote[seed - 1], va + offset_of(operation, va), size);
    Completions sent(endpoint, endpoint.send_jfc);
    sent.expect();
    channel.sync();  // go
    endpoint.post(request(operation, queue, &here, &there, seed));
    sent.take(seed);
    channel.sync();  // done
    if (is_atomic(operation)) {
      region.expect_value(0, 5, size);
    } else {
      region.expect_pattern(size, seed);
    }
    region.check("initiator");
  }
  endpoint.close();
}

using Parameters = std::tuple<Operation, Queues, Learns, Learns>;
class EventMatrixTest : public ProcessTest, public testing::WithParamInterface<Parameters> {};

// One pair of processes for all of them: starting one takes longer than its work.
std::vector<size_t> sizes_of(Operation operation) {
  if (is_atomic(operation)) return {8};
  return {std::begin(kSizes), std::end(kSizes)};
}

TEST_P(EventMatrixTest, CompletesInEveryWayOfWaiting) {
  const auto [operation, queues, initiator, target] = GetParam();
  SKIP_WITHOUT(offers(device_traits(), operation), "this operation");
  run_two(
      "initiator",
      [=](Channel& channel) {
        for (size_t size : sizes_of(operation))
          initiate(channel, operation, config_of(queues, initiator), size);
      },
      "target",
      [=](Channel& channel) {
        for (size_t size : sizes_of(operation))
          serve(channel, operation, config_of(queues, target), size);
      });
}

const char* const kQueueNames[] = {"JfsJfr", "Jetty", "RcJetty"};

std::string name_of(const testing::TestParamInfo<Parameters>& info) {
  const auto [operation, queues, initiator, target] = info.param;
  return std::string(kOperationNames[static_cast<int>(operation)]) +
         kQueueNames[static_cast<int>(queues)] +
         (initiator == Learns::kByEvent ? "Event" : "Poll") + "To" +
         (target == Learns::kByEvent ? "Event" : "Poll");
}

INSTANTIATE_TEST_SUITE_P(
    All, EventMatrixTest,
    testing::Combine(testing::Values(Operation::kWrite, Operation::kWriteImm, Operation::kRead,
                                     Operation::kSend, Operation::kSendImm, Operation::kCas,
                                     Operation::kFadd),
                     testing::Values(Queues::kJfsJfr, Queues::kJetty, Queues::kRcJetty),
                     testing::Values(Learns::kByPolling, Learns::kByEvent),
                     testing::Values(Learns::kByPolling, Learns::kByEvent)),
    name_of);

}  // namespace
}  // namespace urma_test
