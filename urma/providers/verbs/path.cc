// SPDX-License-Identifier: MIT
//
// What becomes of a path's requests, and of its connection.
#include "urma/providers/verbs/path.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "urma/base/clock.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

// What a broken queue pair has to say comes within this time, or never.
constexpr uint64_t kDrainNs = 100'000'000;
// How often a target is asked that its program has not bound yet, and for how long.
constexpr uint64_t kAskAgainNs = 5'000'000;
constexpr uint64_t kBindPatienceNs = 4'000'000'000;
constexpr uint32_t kMaxFruitless = 3;
// How long the reason for which a connection of iWARP broke is waited for.
constexpr uint64_t kExplainNs = 4'000'000'000;

urma_cr_status_t status_of(ibv_wc_status status, OpKind kind) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return URMA_CR_SUCCESS;
    case IBV_WC_LOC_LEN_ERR:
      return URMA_CR_LOC_LEN_ERR;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return URMA_CR_LOC_ACCESS_ERR;
    case IBV_WC_WR_FLUSH_ERR:
      return URMA_CR_WR_FLUSH_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
      // The receiver of a message refuses its length, that of another request the request itself.
      return kind == OpKind::kSend ? URMA_CR_REM_RESP_LEN_ERR : URMA_CR_REM_UNSUPPORTED_REQ_ERR;
    case IBV_WC_REM_ACCESS_ERR:
      return URMA_CR_REM_ACCESS_ABORT_ERR;
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return URMA_CR_REM_OPERATION_ERR;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return URMA_CR_ACK_TIMEOUT_ERR;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return URMA_CR_RNR_RETRY_CNT_EXC_ERR;
    default:
      return URMA_CR_LOC_OPERATION_ERR;
  }
}

}  // namespace

VerbsPath::VerbsPath(VerbsSender* sender, RemoteQueue* target, uint32_t hint)
    : DevicePath(&sender->queue(), target, hint), sender_(sender), tag_(sender->enter(this)) {}

VerbsPath::~VerbsPath() {
  drop_connection();
  sender_->leave(tag_);
}

bool VerbsPath::advance() {
  more = false;
  sender_->poll_completions();
  if (!settled()) [[unlikely]]
    return advance_slowly();
  if (!is_open()) reopen();
  sender_->keep_armed();
  return false;
}

bool VerbsPath::advance_slowly() {
  follow_connection();
  const bool waiting = queue().state() == URMA_JETTY_STATE_READY && post_waiting();
  shut();
  if (state_ == State::kReady && settled()) reopen();
  sender_->keep_armed();
  return waiting;
}

void VerbsPath::completed(uint32_t mark, ibv_wc_status status) {
  const uint64_t at = done_ + static_cast<uint32_t>(mark - static_cast<uint32_t>(done_));
  // Of a connection that has gone.
  if (at > posted_) [[unlikely]]
    return;
  if (status == IBV_WC_SUCCESS) [[likely]] {
    retire(at);
  } else {
    failed(at, status);
  }
}

// The device is through with everything up to here.
void VerbsPath::retire(uint64_t upto) {
  if (upto == done_) return;
  sender_->give_credits(static_cast<uint32_t>(upto - done_));
  done_ = upto;
  fruitless_ = 0;
  while (under_way_ != 0 && first()->moved <= upto) {
    // An emulated atomic is the last one under way: nothing is posted behind it.
    if (under_way_ == 1 && emulating()) [[unlikely]] {
      if (continue_emulation(first())) return;
      continue;
    }
    end_first(URMA_CR_SUCCESS);
  }
}

// Completes the oldest request.
void VerbsPath::end_first(urma_cr_status_t status) {
  if (under_way_ != 0 && --under_way_ == 0) last_under_way_ = kNoEntry;
  asked_ = asked_notified_ = 0;
  queue().complete(take_first(), status);
}

void VerbsPath::failed(uint64_t at, ibv_wc_status status) {
  // Soft-iWARP says LOC_QP_OP_ERR of what TCP did not take any more.
  const bool flushed = status == IBV_WC_WR_FLUSH_ERR ||
                       (status == IBV_WC_LOC_QP_OP_ERR && sender_->device().iwarp());
  const bool known = std::exchange(flushed_, flushed_ || flushed);
  if (flushed && (failing_ || state_ == State::kDraining)) {
    drained_ |= at == drain_mark_;
    if (!known && sender_->device().iwarp()) retire(at - 1);
    return;
  }
  retire(at - 1);
  failing_ = true;
  shut();
  // What was flushed was not executed, and is for the next connection.
  if (under_way_ == 0 || flushed) return;
  // Nobody knows how much a receiver that does not answer has got.
  if (status == IBV_WC_RETRY_EXC_ERR) return end_all_under_way(URMA_CR_ACK_TIMEOUT_ERR);
  SendEntry* entry = first();
  if (status == IBV_WC_REM_ACCESS_ERR) {
    for (ImportedSegment* segment : {entry->remote, entry->notified}) {
      auto* region = static_cast<RemoteRegion*>(segment);
      if (region != nullptr) region->doubt(region->grant());
    }
  }
  if (emulation_ != nullptr) emulation_->loop.reset();
  fruitless_ = 0;
  // Not every device says so where a receive was too short. It ends with what its owner says.
  if (status == IBV_WC_REM_OP_ERR && entry->kind == OpKind::kSend) {
    return ask_for_fault(sender_->resources(), connection_);
  }
  end_first(status_of(status, entry->kind));
}

