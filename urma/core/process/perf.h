// SPDX-License-Identifier: MIT
//
// Observes the calls of the data path: how long they take, between urma_start_perf and
// urma_stop_perf, and what becomes of their requests, if there is a timeline. Otherwise a call
// costs one load and one branch more.
#ifndef URMA_CORE_PROCESS_PERF_H_
#define URMA_CORE_PROCESS_PERF_H_

#include <cstdint>
#include <string>

#include "urma/base/clock.h"
#include "urma/core/process/detours.h"
#include "urma/core/process/trace.h"
#include "urma_perf.h"

namespace urma::core::perf {

// Forgets what was measured and starts again.
void start();
void stop();
void record(urma_perf_record_type_t type, uint64_t ns);
// The results as a table.
std::string table();

// Takes the operation and its arguments unchanged, so that the short path prepares nothing for it.
template <urma_perf_record_type_t Type, typename Op, typename... Args>
[[gnu::noinline]] auto watched(Op op, Args... args) {
  struct Stopwatch {
    // Acquire pairs with the release in begin_detour().
    bool runs = (detours.load(std::memory_order_acquire) & kMeasured) != 0;
    uint64_t start = runs ? monotonic_ns() : 0;
    ~Stopwatch() {
      if (runs) record(Type, monotonic_ns() - start);
    }
  } stopwatch;
  // A call that began before there was a timeline is not recorded.
  return trace::call(op, args...);
}

// Calls a slot of the data path. These must not throw; if one does, the program ends here and the
// exception does not reach C code.
template <urma_perf_record_type_t Type, typename Op, typename... Args>
inline auto call(Op op, Args... args) noexcept {
  if (has_detours()) [[unlikely]] {
    return watched<Type>(op, args...);
  }
  return op(args...);
}

}  // namespace urma::core::perf

#endif  // URMA_CORE_PROCESS_PERF_H_
