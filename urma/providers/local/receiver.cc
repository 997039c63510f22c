// SPDX-License-Identifier: MIT
#include "urma/providers/local/receiver.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "jetty/failures.h"
#include "urma/base/clock.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/local/transport.h"

namespace urma::local {
namespace {

constexpr int kMessagesPerTurn = 16;

// min_rnr_timer 0..31 in units of 10 microseconds, as InfiniBand encodes it.
constexpr std::array<uint32_t, 32> kRnrTimer = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr uint64_t kRnrUnitNs = 10'000;
constexpr uint32_t kRnrForEver = 7;
// Since when a message waits that has no limit: nobody asks.
constexpr uint64_t kWaitsForEver = 1;

// How long a message of a peer that was quicker waits for the bind of this side.
constexpr uint64_t kBindPatienceNs = 4'000'000'000;

urma_cr_opcode_t opcode_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::kSendImm:
      return URMA_CR_OPC_SEND_WITH_IMM;
    case MessageKind::kWriteImm:
      return URMA_CR_OPC_WRITE_WITH_IMM;
    case MessageKind::kSendInvalidate:
      return URMA_CR_OPC_SEND_WITH_INV;
    default:
      return URMA_CR_OPC_SEND;
  }
}

// A kind of message that the mode has not is as bad as none of the kinds.
bool is_foreign(const IncomingRing& ring, const Message& message) {
  return ring.messages_only && message.kind != MessageKind::kSend &&
         message.kind != MessageKind::kSendImm;
}

}  // namespace

Invalidation invalidation_of(const IncomingRing& ring, const Message& message) {
  Invalidation invalidation = {};
  ring.ring.copy_payload(message, 0, &invalidation, prefix_of(message.kind));
  return invalidation;
}

Receiver::Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
                   Transport* transport)
    : urma::Receiver(cfg, identity, subject),
      segments_(&transport->segments()),
      transport_(transport),
      device_(transport->device()),
      domain_(transport),
      rnr_timer_(cfg.min_rnr_timer),
      posted_(cfg.depth, cfg.max_sge),
      sender_memory_(transport) {}

uint64_t Receiver::rnr_limit_ns(uint32_t rnr_retry) const {
  if (rnr_retry >= kRnrForEver) return UINT64_MAX;
  return rnr_retry * kRnrTimer[rnr_timer_ % kRnrTimer.size()] * kRnrUnitNs;
}

urma_status_t Receiver::post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  OwnerScope scope(lock_);
  urma_status_t status = URMA_SUCCESS;
  uint64_t posts = 0;
  for (; wr != nullptr; wr = wr->next, ++posts) {
    status = posted_.post(*wr);
    if (status != URMA_SUCCESS) [[unlikely]] {
      counters_.refused.add(1);
      *bad_wr = wr;
      break;
    }
  }
  counters_.posts.add(posts);
  if (!in_state(URMA_JFR_STATE_READY)) [[unlikely]]
    turn_away();
  if (status != URMA_SUCCESS) return status;
  // Nobody polls, and nobody rings for a message that lies there already.
  if (starved_) [[unlikely]]
    guarded(URMA_LOG_SITE, [this] {
      lock_.assume_held();
      serve_starved();
    });
  return URMA_SUCCESS;
}

void Receiver::serve_starved() {
  starved_ = false;
  Poll nobody;
  if (progress(&nobody)) domain_->take_over();
}

int Receiver::collect(CompletionQueue* poller, int count, urma_cr_t* cr) {
  if (ring_count_.load(std::memory_order_relaxed) == 0) return 0;
  OwnerScope scope(lock_);
  Poll poll = {poller, cr, count};
  progress(&poll);
  if (pulling_ != nullptr && poller->armed()) [[unlikely]]
    poller->leave_unfinished();
  return poll.got;
}

bool Receiver::move_for(CompletionQueue* waiter, bool /*just_armed*/) {
  if (ring_count_.load(std::memory_order_relaxed) == 0) return false;
  OwnerScope scope(lock_);
  Poll poll = {waiter};
  return progress(&poll);
}

