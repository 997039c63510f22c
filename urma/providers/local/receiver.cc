// SPDX-License-Identifier: MIT
#include "urma/providers/local/receiver.h"

#include <algorithm>
#include <array>

#include "urma/base/clock.h"
#include "urma/base/log.h"
#include "urma/providers/local/iovecs.h"

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

}  // namespace

Receiver::Receiver(const urma_jfr_cfg_t& cfg, const SegmentTable* segments, CopyEngine* copy)
    : segments_(segments),
      copy_(copy),
      rnr_timer_(cfg.min_rnr_timer),
      lock_(cfg.flag.bs.lock_free != 0),
      posted_(cfg.depth, cfg.max_sge) {}

uint64_t Receiver::rnr_limit_ns(uint32_t rnr_retry) const {
  if (rnr_retry >= kRnrForEver) return UINT64_MAX;
  return rnr_retry * kRnrTimer[rnr_timer_ % kRnrTimer.size()] * kRnrUnitNs;
}

urma_status_t Receiver::post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) {
  OwnerScope scope(lock_);
  for (; wr != nullptr; wr = wr->next) {
    const urma_status_t status = posted_.post(*wr);
    if (status != URMA_SUCCESS) {
      *bad_wr = wr;
      return status;
    }
  }
  return URMA_SUCCESS;
}

int Receiver::collect(CompletionQueue* poller, int /*count*/, urma_cr_t* /*cr*/) {
  if (ring_count_.load(std::memory_order_relaxed) == 0) return 0;
  OwnerScope scope(lock_);
  progress(poller);
  return 0;
}

void Receiver::try_progress() {
  if (ring_count_.load(std::memory_order_relaxed) == 0 || !lock_.try_enter_foreign()) return;
  ForeignScope scope(lock_, std::adopt_lock);
  progress(nullptr);
}

bool Receiver::serve() {
  if (ring_count_.load(std::memory_order_relaxed) == 0) return false;
  ForeignScope scope(lock_);
  return progress(nullptr);
}

void Receiver::quiesce() { ForeignScope scope(lock_); }

void Receiver::add_ring(std::shared_ptr<IncomingRing> ring) {
  ForeignScope scope(lock_);
  rings_.push_back(std::move(ring));
  ring_count_.store(static_cast<uint32_t>(rings_.size()), std::memory_order_relaxed);
}

void Receiver::close_rings(uint64_t user_data) {
  ForeignScope scope(lock_);
  std::erase_if(rings_, [&](const std::shared_ptr<IncomingRing>& ring) {
    if (ring->target.user_data != user_data) return false;
    ring->ring.close(URMA_CR_REM_ACCESS_ABORT_ERR);
    if (pulling_ == ring.get()) pulling_ = nullptr;
    return true;
  });
  ring_count_.store(static_cast<uint32_t>(rings_.size()), std::memory_order_relaxed);
}

bool Receiver::progress(CompletionQueue* poller) {
  bool moved = false;
  // Each time from another ring on: where receives are scarce, the first ring takes most of them.
  ++first_ring_;
  const size_t count = rings_.size();
  bool finished = false;
  for (size_t i = 0; i < count; ++i) {
    std::shared_ptr<IncomingRing>& ring = rings_[(first_ring_ + i) % count];
    if (pulling_ != nullptr && pulling_ != ring.get()) continue;
    if (turn(ring.get(), poller, &moved) != Step::kFinished) continue;
    if (pulling_ == ring.get()) pulling_ = nullptr;
    ring.reset();
    finished = true;
  }
  if (finished) {
    std::erase(rings_, nullptr);
    ring_count_.store(static_cast<uint32_t>(rings_.size()), std::memory_order_relaxed);
  }
  return moved;
}

Receiver::Step Receiver::turn(IncomingRing* ring, CompletionQueue* poller, bool* moved) {
  Step step = Step::kBlocked;
  for (int message = 0; message < kMessagesPerTurn; ++message) {
    step = ring->pull != nullptr ? continue_pull(ring, poller) : advance(ring, poller);
    if (step != Step::kMoved) break;
    *moved = true;
    // A part of a large message is a turn.
    if (ring->pull != nullptr) break;
  }
  return step;
}

Receiver::Step Receiver::advance(IncomingRing* ring, CompletionQueue* poller) {
  // Before the look into the ring: what was published before its end is still delivered.
  // Acquire pairs with the release of the service thread that marks it.
  const bool abandoned = ring->abandoned.load(std::memory_order_acquire);
  Message message;
  switch (ring->ring.peek(&message)) {
    case RingConsumer::Peek::kEmpty:
      ring->ring.answer_wanted();
      return abandoned ? Step::kFinished : Step::kBlocked;
    case RingConsumer::Peek::kBroken:
      URMA_LOG_LIMITED(ERR,
                       "process {} broke the rules of its ring to queue {}; the ring is closed",
                       ring->process->pid, ring->target.id);
      ring->ring.close(URMA_CR_REM_OPERATION_ERR);
      return Step::kFinished;
    case RingConsumer::Peek::kMessage:
      break;
  }
  ReceiveEntry* entry = posted_.front();
  const bool ready = entry != nullptr && ring->jfc->ring().has_room();
  // A sender that has gone waits for nobody, and has taken along what it referred to.
  if (abandoned && (!ready || (message.flags & kByReference) != 0)) return Step::kFinished;
  if (entry == nullptr) return wait_for_receive(ring, message);
  ring->rnr_since_ns = 0;
  return ready ? deliver(ring, message, entry, poller) : Step::kBlocked;
}

