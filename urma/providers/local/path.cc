// SPDX-License-Identifier: MIT
#include "urma/providers/local/path.h"

#include <sys/random.h>

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
// Looks at the receiver's answers in vain before the clock is read, and the receiver asked for the
// answers that it gives lazily. The question takes a cache line from it, which a program that
// expects a reply does not want moved.
constexpr uint32_t kPatientLooks = 16;

// What a peer writes is believed where a receiver can have found it: no marker, and nothing that
// would be of this side.
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

// On the service thread: what the owner has answered.
Answer take_bell(RingOpening* opening, const OpenRingAnswer& answer, Attached& fds) {
  try {
    opening->bell = opening->link->wakeups().accept(answer.receiver_jfc, opening->link->region(),
                                                    fds.empty() ? Fd() : std::move(fds[0]));
    return Answer::kAccepted;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a ring is given back: {}", error.what());
  }
  Request request = {};
  request.type = RequestType::kCloseRing;
  request.close_ring = {opening->number, 0};
  opening->link->notify(request);
  return Answer::kNoResources;
}

// On the service thread. Whatever goes wrong, the opening ends.
void ask_for_ring(Transport* transport, const std::shared_ptr<RingOpening>& opening,
                  Request request, EventChannel* channel, uint32_t jfc_id) {
  const auto end = [transport, opening](const Reply& reply, Attached& fds) {
    opening->ring.close_fd();
    opening->members = std::min<uint32_t>(reply.open_ring.members, URMA_MAX_JETTY_IN_JETTY_GRP);
    opening->answer = reply.answer == Answer::kAccepted
                          ? take_bell(opening.get(), reply.open_ring, fds)
                          : reply.answer;
    // SYNC(ring-opening): release pairs with the acquire in QueuePath::open_ring.
    opening->ended.store(true, std::memory_order_release);
    transport->serve_senders();
  };
  try {
    opening->link = transport->link_to(id_kind(request.open_ring.target_type),
                                       request.open_ring.target_eid, request.open_ring.target_id);
    if (opening->link != nullptr && !opening->link->gone()) {
      const std::shared_ptr<const Wakeup> wakeup =
          opening->link->wakeups().offer(channel, jfc_id, &request.open_ring.sender_jfc);
      std::vector<int> fds = {opening->ring.memory().fd()};
      if (wakeup != nullptr) fds.push_back(wakeup->there.get());
      // The wake-up stays open until the answer.
      return opening->link->request(
          request, fds, [end, wakeup](const Reply& reply, Attached& with) { end(reply, with); });
    }
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "opening a ring to id {:#x}: {}", request.open_ring.target_id,
                     error.what());
  }
  Attached none;
  end(Reply{0, Answer::kUnreachable, {}}, none);
}

MessageKind kind_of_send(uint8_t opcode) {
  switch (opcode) {
    case URMA_OPC_SEND_IMM:
      return MessageKind::kSendImm;
    case URMA_OPC_SEND_INVALIDATE:
      return MessageKind::kSendInvalidate;
    default:
      return MessageKind::kSend;
  }
}

// A grant that no longer stands says nothing about the registration that is there now.
Invalidation invalidation_of(const RemoteSegment& segment) {
  const urma_seg_t& seg = segment.seg;
  const Grant* grant = segment.grant();
  const bool stands = grant != nullptr && grant->stands();
  return {seg.ubva.eid, seg.ubva.va, seg.len, stands ? grant->segment.ref : SegmentRef{}};
}

// Nobody guesses it.
uint64_t new_key() {
  uint64_t key;
  if (::getrandom(&key, sizeof(key), 0) != sizeof(key)) {
    fail_errno(URMA_FAIL, "asking for a random number");
  }
  return key;
}

uint8_t flags_of(const SendEntry& entry) {
  uint8_t flags = entry.signalled ? kWantsAnswer : 0;
  if (entry.solicited) flags |= kSolicited;
  return flags;
}

}  // namespace

