/* SPDX-License-Identifier: MIT */

#include "ofi/bound_queues.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/log.h"

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

int BoundQueues::bind_counter(Cntr* cntr, uint64_t flags, uint64_t known) {
  if (flags == 0 || (flags & ~known) != 0) {
    URMA_FI_WARN(FI_LOG_EP_CTRL,
                 "counter flags %#llx are not supported; only sends and receives%s are counted\n",
                 static_cast<unsigned long long>(flags),
                 (known & FI_READ) != 0 ? ", reads and writes" : "");
    return -FI_ENOSYS;
  }
  const std::pair<uint64_t, Cntr**> places[] = {{FI_SEND, &counters_.send},
                                                {FI_RECV, &counters_.receive},
                                                {FI_READ, &counters_.read},
                                                {FI_WRITE, &counters_.write}};
  for (const auto& [flag, place] : places)
    if ((flags & flag) != 0 && *place != nullptr) return -FI_EINVAL;
  for (const auto& [flag, place] : places) {
    if ((flags & flag) == 0) continue;
    *place = cntr;
    cntr->users.take();
  }
  return 0;
}

// Each counter, which may be NULL, with the queue where its requests complete.
std::array<std::pair<Cntr*, Cq*>, 4> BoundQueues::counted() const {
  return {{{counters_.send, send_cq_},
           {counters_.receive, receive_cq_},
           {counters_.read, send_cq_},
           {counters_.write, send_cq_}}};
}

void BoundQueues::start_counters() {
  counting_ = true;
  for (const auto& [cntr, cq] : counted())
    if (cntr != nullptr) cntr->follow(cq);
}

void BoundQueues::drop_bound_queues() {
  for (const auto& [cntr, cq] : counted()) {
    if (cntr == nullptr) continue;
    if (counting_) cntr->leave(cq);
    cntr->users.drop();
  }
  for (Cq* cq : {send_cq_, receive_cq_})
    if (cq != nullptr) cq->users.drop();
}

}  // namespace urma_fi
