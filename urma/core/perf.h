// SPDX-License-Identifier: MIT
//
// Looks at the calls of the data path: how long they take, while urma_start_perf is in force, and
// what becomes of their requests, where there is a timeline. Otherwise a call costs one load and
// one branch more.
#ifndef URMA_CORE_PERF_H_
#define URMA_CORE_PERF_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "urma/base/clock.h"
#include "urma/core/trace.h"
#include "urma_perf.h"

namespace urma::core::perf {

enum Watcher : uint8_t { kMeasures = 1, kTraces = 2 };

// Who wants to know of calls.
extern std::atomic<uint8_t> watchers;
void add_watcher(Watcher watcher);
void remove_watcher(Watcher watcher);

// Forgets what was measured and starts again.
void start();
void stop();
void record(urma_perf_record_type_t type, uint64_t ns);
// The results as a table.
std::string table();

// Takes the operation and its arguments as they are, so that the short path need not prepare
// anything for this one.
template <urma_perf_record_type_t Type, typename Op, typename... Args>
[[gnu::noinline]] auto watched(Op op, Args... args) {
  struct Stopwatch {
    bool runs = (watchers.load(std::memory_order_relaxed) & kMeasures) != 0;
    uint64_t start = runs ? monotonic_ns() : 0;
    ~Stopwatch() {
      if (runs) record(Type, monotonic_ns() - start);
    }
  } stopwatch;
  // Also for a call that began before there was a timeline: it is put down nowhere.
  return trace::call(op, args...);
}

// Calls a slot of the data path. These do not throw; where one does all the same, the program ends
// here instead of carrying the exception into C code.
template <urma_perf_record_type_t Type, typename Op, typename... Args>
inline auto call(Op op, Args... args) noexcept {
  if (watchers.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    return watched<Type>(op, args...);
  }
  return op(args...);
}

}  // namespace urma::core::perf

#endif  // URMA_CORE_PERF_H_
