// SPDX-License-Identifier: MIT
//
// Whether a thread that waits for events looks for them itself before it sleeps. That is much
// faster if the next event comes sooner than the kernel could wake the thread up, and a waste of
// the processor otherwise.
#ifndef JETTY_BUSY_POLL_H_
#define JETTY_BUSY_POLL_H_

#include <algorithm>
#include <cstdint>

namespace urma {

// One thread at a time. After each look that finds nothing, more waits pass before the next look:
// 1, 2, 4 and so on. A look that finds something is followed by a look at the next wait. What is
// there at once says nothing of what comes next, and is no look.
class BusyPoll {
 public:
  // Looks last `limit_ns` at most; 0: there are none.
  explicit BusyPoll(uint64_t limit_ns) : limit_ns_(limit_ns) {}

  // Called once for each wait.
  bool is_due() {
    if (limit_ns_ == 0) return false;
    if (left_ == 0) return true;
    --left_;
    return false;
  }

  void begin(uint64_t now) { began_ = last_ = now; }
  // Whether the look goes on. Not if this thread seems to have lost its processor meanwhile: then
  // others need it. A copy takes less.
  bool goes_on(uint64_t now) {
    interrupted_ = now - last_ > kInterruptedNs;
    last_ = now;
    return !interrupted_ && now - began_ < limit_ns_;
  }
  void end(bool found) {
    if (interrupted_) {
      pause_ = kLongestPause;
    } else {
      pause_ = found ? 0 : std::clamp(2 * pause_, 1U, kLongestPause);
    }
    left_ = pause_;
    interrupted_ = false;
  }

 private:
  static constexpr uint32_t kLongestPause = 256;
  static constexpr uint64_t kInterruptedNs = 500'000;

  const uint64_t limit_ns_;
  uint64_t began_ = 0;
  uint64_t last_ = 0;
  bool interrupted_ = false;
  uint32_t pause_ = 0;
  uint32_t left_ = 0;
};

}  // namespace urma

#endif  // JETTY_BUSY_POLL_H_