void VerbsPath::end_all_under_way(urma_cr_status_t status) {
  if (emulation_ != nullptr) emulation_->loop.reset();
  while (under_way_ != 0) end_first(status);
}

// Not while completions are handed out.
void VerbsPath::follow_connection() {
  if (state_ == State::kReady) [[likely]] {
    if (stands()) return;
    begin_drain();
  }
  if (state_ != State::kDraining) return;
  if (!drained_ && monotonic_ns() - drain_since_ns_ < kDrainNs) return;
  // The answer comes, or that there is none.
  if (connection_->fault.load() == Connection::kFaultAsked) return;
  if (explained()) finish_drain();
}

// A device of iWARP may forget what is posted to a connection that has ended, and what it had
// before may have been executed. Then somebody else finds out why it ended, and says it by
// `broken`.
bool VerbsPath::explained() const {
  if (!sender_->device().iwarp() || under_way_ == 0 || flushed_) return true;
  return connection_->broken.load() != URMA_CR_SUCCESS ||
         monotonic_ns() - drain_since_ns_ >= kExplainNs;
}

// Everything that the queue pair has is flushed; a mark behind it says when.
void VerbsPath::begin_drain() {
  state_ = State::kDraining;
  failing_ = drained_ = false;
  drain_since_ns_ = monotonic_ns();
  drain_mark_ = 0;
  QueuePair& pair = *connection_->pair;
  // A queue pair of iWARP takes requests then, and forgets them.
  if (!pair.fail() || sender_->device().iwarp()) {
    drained_ = true;
    return;
  }
  ibv_send_wr mark = {};
  mark.opcode = IBV_WR_RDMA_WRITE;
  if (post_one(&mark)) drain_mark_ = posted_;
  drained_ = drain_mark_ == 0;
}

void VerbsPath::finish_drain() {
  connection_->pair->close();
  // What completed before, and has not been looked at.
  sender_->poll_completions();
  const auto fault = static_cast<urma_cr_status_t>(connection_->fault.load());
  if (fault != URMA_CR_SUCCESS && under_way_ != 0) end_first(fault);
  auto broken = static_cast<urma_cr_status_t>(connection_->broken.load());
  if (connection_->only_unknown.load() && flushed_) broken = URMA_CR_SUCCESS;
  if (broken == URMA_CR_SUCCESS && sender_->device().iwarp() && !flushed_) {
    broken = URMA_CR_REM_OPERATION_ERR;
  }
  if (broken != URMA_CR_SUCCESS) end_all_under_way(broken);
  if (under_way_ != 0 && ++fruitless_ >= kMaxFruitless) {
    end_all_under_way(URMA_CR_REM_OPERATION_ERR);
    fruitless_ = 0;
  }
  if (emulation_ != nullptr) emulation_->loop.reset();
  uint32_t again = under_way_;
  for (SendEntry* entry = again != 0 ? first() : nullptr; again != 0; --again) {
    entry->state = SendState::kPending;
    if (again != 1) entry = &queue().at(entry->next);
  }
  drop_connection();
}

// With nothing under way that is still of interest.
void VerbsPath::drop_connection() {
  if (connection_ != nullptr) end_connection(sender_->resources(), connection_);
  connection_.reset();
  shut();
  state_ = State::kNone;
  failing_ = drained_ = flushed_ = false;
  sender_->give_credits(static_cast<uint32_t>(posted_ - done_));
  done_ = signalled_ = posted_;
  under_way_ = 0;
  last_under_way_ = kNoEntry;
}

void VerbsPath::flush() {
  sender_->poll_completions();
  if (under_way_ != 0) {
    if (state_ == State::kReady) begin_drain();
    while (!drained_ && monotonic_ns() - drain_since_ns_ < kDrainNs) {
      sender_->poll_completions();
      if (!drained_) ::sched_yield();
    }
    connection_->pair->close();
    sender_->poll_completions();
    end_all_under_way(URMA_CR_WR_FLUSH_ERR);
  }
  drop_connection();
  while (!idle()) end_first(URMA_CR_WR_FLUSH_ERR);
}

