// SPDX-License-Identifier: MIT
//
// A timeline of work requests in the format that Chrome and Perfetto read, in the file that
// URMA_TRACE names. The threads that post and poll record what they do in their own buffers; the
// service thread writes them out.
#ifndef URMA_CORE_PROCESS_TRACE_H_
#define URMA_CORE_PROCESS_TRACE_H_

#include <cstdint>
#include <string>

#include "urma/base/service.h"
#include "urma_types.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "urma/base/clock.h"
#endif

namespace urma::core::trace {

// Begins a timeline. There is none without a name, or if the file cannot be made, which is logged.
// Both are for urma_init and urma_uninit.
void start(const std::string& file, Service* service);
void stop();

// The cheapest clock; its rate is measured as time passes.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return monotonic_ns();
#endif
}

// A chain of requests was posted, up to `end`, by a call that began at `began`.
void posted(const urma_jfs_t* jfs, const urma_jfs_wr_t* wr, const urma_jfs_wr_t* end,
            uint64_t began);
void posted(const urma_jetty_t* jetty, const urma_jfs_wr_t* wr, const urma_jfs_wr_t* end,
            uint64_t began);
// Records were polled.
void polled(const urma_cr_t* records, int count);

// Makes the call, and records its result.
template <typename Op, typename... Args>
inline auto call(Op op, Args... args) {
  return op(args...);
}

template <typename Op, typename Queue>
inline urma_status_t call(Op op, Queue* queue, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) {
  const uint64_t began = ticks();
  const urma_status_t status = op(queue, wr, bad_wr);
  posted(queue, wr, status == URMA_SUCCESS ? nullptr : *bad_wr, began);
  return status;
}

template <typename Op>
inline int call(Op op, urma_jfc_t* jfc, int count, urma_cr_t* records) {
  const int got = op(jfc, count, records);
  if (got > 0) polled(records, got);
  return got;
}

}  // namespace urma::core::trace

#endif  // URMA_CORE_PROCESS_TRACE_H_
