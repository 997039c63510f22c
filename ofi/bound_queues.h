/* SPDX-License-Identifier: MIT */

// The completion queues that an endpoint is bound to.

#ifndef OFI_BOUND_QUEUES_H
#define OFI_BOUND_QUEUES_H

#include <cstdint>

namespace urma_fi {

class Cq;

class BoundQueues {
 protected:
  // One queue for each direction in `flags`. Returns 0 or -FI_EINVAL, with nothing bound.
  int bind_queue(Cq* cq, uint64_t flags);
  // For the end of the endpoint.
  void drop_bound_queues();

  Cq* send_cq_ = nullptr;
  Cq* receive_cq_ = nullptr;
  bool report_sends_ = true;     // those without FI_COMPLETION too
  bool report_receives_ = true;  // likewise
};

}  // namespace urma_fi

#endif  // OFI_BOUND_QUEUES_H
