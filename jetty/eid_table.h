// SPDX-License-Identifier: MIT
#ifndef JETTY_EID_TABLE_H_
#define JETTY_EID_TABLE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "jetty/network.h"
#include "urma_types.h"

namespace urma {

// The EIDs of a device, by index. They only become more: any thread reads while one adds.
class EidTable {
 public:
  EidTable() = default;
  explicit EidTable(const urma_eid_t& only) { add(only); }
  EidTable(const EidTable&) = delete;
  EidTable& operator=(const EidTable&) = delete;

  std::span<const urma_eid_t> all() const {
    // Acquire pairs with the release in add().
    return {eids_.data(), count_.load(std::memory_order_acquire)};
  }
  bool has(const urma_eid_t& eid) const {
    return std::ranges::any_of(all(), [&](const urma_eid_t& own) { return same_eid(own, eid); });
  }
  // False if it is full.
  bool add(const urma_eid_t& eid) {
    // Relaxed: only the thread that adds writes it.
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count == eids_.size()) return false;
    eids_[count] = eid;
    // Release pairs with the acquire in all().
    count_.store(count + 1, std::memory_order_release);
    return true;
  }

 private:
  std::vector<urma_eid_t> eids_ = std::vector<urma_eid_t>(URMA_MAX_EID_CNT);
  std::atomic<size_t> count_{0};
};

}  // namespace urma

#endif  // JETTY_EID_TABLE_H_
