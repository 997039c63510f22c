// SPDX-License-Identifier: MIT
#include "segment/copy_marks.h"

#include <sched.h>

#include "urma/base/clock.h"

namespace urma {

// More threads than places wait for each other.
CopyMarks::Mark::Mark(CopyMarks* marks) {
  for (size_t at = 0; place_ == nullptr; at = (at + 1) % kPlaces) {
    std::atomic<uint32_t>& place = marks->counts_[at];
    uint32_t count = place.load(std::memory_order_relaxed);
    // Relaxed: a place is only changed by read-modify-write operations, so that the acquire in
    // await() pairs with every release in ~Mark before what it reads.
    if (count % 2 == 0 &&
        place.compare_exchange_strong(count, count + 1, std::memory_order_relaxed)) {
      place_ = &place;
    } else if (at + 1 == kPlaces) {
      ::sched_yield();
    }
  }
  // SYNC(copy-mark): the mark was set before the look at the registration; pairs with the fence in
  // await(). Either the owner sees the mark, or this thread that the registration has ended.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Release pairs with the acquire in await(): the owner's program stores after what was written.
CopyMarks::Mark::~Mark() { place_->fetch_add(1, std::memory_order_release); }

bool CopyMarks::await(uint64_t deadline_ns, Counts* given_up) const {
  // SYNC(copy-mark): the registration has ended before this look at the marks; pairs with the fence
  // in Mark.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool all = true;
  for (size_t at = 0; at < kPlaces; ++at) {
    // Acquire, here and below, pairs with the release in ~Mark.
    const uint32_t count = counts_[at].load(std::memory_order_acquire);
    if (count % 2 == 0 || count == (*given_up)[at]) continue;
    while (counts_[at].load(std::memory_order_acquire) == count) {
      if (monotonic_ns() >= deadline_ns) {
        (*given_up)[at] = count;
        all = false;
        break;
      }
      ::sched_yield();
    }
  }
  return all;
}

}  // namespace urma
