// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_DEVICE_WORD_H_
#define URMA_PROVIDERS_VERBS_DEVICE_WORD_H_

#include <cstdint>

#include "urma/providers/verbs/memory.h"

namespace urma::verbs {

// A word that the device reads and writes. As the source and target of READs that only prove that
// earlier requests were executed, it is not of length 0: after others, Soft-iWARP answers those
// with bytes that were not requested.
struct DeviceWord {
  // `access` is for peers: URMA_ACCESS_*.
  DeviceWord(const Device& device, uint32_t access)
      : region(device, reinterpret_cast<uint64_t>(&word), sizeof(word), {.access = access}),
        piece{reinterpret_cast<uint64_t>(&word), sizeof(word), region.lkey()} {}
  DeviceWord(const DeviceWord&) = delete;
  DeviceWord& operator=(const DeviceWord&) = delete;

  alignas(8) uint64_t word = 0;
  MemoryRegion region;
  ibv_sge piece;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_DEVICE_WORD_H_
