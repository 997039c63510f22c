// SPDX-License-Identifier: MIT
//
// Every operation, from every kind of memory to every kind of memory, in many sizes, through a
// jetty and through a JFS/JFR pair, between two processes and within one. The target looks at each
// byte that may have changed and at those around it.
#include <alloca.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "test/conformance/regions.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr uint32_t kToken = 0x5eed1234;
constexpr size_t kSizes[] = {0, 1, 8, 63, 64, 65, 4095, 4096, 65537, 8 << 20};

enum class Operation { kWrite, kRead, kSend, kCas, kFadd };

bool is_atomic(Operation operation) {
  return operation == Operation::kCas || operation == Operation::kFadd;
}

// One request, as both sides see it.
struct Step {
  Operation operation;
  size_t kind;      // of the target's memory
  size_t size;      // bytes that are moved
  size_t offset;    // within the target's segment
  uint64_t before;  // atomics: what the target's memory holds
  uint64_t after;   // atomics: what it has to hold then
  uint64_t seed;    // the others: of the data
  uint32_t sender;  // id and uasid that a receiver has to see
  uint32_t uasid;
};

// Size of the segments for requests of `size` bytes: atomics get room to be misaligned in.
size_t segment_size(Operation operation, size_t size) {
  return is_atomic(operation) ? 64 : std::max<size_t>(size, 1);
}

// The side whose memory and receives are reached.
class Target {
 public:
  Target(Endpoint& endpoint, Regions& regions) : endpoint_(endpoint), regions_(regions) {}

  void prepare(const Step& step) {
    Region& region = regions_.region(step.kind);
    if (is_atomic(step.operation)) {
      region.expect_value(step.offset, step.before, step.size);
    } else if (step.operation == Operation::kRead) {
      region.expect_pattern(step.size, step.seed);
    } else {
      region.expect_poison();
    }
    region.put();
    if (step.operation == Operation::kSend) {
      endpoint_.post_receive(regions_.segment(step.kind), region.data(), region.size(), step.seed);
    }
  }

  void check(const Step& step) {
    Region& region = regions_.region(step.kind);
    if (step.operation == Operation::kSend) check_received(step);
    if (is_atomic(step.operation)) {
      region.expect_value(step.offset, step.after, step.size);
    } else {
      region.expect_pattern(step.size, step.seed);
    }
    region.check("target");
  }

 private:
  void check_received(const Step& step) {
    const urma_cr_t cr = wait_for_success(endpoint_.receive_jfc, step.seed);
    EXPECT_EQ(cr.opcode, URMA_CR_OPC_SEND);
    EXPECT_EQ(cr.flag.bs.s_r, 1);
    EXPECT_EQ(cr.completion_len, step.size);
    EXPECT_EQ(cr.local_id,
              cr.flag.bs.jetty ? endpoint_.jetty->jetty_id.id : endpoint_.jfr->jfr_id.id);
    EXPECT_EQ(cr.remote_id.id, step.sender);
    EXPECT_EQ(std::memcmp(&cr.remote_id.eid, &endpoint_.ctx->eid, sizeof(urma_eid_t)), 0);
    EXPECT_EQ(cr.remote_id.uasid, step.uasid);
    EXPECT_TRUE(has_nothing(endpoint_.receive_jfc));
  }

  Endpoint& endpoint_;
  Regions& regions_;
};

// How the initiator reaches the target: in the same process, or over a channel.
struct TargetCalls {
  std::function<void(const Step&)> prepare, check;
};

// The side that posts.
class Initiator {
 public:
  Initiator(Endpoint& endpoint, Regions& regions, urma_target_jetty_t* queue,
            const Segments& remote, TargetCalls target)
      : endpoint_(endpoint),
        regions_(regions),
        queue_(queue),
        remote_(remote),
        target_(std::move(target)) {}

  void move(Operation operation, size_t size) {
    for (size_t local = 0; local < kKinds; ++local) {
      for (size_t remote = 0; remote < kKinds; ++remote) {
        SCOPED_TRACE(describe(local, remote, size));
        Step step = {};
        step.operation = operation;
        step.kind = remote;
        step.size = size;
        step.seed = ++seed_;
        step.sender = endpoint_.sender_id();
        step.uasid = endpoint_.ctx->uasid;
        move_once(step, local);
      }
    }
  }