void Receiver::try_progress() {
  if (ring_count_.load(std::memory_order_relaxed) == 0 || !lock_.enter_at_once()) return;
  OwnerScope scope(lock_, std::adopt_lock);
  Poll nobody;
  if (rings_.size() > Turns::kFew && to_flush_ == 0) {
    progress_many(&nobody);
  } else {
    progress(&nobody);
  }
}

bool Receiver::serve() {
  if (ring_count_.load(std::memory_order_relaxed) == 0) return false;
  ForeignScope scope(lock_);
  Poll nobody;
  return progress(&nobody);
}

void Receiver::quiesce(OwnerBarrier* barrier) { lock_.await_others(barrier); }

bool Receiver::add_ring(std::shared_ptr<IncomingRing> ring) {
  ForeignScope scope(lock_);
  if (!in_state(URMA_JFR_STATE_READY)) return false;
  ring->record.flag.bs.s_r = 1;
  ring->record.flag.bs.jetty = ring->target.jetty ? 1 : 0;
  ring->record.local_id = ring->target.id;
  ring->record.remote_id = ring->sender;
  ring->record.tpn = ring->sender.id;
  ring->record.user_data = ring->target.user_data;
  rings_.push_back(std::move(ring));
  turns_.forget();
  count_rings();
  return true;
}

void Receiver::set_bond(Bond* bond, const Bond& peer) {
  {
    ForeignScope scope(lock_);
    *bond = peer;
  }
  // What the peer has sent before was left where it is.
  if (peer.has_value()) domain_->take_over();
}

bool Receiver::make_room(uint32_t receives) {
  ForeignScope scope(lock_);
  posted_.make_room(receives);
  return true;
}

uint64_t Receiver::posted() {
  ForeignScope scope(lock_);
  return posted_.popped() + posted_.size();
}

uint64_t Receiver::consumed() {
  ForeignScope scope(lock_);
  return posted_.popped();
}

// So that a poll looks here also where no peer does.
void Receiver::count_rings() {
  const uint32_t flushing = to_flush_ != 0 ? 1 : 0;
  ring_count_.store(static_cast<uint32_t>(rings_.size()) + flushing, std::memory_order_relaxed);
}

void Receiver::close_all() {
  for (const std::shared_ptr<IncomingRing>& ring : rings_) {
    ring->ring.close(URMA_CR_REM_ACCESS_ABORT_ERR);
    ring->bell.ring(true);
  }
  end_pull();
  rings_.clear();
  turns_.forget();
  forget_senders();
}

void Receiver::close_ways(uint64_t user_data) {
  ForeignScope scope(lock_);
  std::erase_if(rings_, [&](const std::shared_ptr<IncomingRing>& ring) URMA_REQUIRES(lock_) {
    if (ring->target.user_data != user_data) return false;
    ring->ring.close(URMA_CR_REM_ACCESS_ABORT_ERR);
    ring->bell.ring(true);
    if (pulling_ == ring.get()) end_pull();
    return true;
  });
  turns_.forget();
  forget_senders();
  count_rings();
}

// What nobody sends from any more must not stay mapped: the memory of a process that is gone would
// be kept for as long as this queue lives.
void Receiver::forget_senders() {
  sender_memory_.keep([this](pid_t pid) {
    lock_.assume_held();
    return std::any_of(rings_.begin(), rings_.end(),
                       [pid](const auto& ring) { return ring->process->pid == pid; });
  });
}

