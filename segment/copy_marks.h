// SPDX-License-Identifier: MIT
//
// The writes to the memory of other processes that the threads of a process make through the
// kernel, which nobody can stop: an owner that has unregistered memory waits for their end before
// its program uses the memory for something else.
#ifndef SEGMENT_COPY_MARKS_H_
#define SEGMENT_COPY_MARKS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "urma/base/cache_line.h"

namespace urma {

// In memory that the writing process shows to its peers.
class alignas(kCacheLine) CopyMarks {
 public:
  static constexpr size_t kPlaces = 16;
  using Counts = std::array<uint32_t, kPlaces>;

  // Stands while a write lasts. After it was set, and before the write, the writer looks whether
  // the registration stands.
  class Mark {
   public:
    explicit Mark(CopyMarks* marks);
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    std::atomic<uint32_t>* place_ = nullptr;
  };

  // After a registration has ended: returns once all writes have ended that were under way, except
  // those that *given_up names. If some have not ended at `deadline_ns`, names them there and
  // returns false. The counts may be false.
  bool await(uint64_t deadline_ns, Counts* given_up) const;

 private:
  std::array<std::atomic<uint32_t>, kPlaces> counts_;  // odd: a write is under way
};
static_assert(sizeof(CopyMarks) == kCacheLine && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace urma

#endif  // SEGMENT_COPY_MARKS_H_
