// SPDX-License-Identifier: MIT
//
// Whether the children of forks have their copies of shared pages yet: a pipe for each child, which
// closes when it dies.
#ifndef SEGMENT_INPLACE_CHILD_COPIES_H_
#define SEGMENT_INPLACE_CHILD_COPIES_H_

#include <array>
#include <cstdint>

#include "urma/base/fd.h"

namespace urma {

// Not thread-safe.
class ChildCopies {
 public:
  // Makes the pipe for the next fork, unless there is one or there are no descriptors for it. Made
  // early, it is there when the program has come to its limit.
  void prepare();
  // Without forks in sight.
  void drop();

  // After the fork. Without a pipe nobody waits. Until the child has its copies nothing of the
  // object is written: it may lie in shared pages.
  void wait_in_parent(uint64_t limit_ns);
  // The child has its copies.
  void say_in_child();
  // Closes, in the child, what came from the parent but for the way to tell it.
  void close_in_child() const;

  // Whether a child that was not waited for any longer has none yet.
  bool any_missing() const;

 private:
  Fd told_;
  Fd tell_;
  // Of children that were not waited for any longer.
  mutable std::array<Fd, 16> late_;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_CHILD_COPIES_H_
