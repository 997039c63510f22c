// SPDX-License-Identifier: MIT
//
// Every operation, between all kinds of memory, in many sizes, through a jetty and through a
// JFS/JFR pair, between two processes and within one. The target checks each byte that may have
// changed and those around it.
#include <alloca.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "test/conformance/offered.h"
#include "test/conformance/parties.h"
#include "test/conformance/regions.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/kernel.h"
#include "test/process/sanitized.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uint32_t kToken = 0x5eed1234;
constexpr size_t kSizes[] = {0, 1, 8, 63, 64, 65, 4095, 4096, 65537};
// Moved in several turns; the second one is also larger than what is shared at once.
constexpr size_t kLarge = 2 << 20;
constexpr size_t kVeryLarge = 9 << 20;

// For every branch, and often enough to see the order of data and value.
constexpr size_t kNotifySizes[] = {0, 8, 4095, 65537};

enum class Queues { kJfsJfr, kJetty, kRcJetty, kUmJfsJfr, kUmJetty };
constexpr urma_transport_mode_t kModes[] = {URMA_TM_RM, URMA_TM_RM, URMA_TM_RC, URMA_TM_UM,
                                            URMA_TM_UM};

struct Case {
  Operation operation;
  Queues queues;
  bool two_processes;
  bool with_token;

  uint32_t token() const { return with_token ? kToken : kNoToken; }
  Config config() const {
    Config config;
    config.jetty = queues != Queues::kJfsJfr && queues != Queues::kUmJfsJfr;
    config.mode = kModes[static_cast<int>(queues)];
    config.token = token();
    return config;
  }
  // Those that the device of `ctx` supports.
  std::vector<size_t> sizes(const urma_context_t* ctx) const {
    std::vector<size_t> sizes = all_sizes();
    std::erase_if(sizes, [&](size_t size) {
      const urma_opcode_t opcode = !is_atomic(operation) ? URMA_OPC_SEND
                                   : operation == Operation::kWriteAtomic
                                       ? URMA_OPC_WRITE_ATOMIC
                                       : opcode_of_atomic(operation);
      return !is_offered(ctx, opcode, config().mode, size);
    });
    return sizes;
  }

 private:
  std::vector<size_t> all_sizes() const {
    if (operation == Operation::kWriteAtomic) return {1, 2, 4, 8, 16};
    if (operation == Operation::kCas) return {4, 8, 16};
    if (is_atomic(operation)) return {4, 8};
    if (operation == Operation::kWriteNotify)
      return {std::begin(kNotifySizes), std::end(kNotifySizes)};
    std::vector<size_t> sizes(std::begin(kSizes), std::end(kSizes));
    if (!with_token) return sizes;
    if (queues == Queues::kJetty) sizes.push_back(kSanitized ? kLarge : kVeryLarge);
    if (queues != Queues::kJetty && !kSanitized) sizes.push_back(kLarge);
    return sizes;
  }
};

// The target of a request: none in RC, where the bound peer counts.
urma_target_jetty_t* reach(const Case& test, Endpoint& endpoint, const QueueId& id) {
  urma_target_jetty_t* queue = endpoint.import(id);
  if (test.queues != Queues::kRcJetty) return queue;
  endpoint.bind(queue);
  return nullptr;
}

// The stack must hold two of the largest segments.
void raise_stack_limit() {
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 64 << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &limit), 0);
}

void carry_out(const Case& test, Initiator initiator, size_t size) {
  if (is_atomic(test.operation)) {
    initiator.count(test.operation, size);
  } else {
    initiator.move(test.operation, size);
  }
}

SegmentIds ids_of(Regions& regions) {
  SegmentIds ids;
  for (size_t kind = 0; kind < kKinds; ++kind) ids[kind] = regions.id(kind);
  return ids;
}

// This suite runs with memory that is mapped if possible, with copies by the kernel, and with
// staged copies.
bool in_place() {
  const char* setting = std::getenv("URMA_SHM_INPLACE");
  return setting == nullptr || std::string(setting) != "0";
}

