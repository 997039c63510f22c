// SPDX-License-Identifier: MIT
//
// Spreads over time what others ask for and what costs this process more than them.
#ifndef URMA_BASE_PACE_H_
#define URMA_BASE_PACE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace urma {

// Each asker has `burst` turns at once, and gets one more per interval. Not thread-safe.
class Pace {
 public:
  Pace(uint64_t burst, uint64_t interval_ns)
      : burst_ns_((burst - 1) * interval_ns), interval_ns_(interval_ns) {}

  // When a turn that is asked for now is due: `now_ns`, or later.
  uint64_t due(int64_t asker, uint64_t now_ns) {
    std::erase_if(rested_at_, [&](const auto& entry) { return entry.second <= now_ns; });
    const auto [entry, rested] = rested_at_.try_emplace(asker, now_ns);
    const uint64_t before = entry->second;
    entry->second = before + interval_ns_;
    return std::max(now_ns, before - std::min(before, burst_ns_));
  }
  // Askers that are remembered: those that do not have all turns of a burst again.
  size_t askers() const { return rested_at_.size(); }

 private:
  const uint64_t burst_ns_;
  const uint64_t interval_ns_;
  std::unordered_map<int64_t, uint64_t> rested_at_;  // when an asker has its whole burst again
};

}  // namespace urma

#endif  // URMA_BASE_PACE_H_