bool Receiver::progress(Poll* poll) {
  bool moved = false;
  bool finished = false;
  const size_t count = rings_.size();
  if (to_flush_ != 0) [[unlikely]] {
    moved = flush_posted(poll);
    if (to_flush_ != 0) return moved;
  }
  if (count == 0) return moved;
  // Whoever does not poll wants to know of all.
  if (count > Turns::kFew && poll->room != 0) [[unlikely]]
    return progress_many(poll) || moved;
  // Each time from another ring on: where receives, or places for records, are scarce, the first
  // ring takes most of them.
  if (++first_ring_ >= count) first_ring_ = 0;
  size_t index = first_ring_;
  do {
    finished |= progress_ring(index, poll, &moved);
    if (++index == count) index = 0;
  } while (index != first_ring_ && !poll->full());
  if (finished) drop_finished();
  return moved;
}

bool Receiver::progress_many(Poll* poll) {
  bool moved = false;
  bool finished = false;
  turns_.take(
      rings_, [](const std::shared_ptr<IncomingRing>& ring) -> uint32_t& { return ring->silence; },
      [&](const std::shared_ptr<IncomingRing>& ring) {
        lock_.assume_held();
        // Relaxed: a hint, as silent() is.
        if (ring->ring.silent() && ring->unbound_since_ns == 0 &&
            !ring->abandoned.load(std::memory_order_relaxed)) {
          return false;
        }
        const bool ended = progress_ring(static_cast<size_t>(&ring - rings_.data()), poll, &moved);
        finished |= ended;
        return !ended;
      },
      [&] { return finished || poll->full(); });
  if (finished) drop_finished();
  return moved;
}

void Receiver::drop_finished() {
  std::erase(rings_, nullptr);
  turns_.forget();
  forget_senders();
  count_rings();
}

// True where the ring has ended: its place is empty then.
inline bool Receiver::progress_ring(size_t index, Poll* poll, bool* moved) {
  std::shared_ptr<IncomingRing>& ring = rings_[index];
  if (pulling_ != nullptr && pulling_ != ring.get()) return false;
  if (turn(ring.get(), poll, moved) != Step::kFinished) return false;
  // Others may have waited for its end.
  *moved = true;
  if (pulling_ == ring.get()) end_pull();
  ring.reset();
  return true;
}

inline Receiver::Step Receiver::turn(IncomingRing* ring, Poll* poll, bool* moved) {
  const uint64_t told = ring->ring.told();
  const uint64_t errors_told = ring->ring.errors_told();
  Step step = Step::kBlocked;
  for (int message = 0; message < kMessagesPerTurn; ++message) {
    step = ring->pull != nullptr ? continue_pull(ring, poll) : advance(ring, poll);
    if (step != Step::kMoved) break;
    *moved = true;
    // A part of a large message is a turn.
    if (ring->pull != nullptr || poll->full()) break;
  }
  // Also behind a message that waits for something: who waits for the answers may be the one that
  // could end that.
  if (step == Step::kBlocked) ring->ring.answer_wanted();
  // Where the sender could not be woken it finds out by itself, when it looks after its requests.
  if (ring->ring.told() != told) ring->bell.ring(ring->ring.errors_told() != errors_told);
  return step;
}

inline Receiver::Step Receiver::advance(IncomingRing* ring, Poll* poll) {
  // Before the look into the ring: what was published before its end is still delivered.
  // Acquire pairs with the release of the service thread that marks it.
  const bool abandoned = ring->abandoned.load(std::memory_order_acquire);
  Message message;
  const RingConsumer::Peek seen = ring->ring.peek(&message);
  if (seen == RingConsumer::Peek::kEmpty) {
    ring->unbound_since_ns = 0;
    return abandoned ? end_abandoned(ring) : Step::kBlocked;
  }
  if (seen == RingConsumer::Peek::kBroken || is_foreign(*ring, message)) [[unlikely]]
    return end_broken(ring);
  Step step;
  if (ring->bond != nullptr && !from_peer(ring, message, &step)) {
    return abandoned ? end_abandoned(ring) : step;
  }
  ReceiveEntry* entry = posted_.front();
  const bool ready = entry != nullptr && ring->jfc->ring().has_room();
  // A sender that has gone waits for nobody.
  if (abandoned && (!ready || ((message.flags & kByReference) != 0 && took_back(*ring)))) {
    return end_abandoned(ring);
  }
  if (entry == nullptr) return wait_for_receive(ring, message);
  ring->rnr_since_ns = 0;
  if (!ready) ring->jfc->overflowed();
  return ready ? deliver(ring, message, entry, poll) : Step::kBlocked;
}