// Whether requests like those of smaller sizes before have copied to or from a segment.
bool copies(const Case& test) { return !is_send(test.operation) && !is_atomic(test.operation); }

urma_ext_path_t path_of_copies(const Case& test) {
  const char* setting = std::getenv("URMA_SHM_COPY");
  if (setting != nullptr && std::string(setting) == "staged") return URMA_EXT_PATH_STAGED;
  const bool refused = copies(test) && !copies_between_processes();
  return refused ? URMA_EXT_PATH_STAGED : URMA_EXT_PATH_COPIED;
}

// Whole pages of private memory are mapped, unless the kernel lets no one hold up their writers.
// Between machines there is nothing to map.
void expect_path(const Case& test, urma_target_seg_t* segment, size_t length) {
  if (length < 4096) return;
  std::array<urma_ext_part_t, 4> parts;
  auto count = static_cast<uint32_t>(parts.size());
  ASSERT_EQ(urma_ext_query_segment(segment, parts.data(), &count), URMA_SUCCESS);
  if (!is_shared_memory(segment->urma_ctx)) {
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(parts[0].path, URMA_EXT_PATH_COPIED);
    EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_PEER);
  } else if (in_place() && parts[0].reason != URMA_EXT_REASON_NO_FREEZE) {
    EXPECT_EQ(parts[0].path, URMA_EXT_PATH_MAPPED) << urma_ext_reason_text(parts[0].reason);
  } else {
    EXPECT_EQ(parts[0].path, path_of_copies(test));
  }
}

Segments import_all(const Case& test, Endpoint& endpoint, const SegmentIds& ids, size_t length) {
  Segments segments;
  for (size_t kind = 0; kind < kKinds; ++kind) segments[kind] = endpoint.import(ids[kind], true);
  expect_path(test, segments[kMemalign], length);
  return segments;
}

__attribute__((noinline)) void initiate(const Case& test, Endpoint& endpoint, Channel& channel,
                                        urma_target_jetty_t* queue, size_t size) {
  const size_t length = segment_size(test.operation, size);
  Regions regions(endpoint, length, URMA_ACCESS_LOCAL_ONLY, kNoToken, alloca(length + kGuards));
  const auto remote = import_all(test, endpoint, channel.receive<SegmentIds>(), length);
  TargetCalls calls;
  calls.prepare = [&channel](const Step& step) {
    channel.send(step);
    channel.sync();
  };
  // A receiver looks for its message at once, the others when told that all is done.
  calls.check = [&channel](const Step& step) {
    if (!is_message(step.operation)) channel.sync();
    channel.sync();
  };
  carry_out(test, Initiator(endpoint, regions, queue, remote, calls), size);
  channel.send(Step{});
  for (urma_target_seg_t* segment : remote) endpoint.unimport(segment);
  channel.sync();
  regions.unregister();
}

__attribute__((noinline)) void serve(const Case& test, Endpoint& endpoint, Channel& channel,
                                     size_t size) {
  const size_t length = segment_size(test.operation, size);
  Regions regions(endpoint, length, kAllAccess, test.token(), alloca(length + kGuards));
  channel.send(ids_of(regions));
  Target target(endpoint, regions);
  while (true) {
    const Step step = channel.receive<Step>();
    if (step.seed == 0) break;
    SCOPED_TRACE("target's memory from " + std::string(kKindNames[step.kind]));
    target.prepare(step);
    channel.sync();
    if (!is_message(step.operation)) channel.sync();
    target.check(step);
    channel.sync();
  }
  channel.sync();
  regions.unregister();
}

__attribute__((noinline)) void run_alone(const Case& test, Endpoint& endpoint,
                                         urma_target_jetty_t* queue, size_t size) {
  const size_t length = segment_size(test.operation, size);
  Regions local(endpoint, length, URMA_ACCESS_LOCAL_ONLY, kNoToken, alloca(length + kGuards));
  Regions reached(endpoint, length, kAllAccess, test.token(), alloca(length + kGuards));
  Target target(endpoint, reached);
  const auto remote = import_all(test, endpoint, ids_of(reached), length);
  TargetCalls calls;
  calls.prepare = [&target](const Step& step) { target.prepare(step); };
  calls.check = [&target](const Step& step) { target.check(step); };
  carry_out(test, Initiator(endpoint, local, queue, remote, calls), size);
  for (urma_target_seg_t* segment : remote) endpoint.unimport(segment);
  reached.unregister();
  local.unregister();
}

