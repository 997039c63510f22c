// SPDX-License-Identifier: MIT
//
// The steps of the product test: what each operation is, and its effect on the bytes.
#ifndef TEST_CONFORMANCE_PRODUCT_H_
#define TEST_CONFORMANCE_PRODUCT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "urma_api.h"

namespace urma_test {

// More than is copied in one turn.
inline constexpr size_t kLargest = (1 << 20) + 1;
inline constexpr size_t kGuard = 64;
inline constexpr size_t kSpace = kLargest + 4 * kGuard;
inline constexpr uint8_t kPoison = 0xa5;
inline constexpr uint32_t kVictimToken = 0xdead;

enum class Memory { kOwn, kMalloc, kMemalign, kMmap, kStack };
inline constexpr Memory kMemories[] = {Memory::kOwn, Memory::kMalloc, Memory::kMemalign,
                                       Memory::kMmap, Memory::kStack};
inline constexpr size_t kKinds = std::size(kMemories);

struct Operation {
  const char* name;
  urma_opcode_t opcode;
  enum Kind { kWrite, kRead, kMessage, kAtomic, kNothing } kind;
  std::vector<size_t> sizes;
};

inline const std::vector<Operation>& operations() {
  const std::vector<size_t> any = {0, 1, 8, 64, 4096, kLargest};
  static const std::vector<Operation> all = {
      {"WRITE", URMA_OPC_WRITE, Operation::kWrite, any},
      {"WRITE_IMM", URMA_OPC_WRITE_IMM, Operation::kWrite, any},
      {"WRITE_NOTIFY", URMA_OPC_WRITE_NOTIFY, Operation::kWrite, any},
      {"WRITE_ATOMIC", URMA_OPC_WRITE_ATOMIC, Operation::kWrite, {1, 2, 4, 8, 16}},
      {"READ", URMA_OPC_READ, Operation::kRead, any},
      {"SEND", URMA_OPC_SEND, Operation::kMessage, any},
      {"SEND_IMM", URMA_OPC_SEND_IMM, Operation::kMessage, any},
      {"SEND_INVALIDATE", URMA_OPC_SEND_INVALIDATE, Operation::kMessage, any},
      {"CAS", URMA_OPC_CAS, Operation::kAtomic, {4, 8, 16}},
      {"SWAP", URMA_OPC_SWAP, Operation::kAtomic, {4, 8}},
      {"FADD", URMA_OPC_FADD, Operation::kAtomic, {4, 8}},
      {"FSUB", URMA_OPC_FSUB, Operation::kAtomic, {4, 8}},
      {"FAND", URMA_OPC_FAND, Operation::kAtomic, {4, 8}},
      {"FOR", URMA_OPC_FOR, Operation::kAtomic, {4, 8}},
      {"FXOR", URMA_OPC_FXOR, Operation::kAtomic, {4, 8}},
      {"NOP", URMA_OPC_NOP, Operation::kNothing, {0}},
  };
  return all;
}

// One request, as both sides know it.
struct Step {
  const Operation& operation;
  size_t size;
  size_t local, remote;  // kinds of memory
  uint64_t seed;

  bool receives() const {
    return operation.kind == Operation::kMessage || operation.opcode == URMA_OPC_WRITE_IMM;
  }
  bool aligned() const {
    return operation.kind == Operation::kAtomic || operation.opcode == URMA_OPC_WRITE_ATOMIC;
  }
  // After the guard, and odd in memory from malloc.
  uint64_t place(size_t kind, uint64_t base) const {
    const uint64_t at = base + kGuard + (kMemories[kind] == Memory::kMalloc ? 1 : 0);
    return aligned() ? (at + 15) & ~uint64_t{15} : at;
  }
  uint64_t immediate() const { return ~seed * 0x9e3779b97f4a7c15u; }
  std::string describe() const {
    return std::string(operation.name) + " of " + std::to_string(size) + " from " +
           std::to_string(local) + " to " + std::to_string(remote);
  }
};

// A value of an atomic, up to 16 bytes.
using Wide = unsigned __int128;

inline Wide truncated(Wide value, size_t size) {
  return size >= sizeof(Wide) ? value : value & ((Wide{1} << (8 * size)) - 1);
}
inline Wide wide(uint64_t seed) {
  return (Wide{seed * 0xd6e8feb86659fd93u} << 64) | ~(seed * 0x9e3779b9u);
}
inline Wide before(const Step& step) { return truncated(wide(step.seed), step.size); }
inline Wide operand(const Step& step) { return truncated(wide(step.seed + 99), step.size); }
inline bool matches(const Step& step) { return step.seed % 3 != 0; }  // of CAS

inline Wide after(const Step& step) {
  const Wide old = before(step), other = operand(step);
  switch (step.operation.opcode) {
    case URMA_OPC_CAS:
      return matches(step) ? other : old;
    case URMA_OPC_SWAP:
      return other;
    case URMA_OPC_FADD:
      return truncated(old + other, step.size);
    case URMA_OPC_FSUB:
      return truncated(old - other, step.size);
    case URMA_OPC_FAND:
      return old & other;
    case URMA_OPC_FOR:
      return old | other;
    default:
      return old ^ other;
  }
}

inline const uint8_t* data(uint64_t seed) {
  static const std::vector<uint8_t> pattern = [] {
    std::vector<uint8_t> bytes(kLargest + 4096);
    uint64_t word = 1;
    for (uint8_t& byte : bytes) {
      word = word * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<uint8_t>(word >> 56);
    }
    return bytes;
  }();
  return pattern.data() + seed * 131 % 4096;
}

}  // namespace urma_test

#endif  // TEST_CONFORMANCE_PRODUCT_H_
