/* SPDX-License-Identifier: MIT */

#include "ofi/bound_queues.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "ofi/cq.h"

namespace urma_fi {

int BoundQueues::bind_queue(Cq* cq, uint64_t flags) {
  const bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  if ((flags & (FI_TRANSMIT | FI_RECV)) == 0) return -FI_EINVAL;
  if (((flags & FI_TRANSMIT) != 0 && send_cq_ != nullptr) ||
      ((flags & FI_RECV) != 0 && receive_cq_ != nullptr)) {
    return -FI_EINVAL;
  }
  if ((flags & FI_TRANSMIT) != 0) {
    send_cq_ = cq;
    report_sends_ = !selective;
    cq->users.take();
  }
  if ((flags & FI_RECV) != 0) {
    receive_cq_ = cq;
    report_receives_ = !selective;
    cq->users.take();
  }
  return 0;
}

void BoundQueues::drop_bound_queues() {
  for (Cq* cq : {send_cq_, receive_cq_})
    if (cq != nullptr) cq->users.drop();
}

}  // namespace urma_fi
