// SPDX-License-Identifier: MIT
//
// Freezing of pages through userfaultfd: an access to a frozen page, by any thread or by the kernel
// on behalf of one, sleeps until the page is thawed.
//
// Between the first freeze and the last thaw a thread of the program may sleep while it holds any
// lock, that of malloc among them. So the code in between makes raw system calls only, and reads
// and writes only its own stack.
#ifndef SEGMENT_INPLACE_FREEZE_H_
#define SEGMENT_INPLACE_FREEZE_H_

#include <cstdint>

#include "segment/inplace/raw_syscall.h"
#include "segment/kernel_abi.h"
#include "urma/base/fd.h"

namespace urma {

// The steps of a switch at which a kernel can refuse.
enum class FreezeStep : uint8_t {
  kNone,
  kOpen,
  kRegister,
  kRegisterScratch,
  kMove,
  kScan,
  kWrite,
  kMap,
  kPark,
  kSpare,
  kSwap,
  kCopy,
  kUndo,
};

// For tests: in each chunk the call number `skip` of `step` fails with `error`, once; the first
// calls that undo what was done fail with `undo_error`.
struct FailPoint {
  FreezeStep step = FreezeStep::kNone;
  int error = 0;
  uint32_t skip = 0;
  int undo_error = 0;
  uint32_t undo_calls = 0;
};

// Memory that was only read holds the page of zeros: it has no contents, but a write to it does not
// fault as one to an absent page does, so it does not sleep.
enum class Pages { kThere, kWithContents };

// The system calls of one switch. Lives on the stack.
class FreezeCalls {
 public:
  FreezeCalls(int uffd, int pagemap, FailPoint fail)
      : uffd_(uffd), pagemap_(pagemap), fail_(fail) {}

  template <typename... Args>
  long call(FreezeStep step, long number, Args... args) {
    if (fail_.error != 0 && step == fail_.step && fail_.skip-- == 0) {
      fail_.step = FreezeStep::kNone;
      return -fail_.error;
    }
    if (step == FreezeStep::kUndo && fail_.undo_calls > 0) {
      --fail_.undo_calls;
      return -fail_.undo_error;
    }
    return raw_syscall(number, args...);
  }

  // Afterwards an access to an absent page sleeps.
  long freeze_absent(FreezeStep step, uint64_t va, uint64_t len);
  // Undoes it, and wakes all threads that sleep.
  void thaw(uint64_t va, uint64_t len);
  void wake(uint64_t va, uint64_t len);

  // Moves the pages of [src, src + len), which need not all exist, to `dst`, where an access to an
  // absent page must sleep. *moved is how far it came. Returns 0 or -errno: -EBUSY if something
  // else holds a page.
  long move_pages(FreezeStep step, uint64_t dst, uint64_t src, uint64_t len, uint64_t* moved);
  // The regions of such pages in [va, end), as many as fit. *next is where to go on. Returns the
  // number, or -errno.
  long scan(Pages which, uint64_t va, uint64_t end, kernel::PageRegion* regions, uint32_t count,
            uint64_t* next);
  // Writes the pages of [va, va + len) that have contents. Returns 0 or -errno.
  long write_contents(uint64_t va, uint64_t len, int fd, uint64_t offset);

 private:
  const int uffd_;
  const int pagemap_;
  FailPoint fail_;
};

// A userfaultfd that also holds accesses by the kernel. The error is EPERM without the right to
// have one, and EINVAL if the kernel lacks the feature.
class UserFault {
 public:
  // `features` are UFFD_FEATURE_*.
  explicit UserFault(uint64_t features);
  int fd() const { return fd_.get(); }
  int error() const { return error_; }  // 0, or an errno

 private:
  Fd fd_;
  int error_ = 0;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_FREEZE_H_
