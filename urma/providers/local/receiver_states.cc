// SPDX-License-Identifier: MIT
//
// The states of a JFR, and its limit.
#include <algorithm>

#include "urma/providers/local/receiver.h"

namespace urma::local {

void Receiver::set_state(urma_jfr_state_t state) {
  ForeignScope scope(lock_);
  if (in_state(state)) return;
  state_.store(state, std::memory_order_relaxed);
  if (state != URMA_JFR_STATE_READY) {
    close_all();
    turn_away();
  }
  count_rings();
}

urma_jfr_state_t Receiver::state() {
  ForeignScope scope(lock_);
  return state_.load(std::memory_order_relaxed);
}

void Receiver::report(urma_ext_queue_t* queue) const {
  counters_.report(queue);
  queue->state = state_.load(std::memory_order_relaxed);
  // Counted while they change, so what has gone may be more than what has come.
  const uint64_t gone = queue->completions + dropped_.get();
  queue->fill = queue->posts > gone ? static_cast<uint32_t>(queue->posts - gone) : 0;
}

void Receiver::set_limit(uint32_t limit) { set_limit({subject_, URMA_EVENT_JFR_LIMIT, limit}); }

uint32_t Receiver::limit() { return limit_of(subject_); }

void Receiver::set_limit_of(EventSubject* jetty, uint32_t limit) {
  set_limit({jetty, URMA_EVENT_JETTY_LIMIT, limit});
}

uint32_t Receiver::limit_of(const EventSubject* subject) {
  ForeignScope scope(lock_);
  for (const Limit& limit : limits_) {
    if (limit.subject == subject) return limit.receives;
  }
  return 0;
}

void Receiver::set_limit(const Limit& limit) {
  ForeignScope scope(lock_);
  std::erase_if(limits_, [&](const Limit& old) { return old.subject == limit.subject; });
  if (limit.receives != 0) limits_.push_back(limit);
  find_highest_limit();
  watch_limit();
}

void Receiver::find_highest_limit() {
  limit_ = 0;
  for (const Limit& limit : limits_) limit_ = std::max(limit_, limit.receives);
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

void Receiver::reach_limit() {
  std::erase_if(limits_, [this](const Limit& limit) URMA_REQUIRES(lock_) {
    if (posted_.size() >= limit.receives) return false;
    limit.subject->raise(limit.event);
    return true;
  });
  find_highest_limit();
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

// What is posted to a queue that is not READY.
void Receiver::turn_away() {
  if (in_state(URMA_JFR_STATE_RESET)) {
    for (; posted_.front() != nullptr; dropped_.add(1)) posted_.pop();
    to_flush_ = 0;
    return;
  }
  to_flush_ = posted_.size();
  Poll nobody;
  flush_posted(&nobody);
}

// As many as the JFC has room for; a poll of it goes on.
bool Receiver::flush_posted(Poll* poll) {
  uint32_t flushed = 0;
  for (; to_flush_ != 0; ++flushed, --to_flush_) {
    urma_cr_t record = {};
    record.status = URMA_CR_WR_FLUSH_ERR;
    record.user_ctx = posted_.front()->user_ctx;
    record.flag.bs.s_r = 1;
    record.local_id = identity_.id;
    record.user_data = identity_.user_data;
    if (urma_cr_t* place = poll->place(jfc_); place != nullptr) {
      *place = record;
    } else if (!poll->leave(jfc_, record, /*solicited=*/true)) {
      break;
    }
    posted_.pop();
    counters_.ended(URMA_CR_WR_FLUSH_ERR, 0);
  }
  count_rings();
  if (flushed != 0) jfc_->completed(flushed, true);
  return flushed != 0;
}

}  // namespace urma::local
