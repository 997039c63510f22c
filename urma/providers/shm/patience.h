// SPDX-License-Identifier: MIT
//
// How long this process waits for the work of an owner, in addition to its answer: see
// Transport::patience_ns().
#ifndef URMA_PROVIDERS_SHM_PATIENCE_H_
#define URMA_PROVIDERS_SHM_PATIENCE_H_

#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace urma::shm {

// For bytes that an owner may have to move: at most as many as the machine has memory, whatever the
// owner says of its segment.
inline uint64_t moving_ns(uint64_t bytes) {
  constexpr uint64_t kNsPerByte = 10;
  static const uint64_t memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(bytes, memory) * kNsPerByte;
}

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_PATIENCE_H_
