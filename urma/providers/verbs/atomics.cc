// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/atomics.h"

#include <bit>

namespace urma::verbs {
namespace {

// Each lost round is one that a peer has won. Far more rounds than any number of peers that take
// turns need; a bound for peers that do not.
constexpr uint32_t kMaxRounds = 100'000;
constexpr uint32_t kWordBytes = 8;

// Where a value of this many bytes lies in the word around it.
uint32_t shift_of(uint64_t addr, uint32_t bytes) {
  const auto offset = static_cast<uint32_t>(addr % kWordBytes);
  const uint32_t from_low =
      std::endian::native == std::endian::little ? offset : kWordBytes - bytes - offset;
  return bytes == kWordBytes ? 0 : from_low * 8;
}

}  // namespace

bool native_atomic(uint32_t opcode, uint64_t bytes) {
  return bytes == kWordBytes &&
         (opcode == URMA_OPC_CAS || opcode == URMA_OPC_FADD || opcode == URMA_OPC_FSUB);
}

AtomicLoop::AtomicLoop(uint32_t opcode, uint64_t addr, uint32_t bytes, uint64_t operand,
                       uint64_t replacement)
    : opcode_(opcode),
      addr_(addr),
      operand_(operand),
      replacement_(replacement),
      mask_(bytes == kWordBytes ? UINT64_MAX : UINT32_MAX),
      shift_(shift_of(addr, bytes)) {}

uint64_t AtomicLoop::swap() const {
  const uint64_t old = old_value();
  uint64_t value = old;
  switch (opcode_) {
    case URMA_OPC_CAS:
      if (old == (operand_ & mask_)) value = replacement_;
      break;
    case URMA_OPC_SWAP:
      value = replacement_;
      break;
    case URMA_OPC_FADD:
      value = old + operand_;
      break;
    case URMA_OPC_FSUB:
      value = old - operand_;
      break;
    case URMA_OPC_FAND:
      value = old & operand_;
      break;
    case URMA_OPC_FOR:
      value = old | operand_;
      break;
    case URMA_OPC_FXOR:
      value = old ^ operand_;
      break;
    default:
      break;
  }
  return (guess_ & ~(mask_ << shift_)) | (value & mask_) << shift_;
}

AtomicLoop::Next AtomicLoop::found(uint64_t word) {
  if (word == guess_) return Next::kDone;
  guess_ = word;
  return ++rounds_ < kMaxRounds ? Next::kAgain : Next::kHopeless;
}

}  // namespace urma::verbs