void VerbsPath::close_unwanted() {
  if (connection_ == nullptr || !connection_->unwanted.load(std::memory_order_relaxed)) return;
  sender_->poll_completions();
  if (state_ == State::kReady && idle()) drop_connection();
}

// What this process has not the means for fails what waits.
void VerbsPath::connect() {
  try {
    connection_ = std::make_shared<Connection>();
    begin_connection();
    state_ = State::kConnecting;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "queue {:#x} cannot send to id {:#x}: {}", sender_->id().id,
                     target()->id.id, error.what());
    drop_connection();
    while (!idle()) end_first(URMA_CR_LOC_OPERATION_ERR);
  }
}

void VerbsPath::begin_connection() {
  ConnectRequest& request = connection_->request;
  request.connection = sender_->resources().connections->next_number();
  request.source = sender_->name();
  request.target = {target()->id.eid, target()->id.id, static_cast<uint32_t>(target()->type),
                    static_cast<uint32_t>(sender_->config().trans_mode), target()->token.token};
  request.hint = hint();
  request.rnr_retry = sender_->config().rnr_retry;
  request.ack_timeout = sender_->config().err_timeout;
  make_connection(sender_->resources(), connection_, sender_->pump(), sender_->limits(),
                  sender_->patience());
}

// False while the connection is made. Where it cannot be, nothing waits any more.
bool VerbsPath::connected() {
  if (state_ == State::kReady) [[likely]]
    return true;
  if (state_ == State::kDraining) return false;
  if (state_ == State::kNone) {
    if (asked_again_ns_ == 0 || monotonic_ns() >= asked_again_ns_) connect();
    return false;
  }
  if (!connection_->settled.load(std::memory_order_acquire)) return false;
  if (connection_->status == URMA_CR_SUCCESS && !connection_->answer.later()) {
    state_ = State::kReady;
    asked_again_ns_ = patient_since_ns_ = 0;
    sends_ = connection_->pair->sends() - kSpareSends;
    signal_every_ = std::max(1U, std::min(sends_, sender_->config().depth) / 4);
    letters_ = 0;
    target()->members.store(connection_->answer.reply.members, std::memory_order_relaxed);
    return true;
  }
  const uint64_t now = monotonic_ns();
  if (patient_since_ns_ == 0) patient_since_ns_ = now;
  const bool later = connection_->answer.later() && now - patient_since_ns_ < kBindPatienceNs;
  const urma_cr_status_t status =
      connection_->answer.later() ? URMA_CR_ACK_TIMEOUT_ERR : connection_->status;
  if (!later) {
    URMA_LOG_LIMITED(
        WARNING, "queue {:#x} cannot send to id {:#x}: {}", sender_->id().id, target()->id.id,
        connection_->answer.later() ? "it is not bound" : answer_text(connection_->answer.answer));
  }
  drop_connection();
  asked_again_ns_ = later ? now + kAskAgainNs : 0;
  if (later) return false;
  patient_since_ns_ = 0;
  while (!idle()) end_first(status);
  return false;
}

// True where another round is under way.
bool VerbsPath::continue_emulation(SendEntry* entry) {
  Emulation& emulation = *emulation_;
  urma_cr_status_t status = URMA_CR_SUCCESS;
  switch (emulation.loop->found(emulation.found)) {
    case AtomicLoop::Next::kAgain:
      if (post_round(entry)) return true;
      status = URMA_CR_LOC_OPERATION_ERR;
      break;
    case AtomicLoop::Next::kHopeless:
      URMA_LOG_LIMITED(WARNING,
                       "an atomic of queue {:#x} at {:#x} lost against others too often and fails",
                       sender_->id().id, entry->remote_addr);
      status = URMA_CR_REM_OPERATION_ERR;
      break;
    case AtomicLoop::Next::kDone: {
      const LocalPiece& result = SendQueue::pieces(entry)[0];
      const uint64_t old = emulation.loop->old_value();
      const auto narrow = static_cast<uint32_t>(old);
      uint32_t lkey;
      if (!sender_->resources().keys->find(result.ref, &lkey)) {
        status = URMA_CR_LOC_ACCESS_ERR;
      } else if (result.len == sizeof(narrow)) {
        std::memcpy(reinterpret_cast<void*>(result.addr), &narrow, sizeof(narrow));
      } else {
        std::memcpy(reinterpret_cast<void*>(result.addr), &old, sizeof(old));
      }
      break;
    }
  }
  emulation.loop.reset();
  end_first(status);
  return false;
}

}  // namespace urma::verbs
