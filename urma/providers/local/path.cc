// SPDX-License-Identifier: MIT
#include "urma/providers/local/path.h"

#include <algorithm>
#include <cstring>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/local/iovecs.h"
#include "urma/providers/local/sender.h"
#include "urma/providers/local/transport.h"

namespace urma::local {
namespace {

// After so long without an answer the receiver's service thread is asked to look: its program may
// be computing, or poll nothing.
constexpr uint64_t kPatienceNs = 1'000'000;
constexpr uint32_t kFruitlessPerClock = 4;

// What a peer writes is one of the contract's values, or not believed.
urma_cr_status_t checked_status(uint32_t status) {
  return status <= URMA_CR_REM_DATA_POISON ? static_cast<urma_cr_status_t>(status)
                                           : URMA_CR_REM_OPERATION_ERR;
}

// On the service thread. Whatever goes wrong, the opening ends.
void ask_for_ring(Transport* transport, const std::shared_ptr<RingOpening>& opening,
                  const Request& request) {
  const auto end = [opening](const Reply& reply) {
    opening->answer = reply.answer;
    // SYNC(ring-opening): release pairs with the acquire in QueuePath::open_ring.
    opening->ended.store(true, std::memory_order_release);
  };
  try {
    const IdKind kind = request.open_ring.target_type == URMA_JFR ? IdKind::kJfr : IdKind::kJetty;
    opening->link =
        transport->link_to(kind, request.open_ring.target_eid, request.open_ring.target_id);
    if (opening->link != nullptr) {
      return opening->link->request(request, opening->ring.memory().fd(), end);
    }
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "opening a ring to id {:#x}: {}", request.open_ring.target_id,
                     error.what());
  }
  end(Reply{0, Answer::kUnreachable, {}});
}

bool in_range(const SegmentGrant& grant, uint64_t addr, uint64_t bytes) {
  return addr >= grant.base && bytes <= grant.len && addr - grant.base <= grant.len - bytes;
}

}  // namespace

QueuePath::QueuePath(Sender* sender, RemoteQueue* target)
    : SendPath(target->id, target->tp.tpn), sender_(sender), target_(target) {
  target_->add_ref();
}

QueuePath::~QueuePath() {
  for (uint32_t index = first_pending_; index != kNoEntry;) {
    SendEntry& entry = sender_->queue().at(index);
    index = entry.next;
    if (entry.remote != nullptr) static_cast<RemoteSegment*>(entry.remote)->drop_ref();
  }
  drop_ring();
  target_->drop_ref();
}

void QueuePath::enqueue(SendEntry* entry) {
  const uint32_t index = sender_->queue().index_of(entry);
  if (first_pending_ == kNoEntry) {
    first_pending_ = index;
  } else {
    sender_->queue().at(last_pending_).next = index;
  }
  last_pending_ = index;
}

bool QueuePath::advance() {
  reap();
  uint64_t budget = kCopyPerTurn;
  while (first_pending_ != kNoEntry) {
    SendEntry* entry = &sender_->queue().at(first_pending_);
    urma_cr_status_t status = URMA_CR_SUCCESS;
    const Step step = execute_guarded(entry, &budget, &status);
    if (step == Step::kWait) return true;
    first_pending_ = entry->next;
    asked_ = 0;
    if (entry->remote != nullptr) static_cast<RemoteSegment*>(entry->remote)->drop_ref();
    if (step == Step::kDone) {
      sender_->queue().complete(entry, status);
    } else {
      entry->state = SendState::kInFlight;
    }
  }
  return false;
}

// Completes what the receiver is through with, and everything in flight once it is gone.
void QueuePath::reap() {
  if (ring_ == nullptr) return;
  // Before the answers: those that were given before the end are still true.
  const uint32_t closed = ring_->closed();
  const bool gone = opening_->link->gone();
  const bool moved = reap_answers();
  if (closed != 0) {
    fail_all(checked_status(closed));
  } else if (gone) {
    fail_all(URMA_CR_ACK_TIMEOUT_ERR);
  } else if (!ring_->idle()) {
    ring_->want_answers();
    hint_if_slow(moved);
  }
}

bool QueuePath::reap_answers() {
  bool moved = false;
  uint32_t index;
  uint8_t status;
  while (ring_->reap(&index, &status)) {
    sender_->queue().complete(&sender_->queue().at(index), checked_status(status));
    moved = true;
  }
  return moved;
}

// Ends all messages in flight and the ring with them; the next send asks for a new one.
void QueuePath::fail_all(urma_cr_status_t status) {
  uint32_t index;
  while (ring_->abandon(&index)) {
    sender_->queue().complete(&sender_->queue().at(index), status);
  }
  drop_ring();
}