QueuePath::QueuePath(Sender* sender, RemoteQueue* target, uint32_t hint)
    : TargetPath(&sender->queue(), target, hint), sender_(sender) {}

QueuePath::~QueuePath() { drop_ring(); }

bool QueuePath::advance() {
  more = false;
  if (ring_ != nullptr) reap();
  return !idle() && execute_pending();
}

bool QueuePath::execute_pending() {
  if (sender_->queue().state() != URMA_JETTY_STATE_READY) return false;
  uint64_t budget = kCopyPerTurn;
  while (!idle()) {
    SendEntry* entry = first();
    urma_cr_status_t status = URMA_CR_SUCCESS;
    const Step step = execute_guarded(entry, &budget, &status);
    more = step == Step::kWait && budget == 0;
    if (step == Step::kWait) return true;
    take_next();
    if (step == Step::kDone) {
      sender_->queue().complete(entry, outcome(status));
    } else {
      entry->state = SendState::kInFlight;
    }
  }
  return false;
}

SendEntry* QueuePath::take_next() {
  asked_ = 0;
  asked_notified_ = 0;
  copying_.reset();
  return take_first();
}

// In mode UM nobody is told what became of a message that has left.
urma_cr_status_t QueuePath::outcome(urma_cr_status_t status) const {
  const bool remote = status >= URMA_CR_REM_RESP_LEN_ERR && status <= URMA_CR_RNR_RETRY_CNT_EXC_ERR;
  return remote && sender_->config().trans_mode == URMA_TM_UM ? URMA_CR_SUCCESS : status;
}

void QueuePath::flush() {
  if (ring_ != nullptr) reap();
  while (!idle()) {
    sender_->queue().complete(take_next(), URMA_CR_WR_FLUSH_ERR);
  }
  atomic_call_.reset();
  if (ring_ == nullptr || ring_->idle()) {
    drop_ring();
  } else if (!closing_) {
    // The receiver may be copying out of the program's buffers: only its answer ends that.
    ask_to_close();
    closing_ = true;
  }
}

// Completes what the receiver is through with, and everything in flight once it is gone.
void QueuePath::reap() {
  // Before the answers: those that were given before the end are still true.
  const uint32_t closed = ring_->closed();
  const bool gone = opening_->link->gone();
  const bool moved = reap_answers();
  if (closed != 0) {
    fail_all(checked_status(closed));
  } else if (gone) {
    fail_all(URMA_CR_ACK_TIMEOUT_ERR);
  } else if (!ring_->idle()) {
    press_if_slow(moved);
  }
}

bool QueuePath::reap_answers() {
  bool moved = false;
  uint32_t index;
  uint8_t status;
  SendQueue& queue = sender_->queue();
  while (ring_->reap(&index, &status)) {
    queue.complete(&queue.at(index),
                   status == URMA_CR_SUCCESS ? URMA_CR_SUCCESS : outcome(checked_status(status)));
    moved = true;
  }
  return moved;
}

// Ends all messages in flight and the ring with them; the next send asks for a new one.
void QueuePath::fail_all(urma_cr_status_t status) {
  // What was being flushed is, however its target ends.
  if (closing_) status = URMA_CR_WR_FLUSH_ERR;
  uint32_t index;
  while (ring_->abandon(&index)) {
    sender_->queue().complete(&sender_->queue().at(index), outcome(status));
  }
  drop_ring();
}

void QueuePath::press_if_slow(bool moved) {
  if (moved) {
    waiting_since_ns_ = 0;
    fruitless_ = 0;
    return;
  }
  if (++fruitless_ % kPatientLooks != 0) return;
  ring_->want_answers();
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
    const Step step = execute(entry, budget, status);
    if (step != Step::kWait && *status == URMA_CR_SUCCESS) count_uses(*entry);
    return step;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a request of queue {:#x} fails: {}", sender_->id().id, error.what());
    *status = URMA_CR_LOC_OPERATION_ERR;
    return Step::kDone;
  }
}

