// SPDX-License-Identifier: MIT
#include "jetty/completion_queue.h"

#include <algorithm>
#include <utility>

#include "jetty/transport.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// A poll that found nothing looks beyond its own queues once in this many times: often enough that
// two peers which each poll only their send JFC both complete, seldom enough to cost nothing.
constexpr uint64_t kIdlePollsPerSweep = 32;

}  // namespace

bool CompletionRing::push(const urma_cr_t& record, bool solicited) {
  OwnerScope scope(lock_);
  const uint32_t size = size_.load(std::memory_order_relaxed);
  if (size == records_.size()) return false;
  // An empty ring starts over, so that it stays in the cache whatever its depth is.
  if (size == 0) head_ = 0;
  at(size) = record;
  ++pushed_;
  if (solicited) last_solicited_ = pushed_;
  size_.store(size + 1, std::memory_order_relaxed);
  return true;
}

uint32_t CompletionRing::waiting(bool* solicited) {
  if (empty()) return 0;
  OwnerScope scope(lock_);
  const uint32_t size = size_.load(std::memory_order_relaxed);
  *solicited = last_solicited_ > pushed_ - size;
  return size;
}

int CompletionRing::pop(int count, urma_cr_t* cr) {
  if (empty()) return 0;
  OwnerScope scope(lock_);
  const uint32_t size = size_.load(std::memory_order_relaxed);
  const uint32_t taken = std::min<uint32_t>(size, static_cast<uint32_t>(count));
  for (uint32_t i = 0; i < taken; ++i) cr[i] = at(i);
  head_ = (head_ + taken) % records_.size();
  size_.store(size - taken, std::memory_order_relaxed);
  return static_cast<int>(taken);
}

void CompletionRing::purge(uint64_t user_data) {
  ForeignScope scope(lock_);
  const uint32_t size = size_.load(std::memory_order_relaxed);
  // One event too many is better than one too few.
  if (last_solicited_ > pushed_ - size) last_solicited_ = pushed_;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < size; ++i) {
    if (at(i).user_data != user_data) at(kept++) = at(i);
  }
  size_.store(kept, std::memory_order_relaxed);
}

CompletionQueue::CompletionQueue(urma_context_t* ctx, const urma_jfc_cfg_t& cfg,
                                 Transport* transport, AsyncEvents* events)
    : urma_jfc_t{}, transport_(transport), subject_(events, this) {
  urma_ctx = ctx;
  jfc_cfg = cfg;
}

void CompletionQueue::open() {
  subject_.begin();
  ring_.emplace(jfc_cfg.depth);
  poll_lock_.emplace();
  counters_.emplace();
  polls_.store(0, std::memory_order_relaxed);
}

void CompletionQueue::close() {
  ring_.reset();
  poll_lock_.reset();
  counters_.reset();
  overflow_told_.store(false, std::memory_order_relaxed);
}

void CompletionQueue::overflowed() {
  if (overflow_told_.load(std::memory_order_relaxed) ||
      overflow_told_.exchange(true, std::memory_order_relaxed)) {
    return;
  }
  URMA_LOG(WARNING,
           "jfc {:#x}: overflow, more than {} completions wait; poll it, or make it as deep as its "
           "queues together",
           jfc_id.id, jfc_cfg.depth);
  subject_.raise(URMA_EVENT_JFC_ERR);
}

int CompletionQueue::wake_one(int got) {
  poll_lock_->wake_one();
  return got;
}

int CompletionQueue::poll_behind_guarded(int count, urma_cr_t* cr) noexcept {
  poll_lock_->enter_behind();
  polls_.store(polls() + 1, std::memory_order_relaxed);
  return poll_behind_other(count, cr);
}

int CompletionQueue::poll_behind_other(int count, urma_cr_t* cr) noexcept {
  give_way();
  return poll_rest_guarded(0, count, cr);
}

// Leaves the lock for a while if another thread posts: it may poll next, and would wait for this
// poll, which waits for the lock that it posts under. The source may be gone once the lock is back,
// so each turn looks for it again.
void CompletionQueue::give_way() {
  for (uint32_t pauses = kFirstPauses; pauses <= kLastPauses; pauses *= kLonger) {
    if (only_source_ == nullptr || !only_source_->contended()) return;
    poll_lock_->leave();
    pause_for(pauses);
    poll_lock_->enter();
  }
}

// `got` records are there already.
int CompletionQueue::poll_rest_guarded(int got, int count, urma_cr_t* cr) noexcept {
  const int more = collect(count - got, cr + got);
  return finish_usual_poll(got + more, cr);
}