void QueuePath::hint_if_slow(bool moved) {
  if (moved) {
    waiting_since_ns_ = 0;
    fruitless_ = 0;
    return;
  }
  if (++fruitless_ % kFruitlessPerClock != 0) return;
  const uint64_t now = monotonic_ns();
  if (waiting_since_ns_ == 0) {
    waiting_since_ns_ = now;
  } else if (now - waiting_since_ns_ > kPatienceNs) {
    waiting_since_ns_ = now;
    opening_->link->hint_progress();
  }
}

// What this process has not the means for, memory or descriptors, fails the one request.
QueuePath::Step QueuePath::execute_guarded(SendEntry* entry, uint64_t* budget,
                                           urma_cr_status_t* status) {
  try {
    return execute(entry, budget, status);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a request of queue {:#x} fails: {}", sender_->id().id, error.what());
    *status = URMA_CR_LOC_OPERATION_ERR;
    return Step::kDone;
  }
}

QueuePath::Step QueuePath::execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (entry->fence && !sender_->queue().earlier_reads_done(entry)) return Step::kWait;
  switch (entry->kind) {
    case OpKind::kWrite:
    case OpKind::kRead:
      return transfer(entry, budget, status);
    case OpKind::kAtomic:
      return atomic(entry, status);
    case OpKind::kSend:
      return send(entry, status);
    case OpKind::kNone:
      break;
  }
  *status = URMA_CR_UNSUPPORTED_OPCODE_ERR;
  return Step::kDone;
}

bool QueuePath::local_memory_stands(SendEntry* entry) const {
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    if (piece.len == 0) continue;
    if (!piece.valid || !sender_->transport().segments().alive(piece.ref)) return false;
  }
  return true;
}

QueuePath::Step QueuePath::authorize(SendEntry* entry, uint32_t access,
                                     std::shared_ptr<const Grant>* grant,
                                     urma_cr_status_t* status) {
  auto* segment = static_cast<RemoteSegment*>(entry->remote);
  *grant = segment->grant();
  if (*grant == nullptr || !(*grant)->stands()) {
    if (asked_ == 0) asked_ = segment->ask();
    if (!segment->ended(asked_, status)) return Step::kWait;
    *grant = segment->grant();
    if (*status != URMA_CR_SUCCESS) return Step::kDone;
    if (!(*grant)->stands()) {
      *status = (*grant)->link->gone() ? URMA_CR_ACK_TIMEOUT_ERR : URMA_CR_REM_ACCESS_ABORT_ERR;
      return Step::kDone;
    }
  }
  const SegmentGrant& granted = (*grant)->segment;
  if ((granted.access & access) == access && in_range(granted, entry->remote_addr, entry->bytes)) {
    return Step::kInFlight;
  }
  *status = URMA_CR_REM_ACCESS_ABORT_ERR;
  return Step::kDone;
}

