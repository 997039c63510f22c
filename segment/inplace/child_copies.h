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
  // Makes the pipe for the next fork, unless there is one or no descriptor is left. It is made
  // early, so that a program at its limit of descriptors has it.
  void prepare();
  // Call when no fork is expected.
  void drop();

  // After the fork. Without a pipe there is no wait. Until the child has its copies the object is
  // not written: it may lie in shared pages.
  void wait_in_parent(uint64_t limit_ns);
  // The child has its copies.
  void say_in_child();
  // Closes, in the child, the parent's descriptors, except the one that tells the parent.
  void close_in_child() const;

  // Whether a child that is no longer waited for still lacks its copies.
  bool any_missing() const;

 private:
  Fd told_;
  Fd tell_;
  // Pipes of children that are no longer waited for.
  mutable std::array<Fd, 16> late_;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_CHILD_COPIES_H_
