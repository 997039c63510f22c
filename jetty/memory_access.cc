// SPDX-License-Identifier: MIT
#include "jetty/memory_access.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace urma {
namespace {

template <typename Word>
__attribute__((no_sanitize("thread"))) void store_whole(void* target, const void* from) {
  Word value;
  std::memcpy(&value, from, sizeof(value));
  // Release, as every write: pairs with the acquire that the owner's own program makes.
  __atomic_store_n(static_cast<Word*>(target), value, __ATOMIC_RELEASE);
}

// Replaces 16 bytes if they are as expected, and leaves the old value in `expected`. The
// compiler would call a library for it, whose lock other processes do not share.
bool compare_and_swap_16(void* target, uint64_t expected[2], const uint64_t desired[2]) {
#if defined(__x86_64__)
  struct Pair {
    uint64_t half[2];
  };
  bool done;
  asm volatile("lock cmpxchg16b %1"
               : "=@ccz"(done), "+m"(*static_cast<Pair*>(target)), "+a"(expected[0]),
                 "+d"(expected[1])
               : "b"(desired[0]), "c"(desired[1])
               : "memory");
  return done;
#elif defined(__aarch64__)
  // What is unexpected is stored again: without LSE2, only a pair whose store succeeds was read at
  // once. The compiler's own function does not do that on a processor without LSE.
  struct Pair {
    uint64_t half[2];
  };
  uint64_t low, high, next_low, next_high;
  uint32_t lost;
  asm volatile(
      "0: ldaxp %[low], %[high], %[target]\n"
      "cmp %[low], %[expected_low]\n"
      "ccmp %[high], %[expected_high], #0, eq\n"
      "csel %[next_low], %[desired_low], %[low], eq\n"
      "csel %[next_high], %[desired_high], %[high], eq\n"
      "stlxp %w[lost], %[next_low], %[next_high], %[target]\n"
      "cbnz %w[lost], 0b"
      : [low] "=&r"(low), [high] "=&r"(high), [next_low] "=&r"(next_low),
        [next_high] "=&r"(next_high), [lost] "=&r"(lost), [target] "+Q"(*static_cast<Pair*>(target))
      : [expected_low] "r"(expected[0]), [expected_high] "r"(expected[1]),
        [desired_low] "r"(desired[0]), [desired_high] "r"(desired[1])
      : "cc", "memory");
  const bool done = low == expected[0] && high == expected[1];
  expected[0] = low;
  expected[1] = high;
  return done;
#elif defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
  unsigned __int128 wanted, replacement;
  std::memcpy(&wanted, expected, sizeof(wanted));
  std::memcpy(&replacement, desired, sizeof(replacement));
  const unsigned __int128 before =
      __sync_val_compare_and_swap(static_cast<unsigned __int128*>(target), wanted, replacement);
  std::memcpy(expected, &before, sizeof(before));
  return before == wanted;
#else
  // Unreachable: valid_width() refuses it.
  (void)target, (void)expected, (void)desired;
  return true;
#endif
}

}  // namespace

void execute_wide(uint32_t opcode, void* target, uint32_t width, const uint64_t operand[4],
                  uint64_t before[2]) {
  before[0] = before[1] = 0;
  if (opcode == URMA_OPC_WRITE_ATOMIC) return write_whole(target, operand, width);
  if (width <= sizeof(uint64_t)) {
    before[0] = execute_atomic(opcode, target, width, operand[0], operand[2]);
    return;
  }
  before[0] = operand[0];
  before[1] = operand[1];
  compare_and_swap_16(target, before, operand + 2);
}

void write_whole(void* target, const void* from, uint64_t bytes) {
  switch (bytes) {
    case 1:
      return store_whole<uint8_t>(target, from);
    case 2:
      return store_whole<uint16_t>(target, from);
    case 4:
      return store_whole<uint32_t>(target, from);
    case 8:
      return store_whole<uint64_t>(target, from);
    default: {
      uint64_t value[2];
      std::memcpy(value, from, sizeof(value));
      // A first guess; each attempt returns the actual value.
      uint64_t expected[2] = {0, 0};
      while (!compare_and_swap_16(target, expected, value)) {
      }
    }
  }
}

bool populate(uint64_t va, uint64_t bytes, bool for_writing) {
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  // A kernel before 5.14 cannot tell: it refuses the advice even for no memory.
  static const bool can_tell = ::madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0;
  const uint64_t first = va / page * page;
  return !can_tell || ::madvise(reinterpret_cast<void*>(first), va + bytes - first,
                                for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

}  // namespace urma
