// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_ID_POOL_H_
#define URMA_PROVIDERS_VERBS_ID_POOL_H_

#include <cstdint>
#include <mutex>
#include <unordered_set>

namespace urma::verbs {

// The indices of one kind of object, 1..65535. Freed ones are handed out again as late as
// possible, so that a stale id meets nobody. Thread-safe.
class IdPool {
 public:
  // 0 where none is left.
  uint16_t take() {
    const std::lock_guard lock(mutex_);
    if (taken_.size() == UINT16_MAX) return 0;
    do {
      last_ = last_ == UINT16_MAX ? 1 : static_cast<uint16_t>(last_ + 1);
    } while (!taken_.insert(last_).second);
    return last_;
  }
  void free(uint16_t index) {
    const std::lock_guard lock(mutex_);
    taken_.erase(index);
  }

 private:
  std::mutex mutex_;  // guards all below
  std::unordered_set<uint16_t> taken_;
  uint16_t last_ = 0;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_ID_POOL_H_
