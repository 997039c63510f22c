// SPDX-License-Identifier: MIT
//
// Atomics that no device has, made of the one that all have: compare and swap of 8 bytes.
#ifndef URMA_PROVIDERS_VERBS_ATOMICS_H_
#define URMA_PROVIDERS_VERBS_ATOMICS_H_

#include <cstdint>

#include "urma_opcode.h"

namespace urma::verbs {

// Whether devices execute it themselves.
bool native_atomic(uint32_t opcode, uint64_t bytes);

// One atomic on 4 or 8 bytes at `addr`. It begins with a guess of the word around them; each
// compare and swap returns the word found, until that equals the guess.
class AtomicLoop {
 public:
  // `operand` and `replacement` as a work request has them.
  AtomicLoop(uint32_t opcode, uint64_t addr, uint32_t bytes, uint64_t operand,
             uint64_t replacement);

  // The word that is compared, and swapped.
  uint64_t word_addr() const { return addr_ & ~uint64_t{7}; }
  uint64_t compare() const { return guess_; }
  uint64_t swap() const;

  enum class Next { kDone, kAgain, kHopeless };
  // The word that compare and swap has found. kHopeless: peers were quicker too often.
  Next found(uint64_t word);
  // Once done: what lay at `addr`.
  uint64_t old_value() const { return value_in(guess_); }

 private:
  uint64_t value_in(uint64_t word) const { return word >> shift_ & mask_; }

  const uint32_t opcode_;
  const uint64_t addr_;
  const uint64_t operand_;
  const uint64_t replacement_;
  const uint64_t mask_;   // of the value
  const uint32_t shift_;  // of the value in the word
  uint64_t guess_ = 0;
  uint32_t rounds_ = 0;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_ATOMICS_H_
