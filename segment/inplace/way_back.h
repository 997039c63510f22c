// SPDX-License-Identifier: MIT
//
// What is needed to make shared pages private again. It is kept while any page is shared: by then
// the process may have given up its rights, or have reached its limit of descriptors.
#ifndef SEGMENT_INPLACE_WAY_BACK_H_
#define SEGMENT_INPLACE_WAY_BACK_H_

#include <memory>

#include "segment/inplace/freeze.h"
#include "urma/base/fd.h"

namespace urma {

class WayBack {
 public:
  // NULL with errno.
  static std::unique_ptr<WayBack> make();

  int uffd() const { return fault_.fd(); }
  // An eventfd that tells a RemapDrain to stop.
  int stop_fd() const { return stop_.get(); }
  int status_fd() const { return status_.get(); }
  // Whether some pages of the process, not known which, are held.
  bool pages_are_pinned() const;

 private:
  WayBack();

  UserFault fault_;
  Fd stop_;
  Fd status_;  // /proc/self/status
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_WAY_BACK_H_