  void count(Operation operation, size_t size) {
    for (size_t local = 0; local < kKinds; ++local) {
      for (size_t remote = 0; remote < kKinds; ++remote) {
        SCOPED_TRACE(describe(local, remote, size));
        const size_t offset = (8 - remote_[remote]->seg.ubva.va % 8) % 8 + 16;
        count_once(operation, local, remote, size, offset, URMA_CR_SUCCESS);
        count_once(operation, local, remote, size, offset + 1, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
        if (size == 8) {
          count_once(operation, local, remote, 8, offset + 4, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
        }
        refuse_length_three(operation, local, remote, offset);
      }
    }
  }

 private:
  static std::string describe(size_t local, size_t remote, size_t size) {
    return std::string("local ") + kKindNames[local] + ", remote " + kKindNames[remote] + ", " +
           std::to_string(size) + " bytes";
  }

  void move_once(const Step& step, size_t kind) {
    Region& region = regions_.region(kind);
    if (step.operation == Operation::kRead) {
      region.expect_poison();
    } else {
      region.expect_pattern(step.size, step.seed);
    }
    region.put();
    target_.prepare(step);

    urma_sge_t local = piece(regions_.segment(kind), region.data(), step.size);
    urma_sge_t remote = piece(remote_[step.kind], remote_[step.kind]->seg.ubva.va, step.size);
    switch (step.operation) {
      case Operation::kWrite:
        endpoint_.post(write_request(queue_, &local, &remote, step.seed));
        break;
      case Operation::kRead:
        endpoint_.post(read_request(queue_, &local, &remote, step.seed));
        break;
      default:
        endpoint_.post(send_request(queue_, &local, step.seed));
    }
    check_completion(step.seed, step.size, URMA_CR_SUCCESS);
    target_.check(step);
    region.expect_pattern(step.size, step.seed);
    region.check("initiator");
  }

  void count_once(Operation operation, size_t kind, size_t remote_kind, size_t size, size_t offset,
                  urma_cr_status_t status) {
    // Small operands wrap around, and may touch nothing beside them when they do.
    const uint64_t mask = size == 8 ? ~0ull : 0xffffffffull;
    const uint64_t before = (0xfffffffffffffff0ull + ++seed_ % 16) & mask;
    const bool equal = operation == Operation::kFadd || seed_ % 3 != 0;
    const uint64_t operand = 0x1122334455667788u & mask;
    const uint64_t result = operation == Operation::kFadd ? (before + operand) & mask
                            : equal                       ? operand
                                                          : before;
    const bool done = status == URMA_CR_SUCCESS;
    const Step step = {operation, remote_kind, size, offset, before, done ? result : before,
                       seed_,     0,           0};
    Region& region = regions_.region(kind);
    region.expect_poison();
    region.put();
    target_.prepare(step);

    urma_sge_t old = piece(regions_.segment(kind), region.data(), size);
    urma_sge_t remote =
        piece(remote_[remote_kind], remote_[remote_kind]->seg.ubva.va + offset, size);
    endpoint_.post(
        operation == Operation::kFadd
            ? add_request(queue_, &old, &remote, operand, step.seed)
            : cas_request(queue_, &old, &remote, equal ? before : before ^ 1, operand, step.seed));
    check_completion(step.seed, size, status);
    target_.check(step);
    if (done) region.expect_value(0, before, size);
    region.check("initiator");
  }

  void refuse_length_three(Operation operation, size_t kind, size_t remote_kind, size_t offset) {
    urma_sge_t old = piece(regions_.segment(kind), regions_.region(kind).data(), 3);
    urma_sge_t remote = piece(remote_[remote_kind], remote_[remote_kind]->seg.ubva.va + offset, 3);
    urma_jfs_wr_t wr = operation == Operation::kFadd ? add_request(queue_, &old, &remote, 1)
                                                     : cas_request(queue_, &old, &remote, 0, 1);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(endpoint_.post(&wr, &bad), URMA_EINVAL);
    EXPECT_EQ(bad, &wr);
    EXPECT_TRUE(has_nothing(endpoint_.send_jfc));
  }

  void check_completion(uint64_t user_ctx, size_t size, urma_cr_status_t status) {
    const urma_cr_t cr = wait_for(endpoint_.send_jfc);
    EXPECT_EQ(cr.status, status);
    EXPECT_EQ(cr.user_ctx, user_ctx);
    EXPECT_EQ(cr.flag.bs.s_r, 0);
    EXPECT_EQ(cr.flag.bs.jetty, endpoint_.config.jetty);
    EXPECT_EQ(cr.local_id, endpoint_.sender_id());
    EXPECT_EQ(status == URMA_CR_SUCCESS ? cr.completion_len : size, size);
    EXPECT_GT(static_cast<int>(cr.opcode), URMA_CR_OPC_FLUSH_WRITE);
    EXPECT_TRUE(has_nothing(endpoint_.send_jfc));
  }

  Endpoint& endpoint_;
  Regions& regions_;
  urma_target_jetty_t* queue_;
  Segments remote_;
  TargetCalls target_;
  uint64_t seed_ = 0;
};

struct Case {
  Operation operation;
  bool jetty;
  bool two_processes;
  bool with_token;

  uint32_t token() const { return with_token ? kToken : kNoToken; }
  Config config() const {
    Config config;
    config.jetty = jetty;
    config.token = token();
    return config;
  }
  std::vector<size_t> sizes() const {
    if (is_atomic(operation)) return {4, 8};
    return {std::begin(kSizes), std::end(kSizes)};
  }
};

// The stack has to hold two of the largest segments.
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

Segments import_all(Endpoint& endpoint, const SegmentIds& ids) {
  Segments segments;
  for (size_t kind = 0; kind < kKinds; ++kind) segments[kind] = endpoint.import(ids[kind]);
  return segments;
}

__attribute__((noinline)) void initiate(const Case& test, Endpoint& endpoint, Channel& channel,
                                        urma_target_jetty_t* queue, size_t size) {
  const size_t length = segment_size(test.operation, size);
  Regions regions(endpoint, length, URMA_ACCESS_LOCAL_ONLY, kNoToken, alloca(length + kGuards));
  const auto remote = import_all(endpoint, channel.receive<SegmentIds>());
  TargetCalls calls;
  calls.prepare = [&channel](const Step& step) {
    channel.send(step);
    channel.sync();
  };
  // A receiver looks for its message at once, the others when told that all is done.
  calls.check = [&channel](const Step& step) {
    if (step.operation != Operation::kSend) channel.sync();
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
    if (step.operation != Operation::kSend) channel.sync();
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
  const auto remote = import_all(endpoint, ids_of(reached));
  TargetCalls calls;
  calls.prepare = [&target](const Step& step) { target.prepare(step); };
  calls.check = [&target](const Step& step) { target.check(step); };
  carry_out(test, Initiator(endpoint, local, queue, remote, calls), size);
  for (urma_target_seg_t* segment : remote) endpoint.unimport(segment);
  reached.unregister();
  local.unregister();
}

using Parameters = std::tuple<Operation, bool, bool, bool>;

class OpcodeMatrix : public ProcessTest, public ::testing::WithParamInterface<Parameters> {};

TEST_P(OpcodeMatrix, MovesExactlyTheBytesItShould) {
  const auto [operation, jetty, two_processes, with_token] = GetParam();
  const Case test = {operation, jetty, two_processes, with_token};
  if (!test.two_processes) {
    run_one([&test](Channel&) {
      raise_stack_limit();
      Endpoint endpoint(test.config());
      urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
      for (size_t size : test.sizes()) run_alone(test, endpoint, self, size);
      endpoint.close();
    });
    return;
  }
  auto initiator = [&test](Channel& channel) {
    raise_stack_limit();
    Endpoint endpoint(test.config());
    urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
    for (size_t size : test.sizes()) initiate(test, endpoint, channel, queue, size);
    endpoint.close();
  };
  auto target = [&test](Channel& channel) {
    raise_stack_limit();
    Endpoint endpoint(test.config());
    channel.send(endpoint.queue_id());
    for (size_t size : test.sizes()) serve(test, endpoint, channel, size);
    endpoint.close();
  };
  run_two("initiator", initiator, "target", target);
}

std::string name_of(const ::testing::TestParamInfo<Parameters>& info) {
  const char* const operations[] = {"Write", "Read", "Send", "Cas", "Fadd"};
  const auto& [operation, jetty, two_processes, with_token] = info.param;
  return std::string(operations[static_cast<int>(operation)]) + (jetty ? "Jetty" : "JfsJfr") +
         (two_processes ? "TwoProcesses" : "OneProcess") + (with_token ? "Token" : "NoToken");
}

INSTANTIATE_TEST_SUITE_P(All, OpcodeMatrix,
                         ::testing::Combine(::testing::Values(Operation::kWrite, Operation::kRead,
                                                              Operation::kSend, Operation::kCas,
                                                              Operation::kFadd),
                                            ::testing::Bool(), ::testing::Bool(),
                                            ::testing::Bool()),
                         name_of);

}  // namespace
}  // namespace urma_test
