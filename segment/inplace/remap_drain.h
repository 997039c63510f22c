// SPDX-License-Identifier: MIT
//
// mremap() of memory that a userfaultfd watches returns once somebody has read the event of it.
#ifndef SEGMENT_INPLACE_REMAP_DRAIN_H_
#define SEGMENT_INPLACE_REMAP_DRAIN_H_

#include <optional>

#include "segment/inplace/quiet_thread.h"

namespace urma {

// Reads all events of a userfaultfd on a thread of its own while it lives.
class RemapDrain {
 public:
  // `uffd` must be non-blocking. Throws Error where there is no thread to be had.
  // `stop` is an eventfd, and is as it was afterwards.
  RemapDrain(int uffd, int stop);
  RemapDrain(const RemapDrain&) = delete;
  RemapDrain& operator=(const RemapDrain&) = delete;
  ~RemapDrain();

 private:
  struct Mailbox;
  static void* run(void* mailbox);

  const int stop_;
  std::optional<QuietThread> thread_;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_REMAP_DRAIN_H_
