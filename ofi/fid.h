/* SPDX-License-Identifier: MIT */

// The common parts of libfabric's objects: their head, and unsupported operations.

#ifndef OFI_FID_H
#define OFI_FID_H

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <atomic>

namespace urma_fi {

// Any unsupported operation.
template <typename Result, typename... Arguments>
Result refuse(Arguments...) {
  return static_cast<Result>(-FI_ENOSYS);
}

// The object whose first member is `head`.
template <typename Object, typename Fid>
Object* object_of(fid* head) {
  return static_cast<Object*>(reinterpret_cast<Fid*>(head));
}

// Counts the objects that need this one; they must be closed first.
class Needed {
 public:
  void take() { count_.fetch_add(1, std::memory_order_relaxed); }
  // Release pairs with the acquire of in_use: a closer sees everything that the users did.
  void drop() { count_.fetch_sub(1, std::memory_order_release); }
  bool in_use() const { return count_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<int> count_{0};
};

}  // namespace urma_fi

#endif  // OFI_FID_H
