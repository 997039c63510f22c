// SPDX-License-Identifier: MIT
//
// What queues count while they work, for urma_ext_query_queues.
#ifndef JETTY_COUNTERS_H_
#define JETTY_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <span>

#include "urma/base/cache_line.h"
#include "urma_ext.h"
#include "urma_opcode.h"

namespace urma {

// Written by one thread at a time, which holds the lock of the queue; read by any thread. Relaxed:
// a count orders nothing else.
class Counter {
 public:
  [[gnu::always_inline]] void add(uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  // For counts that several threads may add to at once.
  void add_shared(uint64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The members that the short path writes come first, in one cache line.
struct alignas(kCacheLine) QueueCounters {
  Counter posts;    // without those in `at_once`
  Counter at_once;  // requests that had ended with success when their post returned
  Counter bytes;
  std::array<Counter, URMA_EXT_MAX_STATUS> by_status;
  Counter refused;
  Counter rnr;
  Counter wakeups;

  // A request, or a receive, has ended.
  [[gnu::always_inline]] void ended(urma_cr_status_t status, uint64_t moved) {
    if (status != URMA_CR_SUCCESS) [[unlikely]]
      return failed(status);
    by_status[URMA_CR_SUCCESS].add(1);
    bytes.add(moved);
  }
  // A request ended with success when it was posted.
  [[gnu::always_inline]] void executed(uint64_t moved) {
    at_once.add(1);
    bytes.add(moved);
  }
  [[gnu::cold, gnu::noinline]] void failed(urma_cr_status_t status) {
    by_status[static_cast<uint32_t>(status) % by_status.size()].add(1);
  }
  // Records that a poll hands out.
  void polled(std::span<const urma_cr_t> records) {
    uint64_t failures = 0;
    for (const urma_cr_t& record : records) {
      if (record.status == URMA_CR_SUCCESS) [[likely]]
        continue;
      failed(record.status);
      ++failures;
    }
    by_status[URMA_CR_SUCCESS].add(records.size() - failures);
  }

  void report(urma_ext_queue_t* queue) const {
    const uint64_t ended_at_once = at_once.get();
    queue->posts = posts.get() + ended_at_once;
    queue->refused = refused.get();
    queue->bytes = bytes.get();
    queue->rnr = rnr.get();
    queue->wakeups = wakeups.get();
    for (size_t i = 0; i < by_status.size(); ++i) queue->by_status[i] = by_status[i].get();
    queue->by_status[URMA_CR_SUCCESS] += ended_at_once;
    queue->completions =
        std::accumulate(std::begin(queue->by_status), std::end(queue->by_status), uint64_t{0});
  }
};

}  // namespace urma

#endif  // JETTY_COUNTERS_H_