Receiver::Step Receiver::end_broken(IncomingRing* ring) {
  URMA_LOG_LIMITED(ERR, "process {} broke the rules of its ring to queue {}; the ring is closed",
                   ring->process->pid, ring->target.id);
  ring->ring.close(URMA_CR_REM_OPERATION_ERR);
  return Step::kFinished;
}

// A sender that still lives learns from the answers what was received, and that nothing else was.
Receiver::Step Receiver::end_abandoned(IncomingRing* ring) {
  ring->ring.close(URMA_CR_WR_FLUSH_ERR);
  return Step::kFinished;
}

bool Receiver::from_peer(IncomingRing* ring, const Message& message, Step* step) {
  const Bond& bond = *ring->bond;
  if (bound_to(bond, ring->sender.eid, ring->sender.id)) {
    ring->unbound_since_ns = 0;
    return true;
  }
  *step = Step::kBlocked;
  if (!bond.has_value()) {
    const uint64_t now = monotonic_ns();
    if (ring->unbound_since_ns == 0) ring->unbound_since_ns = now;
    if (now - ring->unbound_since_ns < kBindPatienceNs) return false;
  }
  *step = Step::kMoved;
  if (bond.has_value()) {
    URMA_LOG_FAILED("queue {:#x}: a message of id {:#x} is refused: the jetty is bound to id {:#x}",
                    ring->target.id, ring->sender.id, bond->id);
  }
  ring->ring.consume(message,
                     bond.has_value() ? URMA_CR_REM_ACCESS_ABORT_ERR : URMA_CR_ACK_TIMEOUT_ERR);
  return false;
}

