// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_PROOF_WORD_H_
#define URMA_PROVIDERS_VERBS_PROOF_WORD_H_

#include <cstdint>

#include "urma/providers/verbs/memory.h"

namespace urma::verbs {

// Source and target of READs that only prove that earlier requests were executed. Not of length 0:
// after others, Soft-iWARP answers those with bytes that were not requested.
struct ProofWord {
  // `access` is for peers: URMA_ACCESS_*.
  ProofWord(const Device& device, uint32_t access)
      : region(device, reinterpret_cast<uint64_t>(&word), sizeof(word), {.access = access}),
        piece{reinterpret_cast<uint64_t>(&word), sizeof(word), region.lkey()} {}
  ProofWord(const ProofWord&) = delete;
  ProofWord& operator=(const ProofWord&) = delete;

  alignas(8) uint64_t word = 0;
  MemoryRegion region;
  ibv_sge piece;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_PROOF_WORD_H_