void QueuePath::count_uses(const SendEntry& entry) {
  if (entry.kind == OpKind::kSend) return;
  for (ImportedSegment* segment : {entry.remote, entry.notified}) {
    if (segment != nullptr) static_cast<RemoteSegment*>(segment)->count_use();
  }
}

QueuePath::Step QueuePath::execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (entry->fence && !sender_->queue().earlier_reads_done(entry)) return Step::kWait;
  if (entry->strong && !placed_before(*entry)) return Step::kWait;
  if (entry->kind != OpKind::kSend && entry->kind != OpKind::kNop) look_up_segments(entry);
  switch (entry->kind) {
    case OpKind::kWrite:
    case OpKind::kRead:
      return transfer(entry, budget, status);
    case OpKind::kAtomic:
    case OpKind::kWriteAtomic:
      return atomic(entry, status);
    case OpKind::kSend:
      return send(entry, status);
    case OpKind::kWriteImm:
      return write_imm(entry, budget, status);
    case OpKind::kWriteNotify:
      return write_notify(entry, budget, status);
    case OpKind::kNop:
      return Step::kDone;
    case OpKind::kNone:
      break;
  }
  *status = URMA_CR_UNSUPPORTED_OPCODE_ERR;
  return Step::kDone;
}

// Whether all that was posted before has been placed at the target. Messages stay in order among
// each other, and everything else is placed when its turn is over.
bool QueuePath::placed_before(const SendEntry& entry) {
  const bool message = entry.kind == OpKind::kSend;
  if (message || ring_ == nullptr || ring_->idle()) return true;
  ring_->want_answers();
  return false;
}

