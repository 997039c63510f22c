// SPDX-License-Identifier: MIT
//
// --rate_limit: how many requests may be posted now.
#ifndef TOOLS_PERFTEST_PACING_H_
#define TOOLS_PERFTEST_PACING_H_

#include <cstdint>

#include "tools/perftest/config.h"

namespace perftest {

class Pacer {
 public:
  // For requests of `bytes` bytes, counted over all jettys.
  Pacer(const Config& config, double bytes);

  // Releases a burst as a whole, and the next one when its time has come. A side that fell behind
  // does not catch up.
  uint64_t allowance(uint64_t now) {
    if (left_ == 0 && now >= next_) {
      left_ = burst_;
      next_ = (now - next_ > gap_ ? now : next_) + gap_;
    }
    return left_;
  }
  void took(uint64_t requests) { left_ -= requests; }

 private:
  uint64_t burst_;
  uint64_t gap_;  // between two bursts, in ticks
  uint64_t next_;
  uint64_t left_ = 0;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_PACING_H_
