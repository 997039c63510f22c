// SPDX-License-Identifier: MIT
//
// How the connection of a path ends, and what becomes of the requests that were under way.
#include <sched.h>

#include <algorithm>

#include "urma/base/clock.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/path.h"

namespace urma::verbs {
namespace {

// What a broken queue pair has to say comes within this time, or never.
constexpr uint64_t kDrainNs = 100'000'000;
constexpr uint32_t kMaxFruitless = 3;
// So long after its way has opened, a message that finds a receive has got there.
constexpr uint64_t kLingerNs = 100'000'000;
// How long the reason for which a connection of iWARP broke is waited for.
constexpr uint64_t kExplainNs = 4'000'000'000;
// How often a receiver that cannot say yet what it has received is asked, and for how long.
constexpr uint64_t kCountAgainNs = 2'000'000;
constexpr uint64_t kCountPatienceNs = 500'000'000;

bool is_atomic(const SendEntry& entry) { return entry.kind == OpKind::kAtomic; }

// Whether more than its having been executed is to be known of a request.
bool has_result(const SendEntry& entry) { return entry.kind == OpKind::kRead || is_atomic(entry); }

}  // namespace

// Not while completions are handed out.
void Path::follow_connection() {
  if (carries()) [[likely]] {
    if (intact()) return;
    begin_drain();
  }
  if (state_ == State::kSettling) return follow_count();
  if (state_ != State::kDraining) return;
  if (!drained_ && monotonic_ns() - drain_since_ns_ < kDrainNs) return;
  // The answer comes, or that there is none.
  if (connection_->fault.load() == Connection::kFaultAsked) return;
  if (explained()) end_drain();
}

// Of what is not proven, a device of iWARP cannot say how much was executed, nor why the connection
// has ended. Somebody else finds that out, and says it by `broken`.
bool Path::explained() const {
  return proof_ == 0 || under_way_ == 0 || connection_->broken.load() != URMA_CR_SUCCESS ||
         monotonic_ns() - drain_since_ns_ >= kExplainNs;
}

// Everything that the queue pair has is flushed; a mark behind it says when.
void Path::begin_drain() {
  // Or a poll that takes the short way never sees what becomes of it.
  shut();
  state_ = State::kDraining;
  failing_ = drained_ = false;
  drain_since_ns_ = monotonic_ns();
  drain_mark_ = 0;
  QueuePair& pair = *connection_->pair;
  // A queue pair of iWARP takes requests then, and forgets them.
  if (!pair.fail() || proof_ != 0 || sender_->pump()->lost()) {
    drained_ = true;
    return;
  }
  ibv_send_wr mark = {};
  mark.opcode = IBV_WR_RDMA_WRITE;
  if (post_one(&mark)) drain_mark_ = posted_;
  drained_ = drain_mark_ == 0;
}

void Path::end_drain() {
  connection_->pair->close();
  // What completed before, and has not been looked at.
  sender_->poll_completions();
  forget_requests();
  const bool standing = connection_->broken.load() == URMA_CR_SUCCESS && proof_ == 0;
  // A message may have been received though this end does not know.
  if ((doomed_ != 0 || cut_) && standing && have_under_way(takes_receive)) return ask_count();
  conclude();
}

void Path::ask_count() {
  state_ = State::kSettling;
  count_asked_ns_ = count_since_ns_ = monotonic_ns();
  settle_connection(sender_->resources(), connection_);
}

void Path::follow_count() {
  switch (connection_->count.load(std::memory_order_acquire)) {
    case Count::kAsked:
      return;
    case Count::kLater: {
      const uint64_t now = monotonic_ns();
      if (now - count_since_ns_ >= kCountPatienceNs) break;
      if (now - count_asked_ns_ < kCountAgainNs) return;
      count_asked_ns_ = now;
      return settle_connection(sender_->resources(), connection_);
    }
    default:
      break;
  }
  conclude();
}

// The queue pair is closed, and all that can be known of its requests is.
void Path::conclude() {
  // SYNC(received): acquire pairs with the release of who has stored kKnown.
  const bool counted = connection_->count.load(std::memory_order_acquire) == Count::kKnown;
  if (counted) end_received(connection_->received.load(std::memory_order_relaxed));
  uint32_t broken = connection_->broken.load();
  if (proof_ != 0 && under_way_ != 0) {
    if (broken == URMA_CR_SUCCESS) broken = URMA_CR_REM_OPERATION_ERR;
    // Any of them may have been the culprit.
    SendEntry* entry = first();
    for (uint32_t i = 0; i < under_way_; ++i, entry = next_of(*entry)) doubt_segments(*entry);
  }
  const auto fault = static_cast<urma_cr_status_t>(connection_->fault.load());
  const bool flushing = doomed_ != 0 && !lingers_;
  if (!flushing && fault != URMA_CR_SUCCESS && under_way_ != 0) end_first(fault);
  end_doomed();
  if (broken == kPostAgain || (cut_ && broken == URMA_CR_SUCCESS)) {
    // Whether an atomic was executed, nobody can say; nor, uncounted, whether a message was
    // received.
    const bool doubtful = have_under_way(is_atomic) || (!counted && have_under_way(takes_receive));
    if (doubtful) end_all_under_way(URMA_CR_REM_OPERATION_ERR);
  } else if (broken != URMA_CR_SUCCESS) {
    end_all_under_way(static_cast<urma_cr_status_t>(broken));
  } else if (under_way_ != 0 && ++fruitless_ >= kMaxFruitless) {
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

// Messages are received in order, and behind all that was posted before them.
void Path::end_received(uint64_t total) {
  uint64_t more = total > messages_ ? total - messages_ : 0;
  uint32_t through = 0;
  const SendEntry* entry = under_way_ != 0 ? first() : nullptr;
  for (uint32_t seen = 1; seen <= under_way_ && more != 0; ++seen) {
    if (takes_receive(*entry)) {
      --more;
      through = seen;
    }
    entry = next_of(*entry);
  }
  for (; through != 0; --through) {
    const bool lost = has_result(*first());
    const urma_cr_status_t status = doomed_ != 0 ? URMA_CR_WR_FLUSH_ERR : URMA_CR_REM_OPERATION_ERR;
    end_first(lost ? status : URMA_CR_SUCCESS);
  }
}

// A peer that is gone ends them before the flush does.
void Path::end_doomed() {
  const bool lost = connection_ != nullptr && connection_->broken.load() == URMA_CR_ACK_TIMEOUT_ERR;
  while (doomed_ != 0) end_first(lost ? URMA_CR_ACK_TIMEOUT_ERR : URMA_CR_WR_FLUSH_ERR);
}

bool Path::have_under_way(bool (*which)(const SendEntry&)) const {
  const SendEntry* entry = under_way_ != 0 ? first() : nullptr;
  for (uint32_t left = under_way_; left != 0; --left) {
    if (which(*entry)) return true;
    entry = next_of(*entry);
  }
  return false;
}

// With nothing under way that is still of interest.
void Path::drop_connection() {
  if (connection_ != nullptr) {
    URMA_LOG(DEBUG, "the connection of queue {:#x} to id {:#x} closes", sender_->id().id,
             target()->id.id);
    end_connection(sender_->resources(), connection_);
  }
  shut();
  connection_.reset();
  state_ = State::kNone;
  failing_ = drained_ = cut_ = false;
  forget_requests();
  under_way_ = 0;
  last_under_way_ = kNoEntry;
}

// Of a queue pair that has gone. What still completes is nobody's.
void Path::forget_requests() {
  sender_->give_credits(static_cast<uint32_t>(posted_ - done_));
  done_ = signalled_ = posted_;
}

void Path::flush() {
  sender_->poll_completions();
  if (!linger()) drop();
}

// The device has none of them any more behind that.
void Path::drop() {
  sender_->poll_completions();
  doomed_ = outstanding;
  flush_doomed();
}

// An opening under way ends by itself: within URMA_VERBS_TIMEOUT_MS where the peer is silent.
bool Path::linger() {
  const bool leaving = carries() && intact() && (lingers_ || done_ < waited_upto_) &&
                       monotonic_ns() - opened_ns_ < kLingerNs;
  const bool opening = state_ == State::kConnecting;
  if (!(opening || leaving) || !may_linger(queue().state())) return false;
  doomed_ = outstanding;
  lingers_ = true;
  shut();
  return true;
}

void Path::follow_last() {
  // What broke meanwhile tells what was received.
  if (ends()) return;
  if (doomed_ == 0) {
    end_lingering();
  } else if (!goes_on(queue().state()) || (carries() && monotonic_ns() - opened_ns_ >= kLingerNs)) {
    flush_doomed();
  } else if (nothing_waits()) {
    nudge();
  }
}

// All that was doomed has ended. Not while completions are handed out.
void Path::end_lingering() {
  if (!lingers_ || doomed_ != 0 || ends()) return;
  lingers_ = false;
  if (idle()) drop_connection();
}

void Path::flush_doomed() {
  lingers_ = false;
  // Those behind what is being counted end with it.
  if (state_ == State::kSettling) return;
  if (under_way_ == 0) {
    end_doomed();
    return drop_connection();
  }
  if (carries()) {
    begin_drain();
    cut_ = true;
  }
  while (!drained_ && monotonic_ns() - drain_since_ns_ < kDrainNs) {
    sender_->poll_completions();
    if (!drained_) ::sched_yield();
  }
  end_drain();
}

bool Path::close_unwanted() {
  end_lingering();
  if (connection_ == nullptr || !connection_->unwanted.load(std::memory_order_relaxed)) {
    return false;
  }
  sender_->poll_completions();
  if (carries() && idle()) {
    drop_connection();
    return false;
  }
  shut();
  return true;
}

}  // namespace urma::verbs
