// SPDX-License-Identifier: MIT
//
// Atomics by the processor, on memory of this process that others may change at the same time.
#ifndef JETTY_ATOMICS_H_
#define JETTY_ATOMICS_H_

#include <cstdint>

#include "urma_opcode.h"

namespace urma {

// The order between the owner's own accesses and these is made by the programs, through the peer,
// where the thread sanitizer cannot see it.
#if defined(__SANITIZE_THREAD__)
#define URMA_ATOMIC_OF_A_PEER __attribute__((no_sanitize("thread")))
#else
#define URMA_ATOMIC_OF_A_PEER [[gnu::always_inline]]
#endif
template <typename Word>
URMA_ATOMIC_OF_A_PEER inline uint64_t execute_on(uint32_t opcode, void* target, uint64_t first,
                                                 uint64_t second) {
  auto* word = static_cast<Word*>(target);
  auto operand = static_cast<Word>(first);
  // Sequentially consistent, as every lock instruction is: atomics of all callers on one location
  // are atomic with each other and with the program's own.
  switch (opcode) {
    case URMA_OPC_SWAP:
      return __atomic_exchange_n(word, static_cast<Word>(second), __ATOMIC_SEQ_CST);
    case URMA_OPC_FADD:
      return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case URMA_OPC_FSUB:
      return __atomic_fetch_sub(word, operand, __ATOMIC_SEQ_CST);
    case URMA_OPC_FAND:
      return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case URMA_OPC_FOR:
      return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case URMA_OPC_FXOR:
      return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    default:
      __atomic_compare_exchange_n(word, &operand, static_cast<Word>(second), false,
                                  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      return operand;
  }
}

// Returns what was there before. `width` is 4 or 8, and the target aligned to it. `first` is
// compared with the old value or changes it, `second` replaces it.
[[gnu::always_inline]] inline uint64_t execute_atomic(uint32_t opcode, void* target, uint32_t width,
                                                      uint64_t first, uint64_t second) {
  return width == 4 ? execute_on<uint32_t>(opcode, target, first, second)
                    : execute_on<uint64_t>(opcode, target, first, second);
}

// The same for every opcode and width that valid_width() knows: 16 bytes of each operand.
void execute_wide(uint32_t opcode, void* target, uint32_t width, const uint64_t operand[4],
                  uint64_t before[2]);

// 1, 2, 4, 8 or 16 bytes that the target, aligned to as much, shows all or none of.
void write_whole(void* target, const void* from, uint64_t bytes);

// Whether the page at va can be written to, and is there now: a fault in an access on behalf of a
// peer would be this process's end.
bool populate_for_writing(uint64_t va);

}  // namespace urma

#endif  // JETTY_ATOMICS_H_
