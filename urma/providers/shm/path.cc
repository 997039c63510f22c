// SPDX-License-Identifier: MIT
#include "urma/providers/shm/path.h"

#include <algorithm>
#include <cstring>

#include "jetty/iovecs.h"
#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

// After this long without an answer the receiver's service thread is asked to look: its program may
// be computing, or not polling.
constexpr uint64_t kPatienceNs = 1'000'000;
// Unsuccessful looks for the receiver's answers before the clock is read, and the receiver is asked
// for the answers that it gives lazily. The question takes a cache line from the receiver, which
// delays a program that expects a reply.
constexpr uint32_t kPatientLooks = 16;

// One of this many messages of more than kMaxCopiedTwice bytes that fit into the ring goes by
// reference: it finds out whether they are mapped, or brings that nearer.
constexpr uint32_t kTryEvery = 128;

// A peer's status is accepted if a receiver can have found it: not a marker, and not a status of
// this side.
urma_cr_status_t checked_status(uint32_t status) {
  switch (status) {
    case URMA_CR_SUCCESS:
    case URMA_CR_REM_RESP_LEN_ERR:
    case URMA_CR_REM_UNSUPPORTED_REQ_ERR:
    case URMA_CR_REM_ACCESS_ABORT_ERR:
    case URMA_CR_ACK_TIMEOUT_ERR:
    case URMA_CR_RNR_RETRY_CNT_EXC_ERR:
    case URMA_CR_WR_FLUSH_ERR:
    case URMA_CR_REM_DATA_POISON:
      return static_cast<urma_cr_status_t>(status);
    default:
      return URMA_CR_REM_OPERATION_ERR;
  }
}

uint8_t flags_of(const SendEntry& entry) {
  uint8_t flags = entry.signalled ? kWantsAnswer : 0;
  if (entry.solicited) flags |= kSolicited;
  return flags;
}

}  // namespace

QueuePath::QueuePath(Sender* sender, RemoteQueue* target, uint32_t hint)
    : RequestPath(sender, target, hint), sender_(sender) {}

// Messages in the ring still arrive; the memory that they refer to belongs to the program again.
QueuePath::~QueuePath() {
  if (opening_ != nullptr) opening_->ring.take_back_lent();
  drop_ring();
}

bool QueuePath::lends_what_fits() const {
  if (ring_ == nullptr || opening_->link->gone() || !ring_->lends_what_fits()) return false;
  ring_->want_answers();
  return true;
}

// Also true while messages lie in a ring that the owner has not answered about, be it the first or
// the one after a lost ring: the receiver has to be woken then.
bool QueuePath::advance() {
  more = false;
  if (ring_ == nullptr) [[unlikely]]
    take_answer();
  if (ring_ != nullptr) reap();
  const bool waiting = !idle() && execute_pending();
  return waiting || (ring_ == nullptr && !ring_idle());
}

bool QueuePath::take_ended(uint32_t place) {
  // What waits to be executed must not wait until all that has ended was polled; and behind the
  // last message, the end of the ring must be found.
  if (!idle() || ring_ == nullptr ||
      (outstanding == 1 && (ring_->closed() != 0 || opening_->link->gone())) ||
      !ring_->reap_success(place)) {
    return false;
  }
  fruitless_ = 0;
  return true;
}

void QueuePath::next_begins() {
  copying_.reset();
  atomic_call_.reset();
  found_full_ = false;
}

void QueuePath::flush() {
  take_answer();
  if (ring_ != nullptr) reap();
  while (!idle()) {
    sender_->queue().complete(take_next(), URMA_CR_WR_FLUSH_ERR);
  }
  if (ring_idle()) {
    drop_ring();
  } else if (!closing_) {
    // The receiver may be copying out of the program's buffers: only its answer ends that. A
    // receiver that has not taken the ring yet finds the messages there when it does.
    ask_to_close(opening_, /*lends=*/true);
    closing_ = true;
  }
}

