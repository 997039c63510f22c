// SPDX-License-Identifier: MIT
//
// The product: every operation, in every mode and kind of queue, with and without locks, by polling
// and by events, between all kinds of memory, in sizes that take different paths. Both processes
// know the steps in advance, and each checks every byte that may have changed and those around it.
#include "test/conformance/product.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "test/conformance/offered.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

// Memory of every kind, registered.
class Memories {
 public:
  Memories(Endpoint& endpoint, uint32_t access, uint8_t* stack) : endpoint_(endpoint) {
    bases_ = {static_cast<uint8_t*>(urma_ext_alloc(kSpace, 0)),
              static_cast<uint8_t*>(std::malloc(kSpace)),
              static_cast<uint8_t*>(std::aligned_alloc(4096, (kSpace + 4095) / 4096 * 4096)),
              static_cast<uint8_t*>(::mmap(nullptr, kSpace, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
              stack};
    for (size_t kind = 0; kind < kKinds; ++kind) {
      EXPECT_NE(bases_[kind], nullptr);
      std::memset(bases_[kind], kPoison, kSpace);
      segments_[kind] = endpoint.add(bases_[kind], kSpace, access);
    }
  }
  Memories(const Memories&) = delete;
  void end() {
    for (urma_target_seg_t* segment : segments_) endpoint_.remove(segment);
    EXPECT_EQ(urma_ext_free(bases_[0]), URMA_SUCCESS);
    std::free(bases_[1]);
    std::free(bases_[2]);
    ::munmap(bases_[3], kSpace);
  }

  urma_target_seg_t* segment(size_t kind) const { return segments_[kind]; }
  uint8_t* at(const Step& step, size_t kind) const {
    return reinterpret_cast<uint8_t*>(step.place(kind, reinterpret_cast<uint64_t>(bases_[kind])));
  }

  // Writes `bytes` there, or poison, with guards around it; or compares.
  static void put(uint8_t* place, const void* bytes, size_t size) {
    std::memset(place - kGuard, kPoison, size + 2 * kGuard);
    if (bytes != nullptr) std::memcpy(place, bytes, size);
  }
  static void check(const uint8_t* place, const void* bytes, size_t size) {
    static const std::vector<uint8_t> poison(kSpace, kPoison);
    EXPECT_EQ(std::memcmp(place, bytes != nullptr ? bytes : poison.data(), size), 0);
    EXPECT_EQ(std::memcmp(place - kGuard, poison.data(), kGuard), 0);
    EXPECT_EQ(std::memcmp(place + size, poison.data(), kGuard), 0);
  }

 private:
  Endpoint& endpoint_;
  std::array<uint8_t*, kKinds> bases_;
  std::array<urma_target_seg_t*, kKinds> segments_;
};

// Completions of one JFC, found by polling or after an event.
urma_cr_t take(Endpoint& endpoint, urma_jfc_t* jfc) {
  if (endpoint.jfce == nullptr) return wait_for(jfc);
  urma_jfc_t* fired = nullptr;
  uint32_t one = 1;
  EXPECT_EQ(
      urma_wait_jfc(endpoint.jfce, 1, static_cast<int>(patience(seconds(10)).count()), &fired), 1);
  EXPECT_EQ(fired, jfc);
  urma_ack_jfc(&fired, &one, 1);
  urma_cr_t cr = {};
  EXPECT_EQ(urma_poll_jfc(jfc, 1, &cr), 1);
  return cr;
}
void expect_one(Endpoint& endpoint, urma_jfc_t* jfc) {
  if (endpoint.jfce == nullptr) return;
  EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
}

// What a receiver must see of the sender.
struct Sender {
  uint32_t uasid, id;
};

bool offered(const Operation& operation, urma_transport_mode_t mode) {
  return mode != URMA_TM_UM || operation.opcode == URMA_OPC_SEND ||
         operation.opcode == URMA_OPC_SEND_IMM || operation.opcode == URMA_OPC_NOP;
}

// In one size at least.
bool has_some(const urma_context_t* ctx, const Operation& operation, urma_transport_mode_t mode) {
  return is_offered(ctx, operation.opcode, mode, operation.sizes.front());
}

template <typename Each>
void for_each_step(const urma_context_t* ctx, urma_transport_mode_t mode, const Each& each) {
  uint64_t seed = 0;
  for (const Operation& operation : operations()) {
    if (!offered(operation, mode)) continue;
    for (const size_t size : operation.sizes) {
      if (!is_offered(ctx, operation.opcode, mode, size)) continue;
      for (size_t local = 0; local < kKinds; ++local) {
        for (size_t remote = 0; remote < kKinds; ++remote) {
          const Step step = {operation, size, local, remote, ++seed};
          SCOPED_TRACE(step.describe());
          each(step);
        }
      }
    }
  }
}

// The side that owns the memory and receives.
class Target {
 public:
  Target(Channel& channel, const Config& config, uint8_t* stack)
      : channel_(channel), endpoint_(config), memories_(endpoint_, kAllAccess, stack) {
    urma_target_jetty_t* peer = endpoint_.import(channel.swap(endpoint_.queue_id()));
    if (config.mode == URMA_TM_RC) endpoint_.bind(peer);
    for (size_t kind = 0; kind < kKinds; ++kind) {
      channel.send(endpoint_.segment_id(memories_.segment(kind)));
    }
    channel.send(endpoint_.segment_id(endpoint_.add(&notified_, sizeof(notified_))));
    channel.send(Sender{endpoint_.ctx->uasid, endpoint_.sender_id()});
    sender_ = channel.receive<Sender>();
  }
  const urma_context_t* ctx() const { return endpoint_.ctx; }

  void run(const Step& step) {
    uint8_t* place = memories_.at(step, step.remote);
    const Wide old = before(step), result = after(step);
    const bool atomic = step.operation.kind == Operation::kAtomic;
    const void* moved = step.operation.kind == Operation::kNothing ? nullptr : data(step.seed);
    const bool is_read = step.operation.kind == Operation::kRead;
    Memories::put(place, atomic ? &old : is_read ? moved : nullptr, step.size);
    urma_target_seg_t* victim = nullptr;
    if (step.operation.opcode == URMA_OPC_SEND_INVALIDATE) {
      victim = endpoint_.add(&victim_, sizeof(victim_), kAllAccess, kVictimToken);
      channel_.send(endpoint_.segment_id(victim, kVictimToken));
    }
    if (step.receives()) {
      endpoint_.post_receive(memories_.segment(step.remote), place, step.size, step.seed);
      expect_one(endpoint_, endpoint_.receive_jfc);
    }
    channel_.sync();  // go
    if (step.receives()) check_receive(step, victim);
    if (victim != nullptr) channel_.sync();  // received
    channel_.sync();                         // done
    Memories::check(place, atomic ? &result : moved, step.size);
    if (step.operation.opcode == URMA_OPC_WRITE_NOTIFY) {
      EXPECT_EQ(notified_, step.immediate());
    }
    if (victim == nullptr) return;
    EXPECT_EQ(victim_, 0u);
    endpoint_.remove(victim);
  }
  void close() {
    EXPECT_TRUE(has_nothing(endpoint_.receive_jfc));
    memories_.end();
    endpoint_.close();
  }

 private:
  void check_receive(const Step& step, const urma_target_seg_t* victim) {
    const urma_cr_t cr = take(endpoint_, endpoint_.receive_jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.user_ctx, step.seed);
    EXPECT_EQ(cr.flag.bs.s_r, 1);
    EXPECT_EQ(cr.completion_len, step.size);
    EXPECT_EQ(cr.remote_id.id, sender_.id);
    EXPECT_EQ(cr.remote_id.uasid, sender_.uasid);
    switch (step.operation.opcode) {
      case URMA_OPC_SEND:
        EXPECT_EQ(cr.opcode, URMA_CR_OPC_SEND);
        break;
      case URMA_OPC_SEND_INVALIDATE:
        EXPECT_EQ(cr.opcode, URMA_CR_OPC_SEND_WITH_INV);
        EXPECT_EQ(cr.invalid_token.token_id, victim->seg.token_id);
        EXPECT_EQ(cr.invalid_token.token_value.token, kVictimToken);
        break;
      default:
        EXPECT_EQ(cr.opcode, step.operation.opcode == URMA_OPC_SEND_IMM
                                 ? URMA_CR_OPC_SEND_WITH_IMM
                                 : URMA_CR_OPC_WRITE_WITH_IMM);
        EXPECT_EQ(cr.imm_data, step.immediate());
    }
  }

  Channel& channel_;
  Endpoint endpoint_;
  Memories memories_;
  uint64_t notified_ = 0, victim_ = 0;
  Sender sender_;
};

// The side that posts.
class Initiator {
 public:
  Initiator(Channel& channel, const Config& config, uint8_t* stack)
      : channel_(channel),
        endpoint_(config),
        memories_(endpoint_, URMA_ACCESS_LOCAL_ONLY, stack),
        queue_(endpoint_.import(channel.swap(endpoint_.queue_id()))) {
    if (config.mode == URMA_TM_RC) endpoint_.bind(queue_);
    for (urma_target_seg_t*& segment : remote_) {
      segment = endpoint_.import(channel.receive<SegmentId>(), true);
    }
    notified_ = endpoint_.import(channel.receive<SegmentId>());
    channel.receive<Sender>();
    channel.send(Sender{endpoint_.ctx->uasid, endpoint_.sender_id()});
  }
  const urma_context_t* ctx() const { return endpoint_.ctx; }

  void run(const Step& step) {
    uint8_t* place = memories_.at(step, step.local);
    const bool fetches =
        step.operation.kind == Operation::kRead || step.operation.kind == Operation::kAtomic;
    const bool nothing = step.operation.kind == Operation::kNothing;
    Memories::put(place, fetches || nothing ? nullptr : data(step.seed), step.size);
    urma_target_seg_t* victim = nullptr;
    if (step.operation.opcode == URMA_OPC_SEND_INVALIDATE) {
      victim = endpoint_.import(channel_.receive<SegmentId>());
    }
    post(step, place, victim);
    const urma_cr_t cr = take(endpoint_, endpoint_.send_jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.user_ctx, step.seed);
    EXPECT_EQ(cr.flag.bs.s_r, 0);
    EXPECT_EQ(cr.local_id, endpoint_.sender_id());
    if (step.operation.opcode != URMA_OPC_WRITE_NOTIFY) {
      EXPECT_EQ(cr.completion_len, step.size);
    }
    if (victim != nullptr) {
      channel_.sync();  // received
      expect_refused(victim);
    }
    channel_.sync();  // done
    const Wide old = before(step);
    const bool atomic = step.operation.kind == Operation::kAtomic;
    Memories::check(place,
                    atomic    ? static_cast<const void*>(&old)
                    : nothing ? nullptr
                              : data(step.seed),
                    step.size);
  }
  // What a mode or the device does not support is refused when posted.
  void refuse(const Operation& operation) {
    SCOPED_TRACE(operation.name);
    const Step step = {operation, operation.sizes.back(), 1, 1, 1};
    Pieces pieces;
    urma_jfs_wr_t wr = request(step, memories_.at(step, 1), nullptr, &pieces);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(endpoint_.post(&wr, &bad), URMA_EINVAL);
    EXPECT_EQ(bad, &wr);
    EXPECT_TRUE(has_nothing(endpoint_.send_jfc));
  }
  void close() {
    EXPECT_TRUE(has_nothing(endpoint_.send_jfc));
    memories_.end();
    endpoint_.close();
  }

 private:
  // What a request points to.
  struct Pieces {
    urma_sge_t here, there[2];
    Wide compare, swap;
  };

  void post(const Step& step, uint8_t* place, urma_target_seg_t* victim) {
    Pieces pieces;
    const urma_jfs_wr_t wr = request(step, place, victim, &pieces);
    expect_one(endpoint_, endpoint_.send_jfc);
    channel_.sync();  // go
    endpoint_.post(wr);
  }

  urma_jfs_wr_t request(const Step& step, uint8_t* place, urma_target_seg_t* victim,
                        Pieces* pieces) {
    urma_target_seg_t* remote = remote_[step.remote];
    urma_sge_t* here = &pieces->here;
    urma_sge_t* there = pieces->there;
    *here = piece(memories_.segment(step.local), place, step.size);
    there[0] = piece(remote, step.place(step.remote, remote->seg.ubva.va), step.size);
    there[1] = piece(notified_, notified_->seg.ubva.va, sizeof(uint64_t));
    urma_jfs_wr_t wr = write_imm_request(queue_, here, there, step.immediate(), step.seed);
    switch (step.operation.kind) {
      case Operation::kMessage:
        wr = send_imm_request(queue_, here, step.immediate(), step.seed);
        if (victim != nullptr) wr.send.tseg = victim;
        break;
      case Operation::kRead:
        wr = read_request(queue_, here, there, step.seed);
        break;
      case Operation::kAtomic:
        wr = atomic(step, pieces);
        break;
      default:
        if (step.operation.opcode == URMA_OPC_WRITE_NOTIFY) wr.rw.dst.num_sge = 2;
    }
    wr.opcode = step.operation.opcode;
    return wr;
  }

  urma_jfs_wr_t atomic(const Step& step, Pieces* pieces) {
    pieces->compare = before(step) ^ (matches(step) ? 0 : 1);
    pieces->swap = operand(step);
    const auto low = static_cast<uint64_t>(pieces->swap);
    if (step.operation.opcode != URMA_OPC_CAS && step.operation.opcode != URMA_OPC_SWAP) {
      return add_request(queue_, &pieces->here, pieces->there, low, step.seed);
    }
    urma_jfs_wr_t wr = cas_request(queue_, &pieces->here, pieces->there,
                                   static_cast<uint64_t>(pieces->compare), low, step.seed);
    if (step.size == sizeof(Wide)) {
      wr.cas.cmp_addr = reinterpret_cast<uint64_t>(&pieces->compare);
      wr.cas.swap_addr = reinterpret_cast<uint64_t>(&pieces->swap);
    }
    return wr;
  }

  // The segment that a message has ended, whose token is still valid.
  void expect_refused(urma_target_seg_t* victim) {
    urma_sge_t here = piece(memories_.segment(1),
                            memories_.at(Step{operations()[0], 8, 1, 1, 1}, 1), sizeof(uint64_t));
    urma_sge_t there = piece(victim, victim->seg.ubva.va, sizeof(uint64_t));
    expect_one(endpoint_, endpoint_.send_jfc);
    endpoint_.post(write_request(queue_, &here, &there));
    EXPECT_EQ(take(endpoint_, endpoint_.send_jfc).status, URMA_CR_REM_ACCESS_ABORT_ERR);
    endpoint_.unimport(victim);
  }

  Channel& channel_;
  Endpoint endpoint_;
  Memories memories_;
  urma_target_jetty_t* queue_;
  std::array<urma_target_seg_t*, kKinds> remote_;
  urma_target_seg_t* notified_;
};

enum class Queues { kRmJetty, kRmJfsJfr, kRcJetty, kUmJetty, kUmJfsJfr };
using Parameters = std::tuple<Queues, bool, bool>;

Config config_of(const Parameters& parameters) {
  const auto [queues, lock_free, events] = parameters;
  Config config;
  config.jetty = queues != Queues::kRmJfsJfr && queues != Queues::kUmJfsJfr;
  config.mode = queues >= Queues::kUmJetty   ? URMA_TM_UM
                : queues == Queues::kRcJetty ? URMA_TM_RC
                                             : URMA_TM_RM;
  config.lock_free = lock_free;
  config.events = events;
  return config;
}

class Product : public ProcessTest, public testing::WithParamInterface<Parameters> {};

TEST_P(Product, MovesExactlyTheBytesItShould) {
  const Config config = config_of(GetParam());
  SKIP_WITHOUT(device_traits().has_mode(config.mode), "this transport mode");
  run_two(
      "initiator",
      [&config](Channel& channel) {
        alignas(64) uint8_t stack[kSpace];
        Initiator initiator(channel, config, stack);
        for_each_step(initiator.ctx(), config.mode, [&](const Step& step) { initiator.run(step); });
        for (const Operation& operation : operations()) {
          if (!offered(operation, config.mode) ||
              !has_some(initiator.ctx(), operation, config.mode))
            initiator.refuse(operation);
        }
        channel.sync();
        initiator.close();
      },
      "target",
      [&config](Channel& channel) {
        alignas(64) uint8_t stack[kSpace];
        Target target(channel, config, stack);
        for_each_step(target.ctx(), config.mode, [&](const Step& step) { target.run(step); });
        channel.sync();
        target.close();
      });
}

std::string name_of(const testing::TestParamInfo<Parameters>& info) {
  const char* const queue_names[] = {"RmJetty", "RmJfsJfr", "RcJetty", "UmJetty", "UmJfsJfr"};
  const auto [queues, lock_free, events] = info.param;
  return std::string(queue_names[static_cast<int>(queues)]) + (lock_free ? "LockFree" : "Locked") +
         (events ? "Event" : "Poll");
}

INSTANTIATE_TEST_SUITE_P(All, Product,
                         testing::Combine(testing::Values(Queues::kRmJetty, Queues::kRmJfsJfr,
                                                          Queues::kRcJetty, Queues::kUmJetty,
                                                          Queues::kUmJfsJfr),
                                          testing::Bool(), testing::Bool()),
                         name_of);

}  // namespace
}  // namespace urma_test
