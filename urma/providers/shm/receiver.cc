// SPDX-License-Identifier: MIT
#include "urma/providers/shm/receiver.h"

#include <algorithm>

#include "urma/base/log.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {

Receiver::Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
                   Transport* transport)
    : ReceiveEngine(cfg, identity, subject, transport),
      transport_(transport),
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
  if (local == URMA_CR_LOC_ACCESS_ERR && transport_->has_opaque()) {
    return begin_landing(ring, message, entry, poll);
  }
  if (local != URMA_CR_SUCCESS || (message.flags & kByReference) == 0) return std::nullopt;
  if (begin_pull(ring, message)) return go_on(ring, poll);
  // The sender's description differs from its announcement: nothing was received.
  ring->consume(message, URMA_CR_REM_RESP_LEN_ERR);
  return Step::kMoved;
}

std::optional<Receiver::Step> Receiver::begin_landing(IncomingRing* ring, const Message& message,
                                                      ReceiveEntry* entry, Poll* poll) {
  std::unique_ptr<OpaqueLanding> landing;
  try {
    landing = transport_->land(ReceiveQueue::pieces(entry), message.length);
    if (landing == nullptr) return std::nullopt;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a message of {} bytes cannot be gathered: {}", message.length,
                     error.what());
    if (!make_record(ring, message, *entry, URMA_CR_LOC_OPERATION_ERR, poll)) return Step::kBlocked;
    finish(ring, message, URMA_CR_LOC_OPERATION_ERR, URMA_CR_REM_OPERATION_ERR);
    return Step::kMoved;
  }
  if (!begin_pull(ring, message)) {
    ring->consume(message, URMA_CR_REM_RESP_LEN_ERR);
    return Step::kMoved;
  }
  if ((message.flags & kByReference) == 0) {
    const uint32_t prefix = prefix_of(message.kind);
    ring->copy(message, prefix, landing->data(), message.payload - prefix);
    ring->pull->moved = message.length;
  }
  ring->pull->landing = std::move(landing);
  return go_on(ring, poll);
}

// The receive is no longer written when this returns.
void Receiver::end_parts() {
  Pull& pull = *static_cast<IncomingRing*>(holding_)->pull_memory;
  pull.staged.reset();
  pull.landing.reset();
  holding_ = nullptr;
}

}  // namespace urma::shm