QueuePath::Step QueuePath::send(SendEntry* entry, urma_cr_status_t* status) {
  if (!local_memory_stands(entry)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  const Step opened = open_ring(status);
  if (opened != Step::kInFlight) return opened;
  return publish(entry) ? Step::kInFlight : Step::kWait;
}

QueuePath::Step QueuePath::write_imm(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  // First, so that nothing is written for a target that refuses this sender, and nothing is asked
  // twice of the segment while the ring is full.
  const Step opened = open_ring(status);
  if (opened != Step::kInFlight) return opened;
  if (!ring_->room_for(0)) return Step::kWait;
  const Step written = transfer(entry, budget, status);
  if (written != Step::kDone || *status != URMA_CR_SUCCESS) return written;
  publish_write(entry);
  return Step::kInFlight;
}

QueuePath::Step QueuePath::open_ring(urma_cr_status_t* status) {
  if (closing_) return Step::kWait;
  if (ring_ != nullptr) return Step::kInFlight;
  if (opening_ == nullptr) request_ring();
  // SYNC(ring-opening): acquire pairs with the release of the service thread.
  if (!opening_->ended.load(std::memory_order_acquire)) return Step::kWait;
  if (opening_->answer == Answer::kAccepted) {
    ring_ = &opening_->ring;
    target()->members.store(opening_->members, std::memory_order_relaxed);
    return Step::kInFlight;
  }
  *status = status_of(opening_->answer);
  URMA_LOG_LIMITED(WARNING, "queue {:#x} cannot send to id {:#x}: {}", sender_->id().id,
                   target()->id.id, answer_text(opening_->answer));
  opening_.reset();
  return Step::kDone;
}

void QueuePath::request_ring() {
  Transport& transport = sender_->transport();
  auto opening = std::make_shared<RingOpening>(transport.ring_bytes());
  opening->number = static_cast<uint32_t>(transport.next_serial());
  opening->key = new_key();
  Request request = {};
  request.type = RequestType::kOpenRing;
  request.open_ring = {target()->id.eid,
                       opening->key,
                       sender_->id(),
                       target()->id.id,
                       static_cast<uint32_t>(target()->type),
                       static_cast<uint32_t>(sender_->config().trans_mode),
                       target()->token.token,
                       opening->number,
                       opening->ring.bytes(),
                       sender_->config().rnr_retry,
                       hint(),
                       {}};
  const auto* jfc = static_cast<const CompletionQueue*>(sender_->config().jfc);
  transport.service().post(
      [&transport, opening, request, channel = jfc->channel(), jfc_id = jfc->bell_index()] {
        ask_for_ring(&transport, opening, request, channel, jfc_id);
      });
  opening_ = std::move(opening);
}

bool QueuePath::publish(SendEntry* entry) {
  const std::span<LocalPiece> pieces = SendQueue::pieces(entry);
  const MessageKind kind = kind_of_send(entry->opcode);
  const uint32_t prefix = prefix_of(kind);
  const bool by_reference = entry->bytes + prefix > ring_->max_payload();
  const uint64_t payload =
      prefix + (by_reference ? pieces.size() * sizeof(PayloadPiece) : entry->bytes);
  if (!ring_->room_for(static_cast<uint32_t>(payload))) return false;
  ring_->begin(static_cast<uint32_t>(payload));
  if (kind == MessageKind::kSendInvalidate) {
    const Invalidation invalidation =
        invalidation_of(*static_cast<const RemoteSegment*>(entry->remote));
    ring_->append(&invalidation, sizeof(invalidation));
  }
  ring_->append(SendQueue::inline_data(entry), entry->inline_bytes);
  for (const LocalPiece& piece : pieces) {
    if (by_reference) {
      const PayloadPiece described = {piece.addr, piece.len, piece.open_token_id};
      ring_->append(&described, sizeof(described));
    } else {
      ring_->append(reinterpret_cast<const void*>(piece.addr), piece.len);
    }
  }
  const uint8_t flags = flags_of(*entry) | (by_reference ? kByReference : 0);
  ring_->publish(kind, flags, static_cast<uint32_t>(entry->bytes), entry->operand[0],
                 sender_->queue().index_of(entry));
  wake_where_awaited(entry->solicited);
  return true;
}

void QueuePath::insist() { fruitless_ |= kPatientLooks - 1; }

bool QueuePath::publish_now(MessageKind kind, uint8_t flags, const char* data, uint32_t bytes,
                            uint64_t immediate, uint32_t cookie) {
  if (publish_slot(kind, flags, data, bytes, immediate, cookie)) return true;
  if (ring_ == nullptr || closing_ || bytes > ring_->max_payload() || !ring_->room_for(bytes)) {
    return false;
  }
  ring_->begin(bytes);
  ring_->append(data, bytes);
  ring_->publish(kind, flags, bytes, immediate, cookie);
  return true;
}

void QueuePath::publish_write(SendEntry* entry) {
  ring_->begin(0);
  ring_->publish(MessageKind::kWriteImm, flags_of(*entry), static_cast<uint32_t>(entry->bytes),
                 entry->operand[0], sender_->queue().index_of(entry));
  wake_where_awaited(entry->solicited);
}

void QueuePath::wake_where_awaited(bool solicited) {
  if (awaited(solicited)) wake();
}

void QueuePath::wake() {
  if (!opening_->bell.push()) opening_->link->hint_progress();
}

void QueuePath::ask_to_close() {
  sender_->transport().service().post([opening = opening_] {
    // An opening that is still under way ends on the service thread too, so its link is set.
    if (opening->link == nullptr || opening->link->gone()) return;
    Request request = {};
    request.type = RequestType::kCloseRing;
    request.close_ring = {opening->number, 0};
    opening->link->notify(request);
  });
}

void QueuePath::drop_ring() {
  if (opening_ == nullptr) return;
  if (!closing_) ask_to_close();
  opening_.reset();
  ring_ = nullptr;
  closing_ = false;
}

}  // namespace urma::local
