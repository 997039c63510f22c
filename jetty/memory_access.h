// SPDX-License-Identifier: MIT
//
// Accesses of the processor to memory that others read or change at the same time: copies that
// arrive in order, and atomics.
#ifndef JETTY_MEMORY_ACCESS_H_
#define JETTY_MEMORY_ACCESS_H_

#include <atomic>
#include <cstdint>
#include <cstring>

#include "urma_opcode.h"

namespace urma {

// Up to 8 bytes, in stores of one, two, four or eight: a word is written as a whole.
[[gnu::always_inline]] inline void copy_word(char* to, const char* from, uint64_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
    return;
  }
  // Each copy has a constant size, so that it is one store.
  if ((bytes & 4) != 0) {
    std::memcpy(to, from, 4);
    to += 4;
    from += 4;
    // As below.
    std::atomic_thread_fence(std::memory_order_release);
  }
  if ((bytes & 2) != 0) {
    std::memcpy(to, from, 2);
    to += 2;
    from += 2;
    std::atomic_thread_fence(std::memory_order_release);
  }
  if ((bytes & 1) != 0) *to = *from;
}

// More than 8 bytes, as copy_in_order(), without a call.
[[gnu::always_inline]] inline void copy_few_words(char* to, const char* from, uint64_t bytes) {
  const uint64_t tail = (reinterpret_cast<uint64_t>(to) + bytes - 1) % 8 + 1;
  const char* const last = from + (bytes - tail);
  for (; last - from >= 8; to += 8, from += 8) {
    std::memcpy(to, from, 8);
    // Otherwise the compiler would make it a call.
    std::atomic_signal_fence(std::memory_order_release);
  }
  const uint64_t rest = last - from;
  copy_word(to, from, rest);
  // Pairs with the acquire that the owner's own program makes.
  std::atomic_thread_fence(std::memory_order_release);
  copy_word(to + rest, last, tail);
}

// More than 8 bytes, as copy_in_order().
inline void copy_words(char* to, const char* from, uint64_t bytes) {
  const uint64_t tail = (reinterpret_cast<uint64_t>(to) + bytes - 1) % 8 + 1;
  std::memcpy(to, from, bytes - tail);
  // Pairs with the acquire that the owner's own program makes.
  std::atomic_thread_fence(std::memory_order_release);
  copy_word(to + (bytes - tail), from + (bytes - tail), tail);
}

// Up to this size, bytes are copied without a call.
inline constexpr uint32_t kFewBytes = 64;

// Copies so that the last word arrives last: the owner may be spinning on it.
template <bool kFew = false>
[[gnu::always_inline]] inline void copy_in_order(char* to, const char* from, uint64_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes < 8) {
    copy_word(to, from, bytes);
  } else if (kFew) {
    copy_few_words(to, from, bytes);
  } else {
    copy_words(to, from, bytes);
  }
}

// The programs order the owner's own accesses and these, through the peer, where the thread
// sanitizer cannot see it.
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

// Returns the old value. `width` is 4 or 8, and the target aligned to it. `first` is compared with
// the old value or changes it; `second` replaces it.
[[gnu::always_inline]] inline uint64_t execute_atomic(uint32_t opcode, void* target, uint32_t width,
                                                      uint64_t first, uint64_t second) {
  return width == 4 ? execute_on<uint32_t>(opcode, target, first, second)
                    : execute_on<uint64_t>(opcode, target, first, second);
}

// The same for every opcode and width that valid_width() accepts, with 16 bytes per operand.
void execute_wide(uint32_t opcode, void* target, uint32_t width, const uint64_t operand[4],
                  uint64_t before[2]);

// Writes 1, 2, 4, 8 or 16 bytes, of which others see all or none. The target is aligned to that
// size.
void write_whole(void* target, const void* from, uint64_t bytes);

// Whether all bytes at va can be read, or written, and backs them: a fault in an access on behalf
// of a peer would end this process. True also if the kernel cannot tell.
bool populate(uint64_t va, uint64_t bytes, bool for_writing);

}  // namespace urma

#endif  // JETTY_MEMORY_ACCESS_H_
