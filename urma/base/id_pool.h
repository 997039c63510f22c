// SPDX-License-Identifier: MIT
#ifndef URMA_BASE_ID_POOL_H_
#define URMA_BASE_ID_POOL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "urma/base/mutex.h"

namespace urma {

// Token ids: the numbers 1..max, handed out in turn, so that a freed one is reused as late as
// possible.
class IdPool {
 public:
  explicit IdPool(uint32_t max) : used_(max + 1), max_(max) {}

  // Nothing if all are in use.
  std::optional<uint32_t> take() {
    const MutexLock lock(mutex_);
    if (in_use_ == max_) return std::nullopt;
    do {
      last_ = last_ % max_ + 1;
    } while (used_[last_]);
    used_[last_] = true;
    ++in_use_;
    return last_;
  }

  void give_back(uint32_t number) {
    const MutexLock lock(mutex_);
    if (number == 0 || number > max_ || !used_[number]) return;
    used_[number] = false;
    --in_use_;
  }

 private:
  Mutex mutex_;
  std::vector<bool> used_ URMA_GUARDED_BY(mutex_);
  const uint32_t max_;
  uint32_t in_use_ URMA_GUARDED_BY(mutex_) = 0;
  uint32_t last_ URMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace urma

#endif  // URMA_BASE_ID_POOL_H_
