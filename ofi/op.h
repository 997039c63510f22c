/* SPDX-License-Identifier: MIT */

// Work requests in flight, and the pool they come from.

#ifndef OFI_OP_H
#define OFI_OP_H

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace urma_fi {

class Cntr;
class OpPool;

// A request, from its post until its completion record, which carries its address.
struct Op {
  OpPool* pool;
  Op* next;  // while it is free
  void* context;
  void* buffer;       // of a receive
  uint64_t flags;     // of the completion
  Cntr* counter;      // may be NULL
  bool report;        // report success
  bool silent;        // report no failure either: it has no context that the caller would know
  uint64_t unwanted;  // the result of an atomic request whose caller wants none
};

// One entry for each request that a queue has room for.
class OpPool {
 public:
  void make(size_t count) {
    ops_.resize(count);
    for (Op& op : ops_) {
      op.pool = this;
      op.next = free_;
      free_ = &op;
    }
  }

  // NULL: the queue is full.
  Op* take() {
    std::lock_guard lock(mutex_);
    Op* op = free_;
    if (op != nullptr) free_ = op->next;
    return op;
  }

  void put(Op* op) {
    std::lock_guard lock(mutex_);
    op->next = free_;
    free_ = op;
  }

  size_t free() {
    std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const Op* op = free_; op != nullptr; op = op->next) count++;
    return count;
  }

  std::span<Op> all() { return ops_; }

  void clear() {
    free_ = nullptr;
    ops_.clear();
  }

 private:
  std::mutex mutex_;
  Op* free_ = nullptr;
  std::vector<Op> ops_;
};

}  // namespace urma_fi

#endif  // OFI_OP_H
