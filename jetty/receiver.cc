// SPDX-License-Identifier: MIT
#include "jetty/receiver.h"

#include <algorithm>

#include "urma/base/log.h"

namespace urma {

Receiver::Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject)
    : identity_(identity), jfc_(static_cast<CompletionQueue*>(cfg.jfc)), subject_(subject) {}

void Receiver::set_state(urma_jfr_state_t state) {
  ForeignScope scope(lock_);
  if (in_state(state)) return;
  const bool was_ready = in_state(URMA_JFR_STATE_READY);
  if (state == URMA_JFR_STATE_READY) open();
  state_.store(state, std::memory_order_relaxed);
  if (state == URMA_JFR_STATE_READY) return;
  if (was_ready) close_all();
  turn_away();
}

urma_jfr_state_t Receiver::state() {
  ForeignScope scope(lock_);
  return state_.load(std::memory_order_relaxed);
}

void Receiver::turn_away() {
  to_flush_ = list_posted();
  if (in_state(URMA_JFR_STATE_RESET)) {
    for (; to_flush_ != 0; --to_flush_) {
      drop_oldest();
      dropped_.add(1);
    }
  }
  Poll nobody;
  flush_posted(&nobody);
}

bool Receiver::flush_posted(Poll* poll) {
  uint32_t flushed = 0;
  for (; to_flush_ != 0; ++flushed, --to_flush_) {
    urma_cr_t record = {};
    record.status = URMA_CR_WR_FLUSH_ERR;
    record.user_ctx = oldest_posted();
    record.flag.bs.s_r = 1;
    record.local_id = identity_.id;
    record.user_data = identity_.user_data;
    if (urma_cr_t* place = poll->place(jfc_); place != nullptr) {
      *place = record;
    } else if (!jfc_->ring().push(record, /*solicited=*/true)) {
      break;
    }
    drop_oldest();
    counters_.ended(URMA_CR_WR_FLUSH_ERR, 0);
  }
  note_flush();
  if (flushed != 0) jfc_->completed(flushed, true);
  return flushed != 0;
}

void Receiver::report(urma_ext_queue_t* queue) const {
  counters_.report(queue);
  queue->state = state_.load(std::memory_order_relaxed);
  // Counts change during the reads, so more may appear to have gone than to have come.
  const uint64_t gone = queue->completions + dropped_.get();
  queue->fill = queue->posts > gone ? static_cast<uint32_t>(queue->posts - gone) : 0;
  report_ways(queue);
}

void Receiver::set_limit(uint32_t limit) {
  ForeignScope scope(lock_);
  keep_limit({subject_, URMA_EVENT_JFR_LIMIT, limit});
  arm_limit();
}

void Receiver::set_limit_of(EventSubject* jetty, uint32_t limit) {
  ForeignScope scope(lock_);
  keep_limit({jetty, URMA_EVENT_JETTY_LIMIT, limit});
}

uint32_t Receiver::limit_of(const EventSubject* subject) {
  ForeignScope scope(lock_);
  for (const Limit& limit : limits_) {
    if (limit.subject == subject) return limit.receives;
  }
  return 0;
}

void Receiver::keep_limit(const Limit& limit) {
  std::erase_if(limits_, [&](const Limit& old) { return old.subject == limit.subject; });
  if (limit.receives != 0) limits_.push_back(limit);
  find_highest_limit();
  watch_limit(count_posted());
}

void Receiver::find_highest_limit() {
  limit_ = 0;
  for (const Limit& limit : limits_) limit_ = std::max(limit_, limit.receives);
}

void Receiver::reach_limits(uint32_t posted) {
  std::erase_if(limits_, [posted](const Limit& limit) {
    if (posted >= limit.receives) return false;
    limit.subject->raise(limit.event);
    return true;
  });
  find_highest_limit();
}

// There was room before the copy; if another thread has taken it since, the program let its JFC
// overflow.
void Receiver::lost(CompletionQueue* jfc, const QueueIdentity& queue) {
  URMA_LOG_LIMITED(ERR,
                   "jfc {}: overflow, the completion of a receive on queue {} is lost; make the "
                   "JFC as deep as its queues together",
                   jfc->jfc_id.id, queue.id);
  jfc->overflowed();
}

}  // namespace urma