// Completes messages that the receiver is through with, and all in flight once it is gone.
void QueuePath::reap() {
  // Read before the answers: those that were given before the end are still true.
  const uint32_t closed = ring_->closed();
  const bool gone = opening_->link->gone();
  const bool moved = reap_answers();
  if (closed != 0) {
    fail_all(checked_status(closed));
  } else if (gone) {
    fail_all(URMA_CR_ACK_TIMEOUT_ERR);
  } else if (!ring_->idle()) {
    if (wants_help(*ring_->joint())) [[unlikely]]
      help_receiver();
    press_if_slow(moved);
  }
}

inline bool QueuePath::reap_answers() {
  bool moved = false;
  uint32_t index;
  uint8_t status;
  SendQueue& queue = sender_->queue();
  while (opening_->ring.reap(&index, &status)) {
    SendEntry* entry = &queue.at(index);
    queue.complete(entry, status == URMA_CR_SUCCESS ? URMA_CR_SUCCESS : failure(entry, status));
    moved = true;
  }
  return moved;
}

// As the receiver tells it; one whose memory was unregistered meanwhile it has not received.
urma_cr_status_t QueuePath::failure(SendEntry* entry, uint8_t told) {
  urma_cr_status_t status = checked_status(told);
  if (status == URMA_CR_WR_FLUSH_ERR && !closing_) local_memory_stands(entry, &status);
  return outcome(status);
}

// Ends all messages in flight and the ring with them; the next send asks for a new one.
void QueuePath::fail_all(urma_cr_status_t status) {
  // An owner whose answer came too late, or not at all, may also have received some.
  reap_answers();
  // A flush ends as a flush, however its target ends.
  if (closing_) status = URMA_CR_WR_FLUSH_ERR;
  uint32_t index;
  while (opening_->ring.abandon(&index)) {
    sender_->queue().complete(&sender_->queue().at(index), outcome(status));
  }
  ring_lost(opening_->link != nullptr && opening_->link->gone());
  drop_ring();
}

// Hints if the oldest message has waited for long. The time counts from the first of these looks
// that finds it, whatever happened to the messages before it.
void QueuePath::press_if_slow(bool moved) {
  if (moved) {
    fruitless_ = 0;
    return;
  }
  if (++fruitless_ % kPatientLooks != 0) return;
  ring_->want_answers();
  const uint64_t now = monotonic_ns();
  if (waiting_for_ != ring_->oldest()) {
    waiting_for_ = ring_->oldest();
    waiting_since_ns_ = now;
  } else if (now - waiting_since_ns_ > kPatienceNs) {
    waiting_since_ns_ = now;
    press();
  }
}

// An owner that gives the ring back may be stopped after its answer, too.
void QueuePath::press() {
  if (closing_ && !opening_->asked_back.load(std::memory_order_relaxed)) {
    ask_to_close(opening_, /*lends=*/true);
  } else {
    opening_->link->hint_progress();
  }
}

// Enough copied requests make a mapping worthwhile.
void QueuePath::executed(const SendEntry& entry) {
  if (entry.kind == OpKind::kSend) return;
  for (ImportedSegment* segment : {entry.remote, entry.notified}) {
    if (segment != nullptr) static_cast<RemoteSegment*>(segment)->count_use();
  }
}

void QueuePath::look_up(SendEntry* entry) {
  sender_->implicit_imports().look_up(entry, target()->id.eid);
}

// Whether all that was posted before has been placed at the target. Messages stay in order among
// each other, and everything else is placed at the end of its turn.
bool QueuePath::placed_before(const SendEntry& entry) {
  const bool message = entry.kind == OpKind::kSend;
  if (message || ring_idle()) return true;
  opening_->ring.want_answers();
  return false;
}

QueuePath::Step QueuePath::send(SendEntry* entry, urma_cr_status_t* status) {
  if (!local_memory_stands(entry, status)) return Step::kDone;
  return prepare_ring() && publish(entry) ? Step::kInFlight : Step::kWait;
}

