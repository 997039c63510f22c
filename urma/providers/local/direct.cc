// SPDX-License-Identifier: MIT
#include "urma/providers/local/direct.h"
namespace urma::local {
namespace {

// The order between the owner's own accesses and these is made by the programs, through the peer,
// where the thread sanitizer cannot see it.
template <typename Word>
__attribute__((no_sanitize("thread"))) uint64_t execute_on(urma_opcode_t opcode, void* target,
                                                           const uint64_t operand[2]) {
  auto* word = static_cast<Word*>(target);
  // Sequentially consistent, as every lock instruction is: atomics of all callers on one location
  // are atomic with each other and with the program's own.
  if (opcode == URMA_OPC_FADD) {
    return __atomic_fetch_add(word, static_cast<Word>(operand[0]), __ATOMIC_SEQ_CST);
  }
  Word expected = static_cast<Word>(operand[0]);
  __atomic_compare_exchange_n(word, &expected, static_cast<Word>(operand[1]), false,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}

}  // namespace

void copy_mapped(Direction direction, char* mapped, std::span<const iovec> local) {
  for (const iovec& piece : local) {
    char* here = static_cast<char*>(piece.iov_base);
    if (direction == Direction::kWrite) {
      copy_in_order(mapped, here, piece.iov_len);
    } else {
      std::memcpy(here, mapped, piece.iov_len);
    }
    mapped += piece.iov_len;
  }
}

uint64_t execute_atomic(urma_opcode_t opcode, void* target, uint32_t width,
                        const uint64_t operand[2]) {
  return width == 4 ? execute_on<uint32_t>(opcode, target, operand)
                    : execute_on<uint64_t>(opcode, target, operand);
}

}  // namespace urma::local
