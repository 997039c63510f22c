// SPDX-License-Identifier: MIT
//
// How one process inspects another: a connection to the socket "SLOT.core" in the runtime
// directory, one request, one answer. The answer carries a sealed memfd with the records, so that a
// slow reader blocks no one.
#ifndef URMA_CORE_PROCESS_INSPECT_PROTOCOL_H_
#define URMA_CORE_PROCESS_INSPECT_PROTOCOL_H_

#include <fcntl.h>

#include <cstdint>

namespace urma::core {

// In the socket's name, in place of a provider's name.
inline constexpr char kInspectName[] = "core";
inline constexpr uint32_t kInspectMagic = 0x75727669;
// Changes whenever a record of urma_ext.h does.
inline constexpr uint32_t kInspectVersion = 2;

enum class Topic : uint32_t {
  kQueues = 1,
  kSegments = 2,
  kSettings = 3,
  kProviders = 4,
  kPerfStart = 5,
  kPerfStop = 6,
  kPerfShow = 7,
  kConnections = 8,
};

struct InspectRequest {
  uint32_t magic;
  uint32_t version;
  Topic topic;
  uint32_t reserved;
};

enum class InspectResult : uint32_t { kDone = 0, kOtherVersion = 1, kNoResources = 2 };

struct InspectAnswer {
  uint32_t magic;
  uint32_t version;
  Topic topic;
  InspectResult result;
  uint32_t record_bytes;
  uint32_t count;  // of records; 0: no memfd
};

// Limit for both sides, and for what a process lists of itself.
inline constexpr uint64_t kMaxInspectBytes = 256 << 20;
inline constexpr int kInspectSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_INSPECT_PROTOCOL_H_