QueuePath::Step QueuePath::write_imm(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  // First, so that nothing is written for a target that refuses this sender, and the segment is not
  // asked for twice while the ring is full.
  const Step opened = open_ring(status);
  if (opened != Step::kInFlight) return opened;
  if (!ring_->room_for(0)) return Step::kWait;
  const Step written = transfer(entry, budget, status);
  if (written != Step::kDone || *status != URMA_CR_SUCCESS) return written;
  ring_->begin(0);
  ring_->publish(MessageKind::kWriteImm, flags_of(*entry), static_cast<uint32_t>(entry->bytes),
                 entry->operand[0], sender_->queue().index_of(entry));
  wake_where_awaited(entry->solicited);
  return Step::kInFlight;
}

bool QueuePath::goes_by_reference(SendEntry* entry, uint64_t payload) {
  if (payload > opening_->ring.max_payload()) return true;
  if (payload <= kMaxCopiedTwice || ring_ == nullptr || entry->inline_bytes != 0) return false;
  const std::span<LocalPiece> pieces = SendQueue::pieces(entry);
  if (pieces.size() != 1 || pieces[0].open_token_id == 0) return false;
  const bool preferred = prefers_reference();
  ++tries_;
  return preferred;
}

bool QueuePath::prefers_reference() const {
  if (ring_ == nullptr) return false;
  const CopyMethod copies = ring_->copies();
  return copies == CopyMethod::kMapped ||
         (copies == CopyMethod::kByKernel && tries_ % kTryEvery == kTryEvery - 1);
}

bool QueuePath::publish(SendEntry* entry) {
  const std::span<LocalPiece> pieces = SendQueue::pieces(entry);
  const MessageKind kind = kind_of_send(entry->opcode);
  const uint32_t prefix = prefix_of(kind);
  RingProducer& ring = opening_->ring;
  const bool by_reference = goes_by_reference(entry, entry->bytes + prefix);
  const uint64_t payload =
      prefix + (by_reference ? pieces.size() * sizeof(PayloadPiece) : entry->bytes);
  if (!ring.room_for(static_cast<uint32_t>(payload))) {
    note_full(static_cast<uint32_t>(payload));
    return false;
  }
  ring.begin(static_cast<uint32_t>(payload));
  if (kind == MessageKind::kSendInvalidate) {
    const Invalidation invalidation = entry->remote->invalidation();
    ring.append(&invalidation, sizeof(invalidation));
  }
  ring.append(SendQueue::inline_data(entry), entry->inline_bytes);
  for (const LocalPiece& piece : pieces) {
    if (by_reference) {
      const PayloadPiece described = {piece.addr, piece.len, piece.open_token_id};
      ring.append(&described, sizeof(described));
    } else {
      ring.append(reinterpret_cast<const void*>(piece.addr), piece.len);
    }
  }
  const uint8_t flags = flags_of(*entry) | (by_reference ? kByReference : 0);
  if (by_reference) sender_->note_lent();
  ring.publish(kind, flags, static_cast<uint32_t>(entry->bytes), entry->operand[0],
               sender_->queue().index_of(entry));
  if (ring_ != nullptr) wake_where_awaited(entry->solicited);
  return true;
}

void QueuePath::insist() { fruitless_ |= kPatientLooks - 1; }

bool QueuePath::publish_now(MessageKind kind, uint8_t flags, const char* data, uint32_t bytes,
                            uint64_t immediate, uint32_t cookie) {
  if (publish_slot(kind, flags, data, bytes, immediate, cookie)) return true;
  if (ring_ == nullptr || closing_ || bytes > ring_->max_payload() || !ring_->room_for(bytes)) {
    return false;
  }
  if (bytes > kMaxCopiedTwice) ++tries_;
  ring_->begin(bytes);
  ring_->append(data, bytes);
  ring_->publish(kind, flags, bytes, immediate, cookie);
  return true;
}

void QueuePath::wake_where_awaited(bool solicited) {
  if (!opening_->bell.ring(solicited)) opening_->link->hint_progress();
}

}  // namespace urma::shm
