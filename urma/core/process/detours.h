// SPDX-License-Identifier: MIT
//
// The reasons why calls of the data path do not go straight to their provider, in one word: those
// that do check only this.
#ifndef URMA_CORE_PROCESS_DETOURS_H_
#define URMA_CORE_PROCESS_DETOURS_H_

#include <atomic>
#include <cstdint>

namespace urma::core {

enum Detour : uint8_t { kMeasured = 1, kTraced = 2, kForked = 4 };

// Relaxed, unless a comment says otherwise: a call that does not see it yet goes straight to its
// provider.
inline constinit std::atomic<uint8_t> detours{0};

inline bool has_detours() { return detours.load(std::memory_order_relaxed) != 0; }
inline void begin_detour(Detour why) {
  // Release pairs with the acquire in perf::watched(): who measures sees the round that began.
  detours.fetch_or(why, std::memory_order_release);
}
inline void end_detour(Detour why) {
  detours.fetch_and(static_cast<uint8_t>(~why), std::memory_order_relaxed);
}

// True in a child that was forked while the library was in use: the objects it inherited are its
// parent's, and every call fails there like an unsupported operation.
inline bool is_forked() { return (detours.load(std::memory_order_relaxed) & kForked) != 0; }

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_DETOURS_H_
