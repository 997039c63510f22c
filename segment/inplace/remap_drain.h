// SPDX-License-Identifier: MIT
//
// mremap() of memory that a userfaultfd watches returns once the event of it has been read.
#ifndef SEGMENT_INPLACE_REMAP_DRAIN_H_
#define SEGMENT_INPLACE_REMAP_DRAIN_H_

#include <optional>

#include "segment/inplace/quiet_thread.h"

namespace urma {

// Reads all events of a userfaultfd on a thread of its own while it lives.
class RemapDrain {
 public:
  // `uffd` must be non-blocking. `stop` is an eventfd, and is unchanged afterwards. Throws Error
  // if no thread can be started.
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