Receiver::Step Receiver::wait_for_receive(IncomingRing* ring, const Message& message) {
  if (ring->rnr_limit_ns == UINT64_MAX) return Step::kBlocked;
  const uint64_t now = monotonic_ns();
  if (ring->rnr_since_ns == 0) ring->rnr_since_ns = now;
  if (now - ring->rnr_since_ns < ring->rnr_limit_ns) return Step::kBlocked;
  ring->rnr_since_ns = 0;
  ring->ring.consume(message, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
  return Step::kMoved;
}

urma_cr_status_t Receiver::check(ReceiveEntry* entry, const Message& message) const {
  if (message.length > entry->bytes) return URMA_CR_LOC_LEN_ERR;
  for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
    if (piece.len != 0 && (!piece.valid || !segments_->alive(piece.ref))) {
      return URMA_CR_LOC_ACCESS_ERR;
    }
  }
  return URMA_CR_SUCCESS;
}

Receiver::Step Receiver::deliver(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
                                 CompletionQueue* poller) {
  const urma_cr_status_t local = check(entry, message);
  if (local == URMA_CR_SUCCESS && (message.flags & kByReference) != 0) {
    if (begin_pull(ring, message)) return continue_pull(ring, poller);
    // What the sender described is not what it announced: nothing was received.
    ring->ring.consume(message, URMA_CR_REM_RESP_LEN_ERR);
    return Step::kMoved;
  }
  uint8_t remote = URMA_CR_SUCCESS;
  if (local == URMA_CR_LOC_LEN_ERR) {
    remote = URMA_CR_REM_RESP_LEN_ERR;
  } else if (local != URMA_CR_SUCCESS) {
    remote = URMA_CR_REM_OPERATION_ERR;
  } else {
    scatter(*ring, message, entry);
  }
  finish(ring, message, entry, local, remote, poller);
  return Step::kMoved;
}

void Receiver::scatter(const IncomingRing& ring, const Message& message,
                       ReceiveEntry* entry) const {
  uint32_t offset = 0;
  for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
    if (offset == message.length) break;
    const uint32_t bytes = std::min(piece.len, message.length - offset);
    ring.ring.copy_payload(message, offset, reinterpret_cast<void*>(piece.addr), bytes);
    offset += bytes;
  }
}

bool Receiver::begin_pull(IncomingRing* ring, const Message& message) {
  auto pull = std::make_unique<Pull>();
  pull->message = message;
  pull->count = message.payload / sizeof(PayloadPiece);
  if (pull->count > pull->pieces.size()) return false;
  ring->ring.copy_payload(message, 0, pull->pieces.data(), message.payload);
  uint64_t announced = 0;
  for (uint32_t i = 0; i < pull->count; ++i) {
    if (pull->pieces[i].len > message.length) return false;
    announced += pull->pieces[i].len;
  }
  if (announced != message.length) return false;
  ring->pull = std::move(pull);
  pulling_ = ring;
  return true;
}

// Copies the next part of a message by reference, and finishes it with the last one.
Receiver::Step Receiver::continue_pull(IncomingRing* ring, CompletionQueue* poller) {
  // Acquire pairs with the release of the service thread, as in advance().
  if (ring->abandoned.load(std::memory_order_acquire)) return Step::kFinished;
  // The analyzer loses sight of begin_pull(). NOLINTNEXTLINE(clang-analyzer-cplusplus.Move)
  Pull& pull = *ring->pull;
  ReceiveEntry* entry = posted_.front();
  const uint64_t window = std::min<uint64_t>(pull.message.length - pull.moved, kCopyPerTurn);
  const urma_cr_status_t local = check(entry, pull.message);
  urma_cr_status_t remote = URMA_CR_REM_OPERATION_ERR;
  if (local == URMA_CR_SUCCESS) {
    IovecList from;
    IovecList into;
    for (uint32_t i = 0; i < pull.count; ++i) {
      from.add(pull.pieces[i].addr, pull.pieces[i].len, pull.moved, window);
    }
    for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
      into.add(piece.addr, piece.len, pull.moved, window);
    }
    uint64_t moved = 0;
    remote = copy_->copy(Direction::kRead, *ring->process, into.list(), from.list(), &moved);
    pull.moved += moved;
    if (remote == URMA_CR_SUCCESS && pull.moved < pull.message.length) return Step::kMoved;
  }
  const std::unique_ptr<Pull> ended = std::move(ring->pull);
  pulling_ = nullptr;
  if (local == URMA_CR_SUCCESS && remote != URMA_CR_SUCCESS) {
    // The sender's memory failed, so nothing was received and the receive stays posted.
    ring->ring.consume(ended->message, remote);
  } else {
    finish(ring, ended->message, entry, local, static_cast<uint8_t>(remote), poller);
  }
  return Step::kMoved;
}

void Receiver::finish(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
                      urma_cr_status_t local, uint8_t remote, CompletionQueue* poller) {
  urma_cr_t record = {};
  record.status = local;
  record.user_ctx = entry->user_ctx;
  record.opcode = URMA_CR_OPC_SEND;
  record.flag.bs.s_r = 1;
  record.flag.bs.jetty = ring->target.jetty ? 1 : 0;
  record.completion_len = local == URMA_CR_SUCCESS ? message.length : 0;
  record.local_id = ring->target.id;
  record.remote_id = ring->sender;
  record.tpn = ring->sender.id;
  record.user_data = ring->target.user_data;
  posted_.pop();
  // There was room before the copy, and where another thread has taken it since, the program let
  // its JFC overflow.
  if (!ring->jfc->ring().push(record, ring->jfc == poller)) {
    URMA_LOG_LIMITED(ERR,
                     "jfc {}: overflow, the completion of a receive on queue {} is lost; make "
                     "the JFC as deep as its queues together",
                     ring->jfc->jfc_id.id, ring->target.id);
  }
  ring->ring.consume(message, remote);
}

}  // namespace urma::local