QueuePath::Step QueuePath::transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (!local_memory_stands(entry)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  const bool write = entry->kind == OpKind::kWrite;
  std::shared_ptr<const Grant> grant;
  const Step allowed =
      authorize(entry, write ? URMA_ACCESS_WRITE : URMA_ACCESS_READ, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  while (entry->moved < entry->bytes) {
    if (*budget == 0) return Step::kWait;
    const uint64_t turn = std::min(*budget, entry->bytes - entry->moved);
    IovecList local;
    if (entry->inline_bytes != 0) {
      local.add(reinterpret_cast<uint64_t>(SendQueue::inline_data(entry)), entry->inline_bytes,
                entry->moved, turn);
    }
    for (const LocalPiece& piece : SendQueue::pieces(entry)) {
      local.add(piece.addr, piece.len, entry->moved, turn);
    }
    const iovec remote = {reinterpret_cast<void*>(entry->remote_addr + entry->moved), turn};
    uint64_t moved = 0;
    *status =
        sender_->transport().copy().copy(write ? Direction::kWrite : Direction::kRead,
                                         grant->link->peer(), local.list(), {&remote, 1}, &moved);
    if (*status != URMA_CR_SUCCESS) return Step::kDone;
    entry->moved += moved;
    *budget -= moved;
  }
  return Step::kDone;
}

QueuePath::Step QueuePath::atomic(SendEntry* entry, urma_cr_status_t* status) {
  if (atomic_call_ == nullptr) {
    std::shared_ptr<const Grant> grant;
    *status = URMA_CR_LOC_ACCESS_ERR;
    if (!local_memory_stands(entry)) return Step::kDone;
    const Step allowed = authorize(entry, URMA_ACCESS_ATOMIC, &grant, status);
    if (allowed != Step::kInFlight) return allowed;
    if (entry->remote_addr % entry->bytes != 0) {
      *status = URMA_CR_REM_UNSUPPORTED_REQ_ERR;
      return Step::kDone;
    }
    call_atomic(entry, *grant);
  }
  // SYNC(atomic-call): acquire pairs with the release of the service thread.
  if (!atomic_call_->ended.load(std::memory_order_acquire)) return Step::kWait;
  const std::shared_ptr<AtomicCall> call = std::move(atomic_call_);
  *status = status_of(call->answer);
  if (*status != URMA_CR_SUCCESS) return Step::kDone;
  if (!local_memory_stands(entry)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  const LocalPiece& result = SendQueue::pieces(entry)[0];
  std::memcpy(reinterpret_cast<void*>(result.addr), &call->old_value, result.len);
  return Step::kDone;
}

void QueuePath::call_atomic(SendEntry* entry, const Grant& grant) {
  Request request = {};
  request.type = RequestType::kAtomic;
  request.atomic = {entry->remote_addr,      {entry->operand[0], entry->operand[1]},
                    grant.segment.ref.index, grant.segment.ref.generation,
                    entry->opcode,           static_cast<uint32_t>(entry->bytes)};
  auto call = std::make_shared<AtomicCall>();
  sender_->transport().service().post([call, link = grant.link, request] {
    link->request(request, -1, [call](const Reply& reply) {
      call->answer = reply.answer;
      call->old_value = reply.atomic.old_value;
      // SYNC(atomic-call): release pairs with the acquire in QueuePath::atomic.
      call->ended.store(true, std::memory_order_release);
    });
  });
  atomic_call_ = std::move(call);
}

QueuePath::Step QueuePath::send(SendEntry* entry, urma_cr_status_t* status) {
  if (!local_memory_stands(entry)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  if (ring_ == nullptr) {
    const Step opened = open_ring(status);
    if (opened != Step::kInFlight) return opened;
  }
  return publish(entry) ? Step::kInFlight : Step::kWait;
}

// kInFlight once the ring stands.
QueuePath::Step QueuePath::open_ring(urma_cr_status_t* status) {
  if (opening_ == nullptr) request_ring();
  // SYNC(ring-opening): acquire pairs with the release of the service thread.
  if (!opening_->ended.load(std::memory_order_acquire)) return Step::kWait;
  if (opening_->answer == Answer::kAccepted) {
    ring_ = &opening_->ring;
    return Step::kInFlight;
  }
  *status = status_of(opening_->answer);
  URMA_LOG_LIMITED(WARNING, "queue {:#x} cannot send to id {:#x}: {}", sender_->id().id,
                   target_->id.id, answer_text(opening_->answer));
  opening_.reset();
  return Step::kDone;
}

void QueuePath::request_ring() {
  Transport& transport = sender_->transport();
  auto opening = std::make_shared<RingOpening>(transport.ring_bytes());
  opening->number = static_cast<uint32_t>(transport.next_serial());
  Request request = {};
  request.type = RequestType::kOpenRing;
  request.open_ring = {target_->id.eid,
                       sender_->id(),
                       target_->id.id,
                       static_cast<uint32_t>(target_->type),
                       static_cast<uint32_t>(sender_->config().trans_mode),
                       target_->token.token,
                       opening->number,
                       opening->ring.bytes(),
                       sender_->config().rnr_retry,
                       0};
  transport.service().post(
      [&transport, opening, request] { ask_for_ring(&transport, opening, request); });
  opening_ = std::move(opening);
}

bool QueuePath::publish(SendEntry* entry) {
  const std::span<LocalPiece> pieces = SendQueue::pieces(entry);
  const bool by_reference = entry->bytes > ring_->max_payload();
  const uint64_t payload = by_reference ? pieces.size() * sizeof(PayloadPiece) : entry->bytes;
  if (!ring_->room_for(static_cast<uint32_t>(payload))) return false;
  ring_->begin(static_cast<uint32_t>(payload));
  ring_->append(SendQueue::inline_data(entry), entry->inline_bytes);
  for (const LocalPiece& piece : pieces) {
    if (by_reference) {
      const PayloadPiece described = {piece.addr, piece.len};
      ring_->append(&described, sizeof(described));
    } else {
      ring_->append(reinterpret_cast<const void*>(piece.addr), piece.len);
    }
  }
  uint8_t flags = entry->signalled ? kWantsAnswer : 0;
  if (entry->solicited) flags |= kSolicited;
  if (by_reference) flags |= kByReference;
  ring_->publish(MessageKind::kSend, flags, static_cast<uint32_t>(entry->bytes), 0,
                 sender_->queue().index_of(entry));
  return true;
}

void QueuePath::drop_ring() {
  if (opening_ == nullptr) return;
  sender_->transport().service().post([opening = std::move(opening_)] {
    // An opening that is still under way ends on the service thread too, so its link is set.
    if (opening->link == nullptr || opening->link->gone()) return;
    Request request = {};
    request.type = RequestType::kCloseRing;
    request.close_ring = {opening->number, 0};
    opening->link->notify(request);
  });
  opening_.reset();
  ring_ = nullptr;
}

}  // namespace urma::local