int CompletionQueue::finish_poll(int got, const urma_cr_t* cr) noexcept {
  if (got != 0) counters_->polled({cr, static_cast<size_t>(got)});
  const bool unfinished = std::exchange(unfinished_, false);
  const bool sweeps = got == 0 && polls() % kIdlePollsPerSweep == 0;
  if (sweeps) [[unlikely]]
    note_idle_polls();
  poll_lock_->leave();
  if (unfinished) [[unlikely]]
    guarded(URMA_LOG_SITE, [this] { transport_->take_over(); });
  if (sweeps) [[unlikely]]
    transport_->progress_receives();
  return got;
}

void CompletionQueue::report(urma_ext_queue_t* queue) const {
  counters_->report(queue);
  queue->fill = ring_->size();
  queue->polls = polls();
}

// After a poll that one side filled alone, the next begins with the other side.
inline int CompletionQueue::collect(int count, urma_cr_t* cr) {
  int got = 0;
  if (ring_first_) [[unlikely]] {
    ring_first_ = false;
    got = ring_->pop(count, cr);
    if (got == count) return got;
  }
  got += sources_.size() > Turns::kFew ? collect_from_any(count - got, cr + got)
                                       : collect_from_each(count - got, cr + got);
  if (ring_->empty()) [[likely]]
    return got;
  ring_first_ = got == count;
  return ring_first_ ? got : got + ring_->pop(count - got, cr + got);
}

// What one source throws loses no record of another. Neither a lambda nor noexcept: both cost each
// poll some instructions.
inline int CompletionQueue::collect_from(const Attached& attached, int count, urma_cr_t* cr) {
  try {
    return attached.source->collect(this, count, cr);
  } catch (...) {
    status_of_current_exception(URMA_LOG_SITE);
    return 0;
  }
}

// A source that waits for something is looked at each time: it may be waiting for a poll.
int CompletionQueue::collect_from_many(int count, urma_cr_t* cr) {
  const auto is_empty = [](const Attached& attached) { return attached.is_empty(); };
  if (turns_.all_rest(sources_, is_empty)) return 0;
  int got = 0;
  turns_.take(
      sources_, [](Attached& attached) -> uint32_t& { return attached.silence; },
      [&](const Attached& attached) {
        if (attached.is_empty()) return false;
        const int records = collect_from(attached, count - got, cr + got);
        got += records;
        return records != 0 || attached.source->outstanding();
      },
      [&] { return got >= count; });
  return got;
}

// A program that waits for events polls seldom, and expects to find what an event has announced.
int CompletionQueue::collect_from_any(int count, urma_cr_t* cr) {
  const int got = collect_from_many(count, cr);
  return got != 0 || channel_ == nullptr ? got : collect_from_each(count, cr);
}

inline int CompletionQueue::collect_from_each(int count, urma_cr_t* cr) {
  if (sources_.empty()) return 0;
  const Attached* const begin = sources_.data();
  const Attached* const end = begin + sources_.size();
  const Attached* const first = begin + first_;
  const Attached* next = first;
  int got = 0;
  do {
    if (!next->is_empty()) {
      got += collect_from(*next, count - got, cr + got);
      if (got == count) {
        // A source that fills every poll must not starve the next ones.
        first_ = first + 1 == end ? 0 : first_ + 1;
        break;
      }
    }
    if (++next == end) next = begin;
  } while (next != first);
  return got;
}

void CompletionQueue::attach(CompletionSource* source) {
  ForeignScope scope(*poll_lock_);
  const auto found = std::ranges::find(sources_, source, &Attached::source);
  if (found != sources_.end()) {
    ++found->count;
  } else {
    sources_.push_back({source, source->fill(), 1, 0});
    find_only_ones();
  }
  attachments_.fetch_add(1, std::memory_order_relaxed);
}

void CompletionQueue::detach(CompletionSource* source) {
  ForeignScope scope(*poll_lock_);
  const auto found = std::ranges::find(sources_, source, &Attached::source);
  attachments_.fetch_sub(1, std::memory_order_relaxed);
  if (--found->count != 0) return;
  sources_.erase(found);
  find_only_ones();
}

void CompletionQueue::let_go() {
  const ForeignScope scope(*poll_lock_);
  attachments_.fetch_sub(1, std::memory_order_relaxed);
}

bool CompletionQueue::attached() {
  // Relaxed: the lock orders it if it may be over.
  if (attachments_.load(std::memory_order_relaxed) != 0) return true;
  const ForeignScope scope(*poll_lock_);
  return attachments_.load(std::memory_order_relaxed) != 0;
}

void CompletionQueue::find_only_ones() {
  turns_.forget();
  first_ = 0;
  const bool one = sources_.size() == 1;
  only_source_ = one ? sources_.front().source : nullptr;
  poll_alone_ = one ? only_source_->poll_alone() : nullptr;
}

}  // namespace urma
