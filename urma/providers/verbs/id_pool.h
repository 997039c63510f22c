// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_ID_POOL_H_
#define URMA_PROVIDERS_VERBS_ID_POOL_H_

#include <cstdint>
#include <unordered_set>

#include "urma/base/mutex.h"

namespace urma::verbs {

// The indices of one kind of object, 1..65535. Freed ones are handed out again as late as
// possible, so that a stale id meets nobody. Thread-safe.
class IdPool {
 public:
  // 0 where none is left.
  uint16_t take() {
    const MutexLock lock(mutex_);
    if (taken_.size() == UINT16_MAX) return 0;
    do {
      last_ = last_ == UINT16_MAX ? 1 : static_cast<uint16_t>(last_ + 1);
    } while (!taken_.insert(last_).second);
    return last_;
  }
  void free(uint16_t index) {
    const MutexLock lock(mutex_);
    taken_.erase(index);
  }

 private:
  Mutex mutex_;
  std::unordered_set<uint16_t> taken_ URMA_GUARDED_BY(mutex_);
  uint16_t last_ URMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_ID_POOL_H_
