// SPDX-License-Identifier: MIT
#include "urma/providers/shm/receiver.h"

#include <algorithm>

#include "urma/providers/shm/transport.h"

namespace urma::shm {

std::string IncomingRing::who() const { return "process " + std::to_string(process->pid); }

Receiver::Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
                   Transport* transport)
    : ReceiveEngine(cfg, identity, subject, transport, &transport->segments()),
      transport_(transport),
      device_(transport->device()),
      sender_memory_(transport) {}

void Receiver::ways_gone() {
  sender_memory_.keep([this](pid_t pid) {
    lock_.assume_held();
    return std::any_of(ways_.begin(), ways_.end(),
                       [pid](const auto& ring) { return ring->process->pid == pid; });
  });
}

std::optional<Receiver::Step> Receiver::begin_parts(IncomingRing* ring, const Message& message,
                                                    ReceiveEntry* entry, urma_cr_status_t local,
                                                    Poll* poll) {
  if (local == URMA_CR_LOC_ACCESS_ERR && device_ != nullptr && receives_by_device(entry)) {
    return begin_device_pull(ring, message, entry, poll);
  }
  if (local != URMA_CR_SUCCESS || (message.flags & kByReference) == 0) return std::nullopt;
  if (begin_pull(ring, message)) return go_on(ring, poll);
  // What the sender described is not what it announced: nothing was received.
  ring->ring.consume(message, URMA_CR_REM_RESP_LEN_ERR);
  return Step::kMoved;
}

}  // namespace urma::shm
