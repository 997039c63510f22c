// SPDX-License-Identifier: MIT
//
// Bells: how a process tells its peers that one of its JFCs waits for an event. Peers map them
// read-only, look at them after they publish something, and wake the process only if a bell is
// set.
#ifndef SEGMENT_BELLS_H_
#define SEGMENT_BELLS_H_

#include <atomic>
#include <cstdint>

#include "urma/base/cache_line.h"

namespace urma {

enum class Armed : uint32_t { kNo = 0, kForAny = 1, kForSolicited = 2 };

// Of one JFC. Has a cache line of its own, so that arming other JFCs does not disturb those who
// look at it.
struct alignas(kCacheLine) Bell {
  std::atomic<Armed> armed;
};
static_assert(sizeof(Bell) == kCacheLine && std::atomic<Armed>::is_always_lock_free);

// The number of bells of a process; the low bits of a JFC's id say which is its own.
inline constexpr uint32_t kBells = 65536;
inline constexpr uint32_t kNoBell = UINT32_MAX;

// Whether the event of a completion, solicited (or failed) or not, is waited for.
inline bool wanted(Armed armed, bool solicited) {
  return armed == Armed::kForAny || (armed == Armed::kForSolicited && solicited);
}

}  // namespace urma

#endif  // SEGMENT_BELLS_H_
