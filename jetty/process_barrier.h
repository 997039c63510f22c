// SPDX-License-Identifier: MIT
//
// A memory barrier with all its cost on one side. Publishers store something and then look whether
// a thread waits for it, very often; waiters begin to wait and then look whether there is
// something, seldom. Each has to order its store before its load, or both miss each other. The
// waiting side makes the kernel execute a barrier in every other thread that takes part, in any
// process, so that the publishing side only has to keep the compiler from reordering.
#ifndef JETTY_PROCESS_BARRIER_H_
#define JETTY_PROCESS_BARRIER_H_

#include <atomic>

namespace urma {

// Enters this process; call before the two below. If the kernel refuses, both sides execute a
// fence each instead. Returns whether others need no fence for this process.
bool enter_process_barrier();

namespace internal {
extern std::atomic<bool> process_barrier;
}

// Between the publishing side's store and its load. `fence` if the waiting process or this one
// could not enter.
inline void light_barrier(bool fence) {
  if (fence) [[unlikely]] {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

// Whether this process has entered.
inline bool has_process_barrier() {
  // Relaxed: written once, before there is anything to wait for.
  return internal::process_barrier.load(std::memory_order_relaxed);
}

// Between the waiting side's store and its load. `fenced` if all publishers to it fence.
void heavy_barrier(bool fenced);

}  // namespace urma

#endif  // JETTY_PROCESS_BARRIER_H_