using Parameters = std::tuple<Operation, Queues, bool, bool>;

class OpcodeMatrix : public ProcessTest, public ::testing::WithParamInterface<Parameters> {};

TEST_P(OpcodeMatrix, MovesExactlyTheBytesItShould) {
  const auto [operation, queues, two_processes, with_token] = GetParam();
  const Case test = {operation, queues, two_processes, with_token};
  SKIP_WITHOUT(device_traits().has_mode(test.config().mode), "this transport mode");
  SKIP_WITHOUT(offers(device_traits(), operation), "this operation");
  if (!test.two_processes) {
    run_one([&test](Channel&) {
      raise_stack_limit();
      OwnedEndpoint endpoint(test.config());
      urma_target_jetty_t* self = reach(test, endpoint, endpoint.queue_id());
      for (size_t size : test.sizes(endpoint.ctx)) run_alone(test, endpoint, self, size);
    });
    return;
  }
  auto initiator = [&test](Channel& channel) {
    raise_stack_limit();
    OwnedEndpoint endpoint(test.config());
    urma_target_jetty_t* queue = reach(test, endpoint, channel.swap(endpoint.queue_id()));
    for (size_t size : test.sizes(endpoint.ctx)) initiate(test, endpoint, channel, queue, size);
  };
  auto target = [&test](Channel& channel) {
    raise_stack_limit();
    OwnedEndpoint endpoint(test.config());
    reach(test, endpoint, channel.swap(endpoint.queue_id()));
    for (size_t size : test.sizes(endpoint.ctx)) serve(test, endpoint, channel, size);
  };
  run_two("initiator", initiator, "target", target);
}

std::string name_of(const ::testing::TestParamInfo<Parameters>& info) {
  const char* const queue_names[] = {"JfsJfr", "Jetty", "RcJetty", "UmJfsJfr", "UmJetty"};
  const auto& [operation, queues, two_processes, with_token] = info.param;
  return std::string(kOperationNames[static_cast<int>(operation)]) +
         queue_names[static_cast<int>(queues)] + (two_processes ? "TwoProcesses" : "OneProcess") +
         (with_token ? "Token" : "NoToken");
}

INSTANTIATE_TEST_SUITE_P(
    All, OpcodeMatrix,
    ::testing::Combine(::testing::Values(Operation::kWrite, Operation::kWriteImm, Operation::kRead,
                                         Operation::kSend, Operation::kSendImm, Operation::kCas,
                                         Operation::kFadd),
                       ::testing::Values(Queues::kJfsJfr, Queues::kJetty, Queues::kRcJetty),
                       ::testing::Bool(), ::testing::Bool()),
    name_of);

// Operations that differ little from the above.
INSTANTIATE_TEST_SUITE_P(
    More, OpcodeMatrix,
    ::testing::Combine(::testing::Values(Operation::kWriteNotify, Operation::kSwap,
                                         Operation::kFsub, Operation::kFand, Operation::kFor,
                                         Operation::kFxor, Operation::kWriteAtomic),
                       ::testing::Values(Queues::kJetty, Queues::kRcJetty), ::testing::Bool(),
                       ::testing::Values(true)),
    name_of);

// Messages only, each of which arrives while its receive is posted.
INSTANTIATE_TEST_SUITE_P(Um, OpcodeMatrix,
                         ::testing::Combine(::testing::Values(Operation::kSend,
                                                              Operation::kSendImm),
                                            ::testing::Values(Queues::kUmJfsJfr, Queues::kUmJetty),
                                            ::testing::Bool(), ::testing::Values(true)),
                         name_of);

}  // namespace
}  // namespace urma_test
