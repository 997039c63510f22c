// SPDX-License-Identifier: MIT
//
// The two sides of one request: the one that posts it, and the one that owns the memory and
// receives. Each checks every byte that may have changed and those around it.
#ifndef TEST_CONFORMANCE_PARTIES_H_
#define TEST_CONFORMANCE_PARTIES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "test/conformance/regions.h"
#include "test/process/endpoint.h"

namespace urma_test {

enum class Operation {
  kWrite,
  kWriteImm,
  kWriteNotify,
  kRead,
  kSend,
  kSendImm,
  kCas,
  kSwap,
  kFadd,
  kFsub,
  kFand,
  kFor,
  kFxor,
  kWriteAtomic
};
const char* const kOperationNames[] = {"Write",   "WriteImm", "WriteNotify", "Read",       "Send",
                                       "SendImm", "Cas",      "Swap",        "Fadd",       "Fsub",
                                       "Fand",    "For",      "Fxor",        "WriteAtomic"};

// On one word, of which no half value may be seen.
inline bool is_atomic(Operation operation) { return operation >= Operation::kCas; }
inline urma_opcode_t opcode_of_atomic(Operation operation) {
  constexpr urma_opcode_t kOpcodes[] = {URMA_OPC_CAS,  URMA_OPC_SWAP, URMA_OPC_FADD, URMA_OPC_FSUB,
                                        URMA_OPC_FAND, URMA_OPC_FOR,  URMA_OPC_FXOR};
  return kOpcodes[static_cast<int>(operation) - static_cast<int>(Operation::kCas)];
}
inline bool has_immediate(Operation operation) {
  return operation == Operation::kWriteImm || operation == Operation::kSendImm;
}
inline bool offers(const DeviceTraits& device, Operation operation) {
  if (is_atomic(operation)) return device.max_atomic != 0;
  return device.immediates || !has_immediate(operation);
}
inline bool is_send(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kSendImm;
}
// The target is notified.
inline bool is_message(Operation operation) {
  return is_send(operation) || operation == Operation::kWriteImm;
}
// All 64 bits of an immediate must arrive.
inline uint64_t immediate_of(uint64_t seed) { return ~seed * 0x9e3779b97f4a7c15u; }
// Where WRITE_NOTIFY puts its value: after the data, at any address.
inline size_t notify_offset(size_t size) { return size + 3; }

// One request, as both sides see it.
struct Step {
  Operation operation;
  size_t kind;      // of the target's memory
  size_t size;      // bytes moved
  size_t offset;    // within the target's segment
  Value before;     // atomics: initial value of the target's memory
  Value after;      // atomics: the expected value afterwards
  uint64_t seed;    // the others: of the data
  uint32_t sender;  // id, uasid and EID that a receiver must see
  uint32_t uasid;
  urma_eid_t eid;
};

// The size of the segments for requests of `size` bytes: atomics get room to be misaligned, and a
// page, which can be mapped if it is a whole one.
inline size_t segment_size(Operation operation, size_t size) {
  if (operation == Operation::kWriteNotify) return notify_offset(size) + sizeof(uint64_t);
  return is_atomic(operation) ? 4096 : std::max<size_t>(size, 1);
}

// The side that owns the memory and receives.
class Target {
 public:
  Target(Endpoint& endpoint, Regions& regions)
      : endpoint_(endpoint),
        regions_(regions),
        unused_segment_(endpoint.add(unused_.data(), unused_.size(), URMA_ACCESS_LOCAL_ONLY)) {
    unused_.fill(kPoison);
  }
  Target(const Target&) = delete;
  ~Target() { endpoint_.remove(unused_segment_); }

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
    if (step.operation == Operation::kWriteImm) {
      endpoint_.post_receive(unused_segment_, unused_.data(), unused_.size(), step.seed);
    }
    if (is_send(step.operation)) {
      endpoint_.post_receive(regions_.segment(step.kind), region.data(), region.size(), step.seed);
    }
  }

  void check(const Step& step) {
    Region& region = regions_.region(step.kind);
    if (is_message(step.operation)) check_received(step);
    if (is_atomic(step.operation)) {
      region.expect_value(step.offset, step.after, step.size);
    } else {
      region.expect_pattern(step.size, step.seed);
    }
    if (step.operation == Operation::kWriteNotify) {
      region.add_value(notify_offset(step.size), immediate_of(step.seed), sizeof(uint64_t));
    }
    region.check("target");
  }

 private:
  void check_received(const Step& step) {
    const urma_cr_t cr = wait_for_success(endpoint_.receive_jfc, step.seed);
    EXPECT_EQ(cr.opcode, step.operation == Operation::kWriteImm  ? URMA_CR_OPC_WRITE_WITH_IMM
                         : step.operation == Operation::kSendImm ? URMA_CR_OPC_SEND_WITH_IMM
                                                                 : URMA_CR_OPC_SEND);
    if (step.operation != Operation::kSend) {
      EXPECT_EQ(cr.imm_data, immediate_of(step.seed));
    }
    for (uint8_t byte : unused_) EXPECT_EQ(byte, kPoison);
    EXPECT_EQ(cr.flag.bs.s_r, 1);
    EXPECT_EQ(cr.completion_len, step.size);
    EXPECT_EQ(cr.local_id,
              cr.flag.bs.jetty ? endpoint_.jetty->jetty_id.id : endpoint_.jfr->jfr_id.id);
    EXPECT_EQ(cr.remote_id.id, step.sender);
    EXPECT_EQ(std::memcmp(&cr.remote_id.eid, &step.eid, sizeof(step.eid)), 0);
    EXPECT_EQ(cr.remote_id.uasid, step.uasid);
    EXPECT_TRUE(has_nothing(endpoint_.receive_jfc));
  }