Receiver::Step Receiver::wait_for_receive(IncomingRing* ring, const Message& message) {
  starved_ |= ring->jfc->armed();
  const bool first = ring->rnr_since_ns == 0;
  if (first) counters_.rnr.add(1);
  if (ring->rnr_limit_ns == UINT64_MAX) {
    ring->rnr_since_ns = kWaitsForEver;
    return Step::kBlocked;
  }
  const uint64_t now = monotonic_ns();
  if (first) ring->rnr_since_ns = now;
  if (now - ring->rnr_since_ns < ring->rnr_limit_ns) return Step::kBlocked;
  ring->rnr_since_ns = 0;
  // Mode UM loses messages as a matter of course.
  if (!ring->messages_only) {
    URMA_LOG_FAILED(
        "queue {:#x}: a message of {} bytes of id {:#x} is refused: no receive was posted for {} "
        "us",
        ring->target.id, message.length, ring->sender.id, ring->rnr_limit_ns / 1000);
  }
  ring->ring.consume(message, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
  return Step::kMoved;
}

inline Receiver::Step Receiver::deliver(IncomingRing* ring, const Message& message,
                                        ReceiveEntry* entry, Poll* poll) {
  const urma_cr_status_t local = check(entry, message);
  const bool plain = (message.flags & kByReference) == 0 &&
                     message.kind != MessageKind::kSendInvalidate && local == URMA_CR_SUCCESS;
  if (!plain) [[unlikely]]
    return deliver_specially(ring, message, entry, local, poll);
  scatter(*ring, message, entry);
  finish(ring, message, entry, local, URMA_CR_SUCCESS, poll);
  return Step::kMoved;
}

Receiver::Step Receiver::deliver_specially(IncomingRing* ring, const Message& message,
                                           ReceiveEntry* entry, urma_cr_status_t local,
                                           Poll* poll) {
  if (local == URMA_CR_LOC_ACCESS_ERR && device_ != nullptr && receives_by_device(entry)) {
    return begin_device_pull(ring, message, entry, poll);
  }
  if (local == URMA_CR_SUCCESS && (message.flags & kByReference) != 0) {
    if (begin_pull(ring, message)) return continue_pull(ring, poll);
    // What the sender described is not what it announced: nothing was received.
    ring->ring.consume(message, URMA_CR_REM_RESP_LEN_ERR);
    return Step::kMoved;
  }
  uint8_t remote = URMA_CR_SUCCESS;
  if (local == URMA_CR_LOC_LEN_ERR) {
    remote = URMA_CR_REM_RESP_LEN_ERR;
  } else if (local != URMA_CR_SUCCESS) {
    remote = URMA_CR_REM_OPERATION_ERR;
  } else if (!invalidate(*ring, message, invalidation_of(*ring, message))) {
    ring->ring.consume(message, URMA_CR_REM_ACCESS_ABORT_ERR);
    return Step::kMoved;
  } else {
    scatter(*ring, message, entry);
  }
  if (local != URMA_CR_SUCCESS) log_failure(*ring, message, entry, local);
  finish(ring, message, entry, local, remote, poll);
  return Step::kMoved;
}

bool Receiver::invalidate(const IncomingRing& ring, const Message& message,
                          const Invalidation& invalidation) {
  const auto key = std::bit_cast<TokenKey>(message.immediate);
  if (segments_->invalidate(invalidation.eid, key.token_id, invalidation.va, invalidation.len,
                            urma_token_t{key.token}, invalidation.ref)) {
    return true;
  }
  URMA_LOG_LIMITED(WARNING,
                   "process {} may not invalidate va {:#x} of token id {:#x}; its message is "
                   "refused",
                   ring.process->pid, invalidation.va, key.token_id);
  return false;
}

inline void Receiver::scatter(const IncomingRing& ring, const Message& message,
                              ReceiveEntry* entry) const {
  if (message.slots == 1 && entry->pieces == 1 && message.kind != MessageKind::kSendInvalidate)
      [[likely]] {
    return ring.ring.copy_slot(message,
                               reinterpret_cast<char*>(ReceiveQueue::pieces(entry)[0].addr));
  }
  uint32_t offset = prefix_of(message.kind);
  for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
    if (offset == message.payload) break;
    const uint32_t bytes = std::min(piece.len, message.payload - offset);
    ring.ring.copy_payload(message, offset, reinterpret_cast<void*>(piece.addr), bytes);
    offset += bytes;
  }
}

inline void Receiver::fill_record(const IncomingRing& ring, const Message& message,
                                  const ReceiveEntry& entry, urma_cr_status_t status,
                                  urma_cr_t* record) {
  *record = ring.record;
  record->status = status;
  record->user_ctx = entry.user_ctx;
  record->completion_len = status == URMA_CR_SUCCESS ? message.length : 0;
  if (message.kind == MessageKind::kSend) return;
  record->opcode = opcode_of(message.kind);
  if (message.kind == MessageKind::kSendInvalidate) [[unlikely]] {
    const auto key = std::bit_cast<TokenKey>(message.immediate);
    record->invalid_token = {key.token_id, {key.token}};
  } else {
    record->imm_data = message.immediate;
  }
}

void Receiver::finish(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
                      urma_cr_status_t local, uint8_t remote, Poll* poll) {
  bool kept = true;
  const bool solicited = (message.flags & kSolicited) != 0 || local != URMA_CR_SUCCESS;
  if (urma_cr_t* record = poll->place(ring->jfc); record != nullptr) {
    fill_record(*ring, message, *entry, local, record);
  } else {
    urma_cr_t left;
    fill_record(*ring, message, *entry, local, &left);
    kept = poll->leave(ring->jfc, left, solicited);
  }
  posted_.pop();
  counters_.ended(local, message.length);
  watch_limit(posted_.size());
  if (kept) {
    ring->jfc->completed(1, solicited);
  } else {
    lost(ring->jfc, ring->target);
  }
  ring->ring.consume(message, remote);
}

}  // namespace urma::local
