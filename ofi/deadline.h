/* SPDX-License-Identifier: MIT */

// Waiting for a descriptor, for as long as a caller of libfabric allows.

#ifndef OFI_DEADLINE_H
#define OFI_DEADLINE_H

#include <poll.h>

#include <algorithm>
#include <chrono>

namespace urma_fi {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  // In milliseconds; negative: none.
  explicit Deadline(int timeout)
      : endless_(timeout < 0),
        end_(Clock::now() + std::chrono::milliseconds(std::max(timeout, 0))) {}

  // False: the time is over.
  bool wait_for(int fd) const {
    pollfd waiting = {fd, POLLIN, 0};
    return poll(&waiting, 1, left()) != 0;
  }

  bool is_over() const { return left() == 0; }

 private:
  int left() const {
    if (endless_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
    return static_cast<int>(std::max<long long>(left.count(), 0));
  }

  bool endless_;
  Clock::time_point end_;
};

}  // namespace urma_fi

#endif  // OFI_DEADLINE_H
