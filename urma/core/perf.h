// SPDX-License-Identifier: MIT
//
// Measures the calls of the data path while urma_start_perf is in force. Otherwise a call costs one
// load and one branch more.
#ifndef URMA_CORE_PERF_H_
#define URMA_CORE_PERF_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "urma/base/clock.h"
#include "urma_perf.h"

namespace urma::core::perf {

extern std::atomic<bool> measuring;

// Forgets what was measured and starts again.
void start();
void stop();
void record(urma_perf_record_type_t type, uint64_t ns);
// The results as a table.
std::string table();

// Takes the operation and its arguments as they are, so that the short path need not prepare
// anything for this one.
template <urma_perf_record_type_t Type, typename Op, typename... Args>
[[gnu::noinline]] auto measured(Op op, Args... args) {
  struct Stopwatch {
    uint64_t start = monotonic_ns();
    ~Stopwatch() { record(Type, monotonic_ns() - start); }
  } stopwatch;
  return op(args...);
}

// Calls a slot of the data path. These do not throw; where one does all the same, the program ends
// here instead of carrying the exception into C code.
template <urma_perf_record_type_t Type, typename Op, typename... Args>
inline auto call(Op op, Args... args) noexcept {
  if (measuring.load(std::memory_order_relaxed)) [[unlikely]] {
    return measured<Type>(op, args...);
  }
  return op(args...);
}

}  // namespace urma::core::perf

#endif  // URMA_CORE_PERF_H_