  Endpoint& endpoint_;
  Regions& regions_;
  std::array<uint8_t, 8> unused_{};  // the receive that WRITE_IMM consumes
  urma_target_seg_t* unused_segment_;
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
        step.eid = endpoint_.ctx->eid;
        move_once(step, local);
      }
    }
  }

  void count(Operation operation, size_t size) {
    for (size_t local = 0; local < kKinds; ++local) {
      for (size_t remote = 0; remote < kKinds; ++remote) {
        SCOPED_TRACE(describe(local, remote, size));
        const size_t offset = (16 - remote_[remote]->seg.ubva.va % 16) % 16 + 16;
        count_once(operation, local, remote, size, offset, URMA_CR_SUCCESS);
        count_once(operation, local, remote, size, offset + size, URMA_CR_SUCCESS);
        for (size_t skew = 1; skew < size; skew *= 2) {
          count_once(operation, local, remote, size, offset + skew,
                     URMA_CR_REM_UNSUPPORTED_REQ_ERR);
        }
        refuse_length(operation, local, remote, offset, 3);
        refuse_length(operation, local, remote, offset, 32);
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
    const uint64_t va = remote_[step.kind]->seg.ubva.va;
    urma_sge_t remote = piece(remote_[step.kind], va, step.size);
    urma_sge_t notified[] = {
        remote, piece(remote_[step.kind], va + notify_offset(step.size), sizeof(uint64_t))};
    switch (step.operation) {
      case Operation::kWrite:
        endpoint_.post(write_request(queue_, &local, &remote, step.seed));
        break;
      case Operation::kWriteImm:
        endpoint_.post(
            write_imm_request(queue_, &local, &remote, immediate_of(step.seed), step.seed));
        break;
      case Operation::kWriteNotify:
        endpoint_.post(
            write_notify_request(queue_, &local, notified, immediate_of(step.seed), step.seed));
        break;
      case Operation::kSendImm:
        endpoint_.post(send_imm_request(queue_, &local, immediate_of(step.seed), step.seed));
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
    // Small operands wrap around, and must not touch the bytes beside them.
    const Value mask = size == 16 ? ~Value{0} : (Value{1} << size * 8) - 1;
    const Value before = (~Value{0} - 0x0ff0ff00ff0fu + ++seed_ % 16) & mask;
    // Every third comparison finds another value, in the half that is compared last.
    const bool equal = operation != Operation::kCas || seed_ % 3 != 0;
    const Value other = before ^ (Value{1} << (size * 8 - 1));
    const Value operand = ((Value{0x99aabbccddeeff00u} << 64) + 0x1122334455667788u) & mask;
    const bool done = status == URMA_CR_SUCCESS;
    const Value after = done && equal ? applied(operation, before, operand) & mask : before;
    const Step step = {operation, remote_kind, size, offset, before, after, seed_, 0, 0, {}};
    const bool writes = operation == Operation::kWriteAtomic;
    Region& region = regions_.region(kind);
    region.expect_poison();
    if (writes) region.add_value(0, operand, size);
    region.put();
    target_.prepare(step);

    urma_sge_t here = piece(regions_.segment(kind), region.data(), size);
    urma_sge_t there =
        piece(remote_[remote_kind], remote_[remote_kind]->seg.ubva.va + offset, size);
    endpoint_.post(
        atomic_request(operation, &here, &there, equal ? before : other, operand, step.seed));
    check_completion(step.seed, size, status);
    target_.check(step);
    if (done && !writes) region.expect_value(0, before, size);
    region.check("initiator");
  }

  static Value applied(Operation operation, Value before, Value operand) {
    switch (operation) {
      case Operation::kFadd:
        return before + operand;
      case Operation::kFsub:
        return before - operand;
      case Operation::kFand:
        return before & operand;
      case Operation::kFor:
        return before | operand;
      case Operation::kFxor:
        return before ^ operand;
      default:
        return operand;
    }
  }

  urma_jfs_wr_t atomic_request(Operation operation, urma_sge_t* here, urma_sge_t* there,
                               const Value& compare, const Value& operand, uint64_t user_ctx) {
    const auto low = static_cast<uint64_t>(operand);
    if (operation == Operation::kWriteAtomic) {
      return write_atomic_request(queue_, here, there, user_ctx);
    }
    if (operation != Operation::kCas) {
      return fetch_request(opcode_of_atomic(operation), queue_, here, there, low, user_ctx);
    }
    if (here->len <= sizeof(uint64_t)) {
      return cas_request(queue_, here, there, static_cast<uint64_t>(compare), low, user_ctx);
    }
    return cas_request(queue_, here, there, reinterpret_cast<uint64_t>(&compare),
                       reinterpret_cast<uint64_t>(&operand), user_ctx);
  }

  void refuse_length(Operation operation, size_t kind, size_t remote_kind, size_t offset,
                     size_t size) {
    urma_sge_t old = piece(regions_.segment(kind), regions_.region(kind).data(), size);
    urma_sge_t remote =
        piece(remote_[remote_kind], remote_[remote_kind]->seg.ubva.va + offset, size);
    const Value value = 1;
    urma_jfs_wr_t wr = atomic_request(operation, &old, &remote, value, value, 0);
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

}  // namespace urma_test

#endif  // TEST_CONFORMANCE_PARTIES_H_
