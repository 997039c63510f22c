/* SPDX-License-Identifier: MIT */

// The completion queues and counters that an endpoint is bound to.

#ifndef OFI_BOUND_QUEUES_H
#define OFI_BOUND_QUEUES_H

#include <array>
#include <cstdint>
#include <utility>

namespace urma_fi {

class Cntr;
class Cq;

class BoundQueues {
 protected:
  // NULL: not counted.
  struct Counters {
    Cntr* send = nullptr;
    Cntr* receive = nullptr;
    Cntr* read = nullptr;
    Cntr* write = nullptr;
  };

  // One queue for each direction in `flags`. Returns 0 or -FI_EINVAL, with nothing bound.
  int bind_queue(Cq* cq, uint64_t flags);
  // One counter for each kind of request in `flags`; others than `known` are refused. Returns 0 or
  // a negative code, with nothing bound.
  int bind_counter(Cntr* cntr, uint64_t flags, uint64_t known);
  // The next two need the lock of the domain free: counters take it while they hold their own.
  // Has the counters count what completes at the queues, once the endpoint is enabled.
  void start_counters();
  // For the end of the endpoint.
  void drop_bound_queues();

  Cq* send_cq_ = nullptr;
  Cq* receive_cq_ = nullptr;
  bool report_sends_ = true;     // those without FI_COMPLETION too
  bool report_receives_ = true;  // likewise
  Counters counters_;

 private:
  std::array<std::pair<Cntr*, Cq*>, 4> counted() const;

  bool counting_ = false;
};

}  // namespace urma_fi

#endif  // OFI_BOUND_QUEUES_H
