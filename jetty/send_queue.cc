// SPDX-License-Identifier: MIT
#include "jetty/send_queue.h"

#include <algorithm>

#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// An entry begins a line. Neighbours are used by one thread at a time.
constexpr size_t kLine = 64;

size_t entry_stride(const urma_jfs_cfg_t& cfg) {
  const size_t tail = std::max<size_t>(cfg.max_sge * sizeof(LocalPiece), cfg.max_inline_data);
  return (sizeof(SendEntry) + tail + kLine - 1) / kLine * kLine;
}

}  // namespace

SendQueue::SendQueue(const urma_jfs_cfg_t& cfg, const QueueIdentity& identity, uint64_t max_message)
    : limits_{cfg.max_sge, cfg.max_inline_data, max_message},
      identity_(identity),
      jfc_(static_cast<CompletionQueue*>(cfg.jfc)),
      bell_(jfc_->bell()),
      fenced_(jfc_->fenced()),
      watch_(bell_, fenced_),
      depth_(cfg.depth),
      places_(cfg.depth + 2),
      overflow_above_(cfg.jfc->jfc_cfg.depth),
      easy_(std::min(depth_, overflow_above_)),
      stride_(entry_stride(cfg)),
      memory_(places_ * stride_) {}

void SendQueue::report(urma_ext_queue_t* queue) const {
  counters_.report(queue);
  queue->rnr = queue->by_status[URMA_CR_RNR_RETRY_CNT_EXC_ERR];
  queue->state = state();
  // Markers have places of their own.
  queue->fill = std::min(size_.load(std::memory_order_relaxed), depth_);
}

urma_cr_t SendQueue::record_of(const urma_jetty_id_t& remote_id, uint32_t tpn) const {
  urma_cr_t record = {};
  // No value of the enum, so that no program takes a send for a received message.
  constexpr uint32_t kNoOpcode = 0xFF;
  std::memcpy(&record.opcode, &kNoOpcode, sizeof(record.opcode));
  record.flag.bs.jetty = identity_.jetty ? 1 : 0;
  record.local_id = identity_.id;
  record.user_data = identity_.user_data;
  record.remote_id = remote_id;
  record.tpn = tpn;
  return record;
}

// Requests without a requested completion leave their places when others need them.
void SendQueue::make_room() {
  advance_paths();
  retire(0, nullptr);
}

SendEntry* SendQueue::reserve() {
  if (size_.load(std::memory_order_relaxed) >= depth_) make_room();
  const uint32_t size = size_.load(std::memory_order_relaxed);
  // A marker takes the place of no request; the last place is for the next marker.
  if (size - markers_ >= depth_ || size > depth_) return nullptr;
  if (size == 0) start_over();
  return &at(tail_);
}

void SendQueue::commit(SendEntry* entry) {
  entry->state = SendState::kPending;
  entry->next = kNoEntry;
  if (entry->path->outstanding++ == 0) make_busy(entry->path);
  ++entry->path->entries;
  grow(1);
  if (size_.load(std::memory_order_relaxed) > overflow_above_) count_towards_overflow();
}

// Flushed requests, and those of a peer that has gone, have their cause in another line.
void SendQueue::log_failure(SendEntry* entry, urma_cr_status_t status) const {
  const char* const meaning = failure_text(status);
  if (meaning == nullptr || !failures_are_read()) return;
  const std::string& why = entry->path->why;
  const auto own = pieces(entry);
  const bool message = entry->kind == OpKind::kSend;
  const uint64_t addr = !message ? entry->remote_addr : own.empty() ? 0 : own[0].addr;
  URMA_LOG_FAILED(
      "queue {:#x}: {} of {} bytes {} {:#x}, user_ctx {:#x}, to id {:#x} ends with status {}, "
      "{}{}{}",
      identity_.id, kind_name(entry->kind), entry->bytes, message ? "from" : "at", addr,
      entry->user_ctx, entry->path->record.remote_id.id, static_cast<int>(status), meaning,
      why.empty() ? "" : ": ", why);
}

void SendQueue::fail(SendEntry* entry, urma_cr_status_t status) {
  // Without memory there is no line, but the request ends.
  guarded(URMA_LOG_SITE, [&] { log_failure(entry, status); });
  entry->path->why.clear();
  entry->bytes = 0;
  counters_.failed(status);
}

bool SendQueue::earlier_reads_done(const SendEntry* entry) const {
  for (uint32_t index = head_; &at(index) != entry; index = behind(index)) {
    const SendEntry& earlier = at(index);
    const bool reads = earlier.kind == OpKind::kRead || earlier.kind == OpKind::kAtomic;
    if (reads && earlier.state != SendState::kDone) return false;
  }
  return true;
}

bool SendQueue::advance_paths() {
  bool waiting = false;
  more_ = false;
  for (SendPath* path = busy(); path != nullptr;) {
    // A path that becomes idle leaves the list.
    SendPath* const earlier = path->earlier;
    waiting |= path->advance();
    more_ |= path->more;
    path = earlier;
  }
  waiting_.store(waiting, std::memory_order_relaxed);
  announce();
  return waiting;
}

void SendQueue::announce_armed() {
  announced_ = std::max(announced_, popped_);
  const uint64_t end = popped_ + size_.load(std::memory_order_relaxed);
  uint32_t due = 0;
  bool failed = false;
  for (; announced_ != end; ++announced_) {
    const SendEntry& entry = at(nth(static_cast<uint32_t>(announced_ - popped_)));
    if (entry.state != SendState::kDone) break;
    if (!leaves_record(entry)) continue;
    failed |= entry.status != URMA_CR_SUCCESS;
    ++due;
  }
  if (due != 0) jfc_->completed(due, failed);
}

// Requests that were executed when posted are collected here without a call, while nothing is in
// flight, up to the first entry that is not a success.
inline int SendQueue::poll_alone(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept {
  if (empty()) return poller->finish_poll(0, cr);
  if (!lock_.enter_at_once()) [[unlikely]]
    return poller->poll_behind_other(count, cr);
  if (busy() != nullptr) {
    return count > 0 && oldest_is_on_its_way() ? poll_messages(poller, count, cr)
                                               : poll_rest(poller, 0, count, cr);
  }
  int got = 0;
  uint32_t size = size_.load(std::memory_order_relaxed);
  uint32_t place = head_;
  for (; size != 0 && got != count; --size) {
    const SendEntry& entry = at(place);
    if (entry.state != SendState::kDone || entry.status != URMA_CR_SUCCESS || entry.special != 0) {
      break;
    }
    if (entry.signalled) fill_record(entry, &cr[got++]);
    --entry.path->entries;
    place = behind(place);
  }
  head_ = place;
  popped_ += size_.load(std::memory_order_relaxed) - size;
  size_.store(size, std::memory_order_relaxed);
  const bool all = size == 0 || got == count;
  if (!all || got == 0) return poll_rest(poller, got, count, cr);
  if (lock_.leave_at_once()) [[unlikely]]
    return end_awaited_poll(poller, got);
  return poller->end_poll(got);
}

int SendQueue::poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                           CompletionSource* source) noexcept {
  return static_cast<SendQueue&>(*source).poll_alone(poller, count, cr);
}

int SendQueue::end_awaited_poll(CompletionQueue* poller, int got) noexcept {
  lock_.wake_one();
  return poller->end_poll(got);
}

int SendQueue::poll_messages(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept {
  const int got = take_oldest(count, cr);
  if (got == 0 || (got != count && !empty())) return poll_rest(poller, got, count, cr);
  if (lock_.leave_at_once()) [[unlikely]]
    return end_awaited_poll(poller, got);
  return poller->end_poll(got);
}

// Each call in it would save the same registers again.
[[gnu::flatten]] int SendQueue::poll_rest(CompletionQueue* poller, int got, int count,
                                          urma_cr_t* cr) noexcept {
  const int more = guarded_count(URMA_LOG_SITE, [&]() URMA_NO_THREAD_SAFETY_ANALYSIS {
    OwnerScope scope(lock_, std::adopt_lock);
    return advance_and_retire(poller, count - got, cr + got);
  });
  return poller->finish_usual_poll(got + std::max(more, 0), cr);
}

int SendQueue::collect(CompletionQueue* poller, int count, urma_cr_t* cr) {
  if (empty()) return 0;
  OwnerScope scope(lock_);
  const bool message = count > 0 && busy() != nullptr && oldest_is_on_its_way();
  const int got = message ? take_oldest(count, cr) : 0;
  // These must not be lost if the rest throws.
  return got != 0 ? got : advance_and_retire(poller, count, cr);
}

inline int SendQueue::advance_and_retire(CompletionQueue* poller, int count, urma_cr_t* cr) {
  // Without a busy path, nothing has become due since the last announcement.
  if (busy() != nullptr) {
    advance_paths();
    if (more_ && poller->armed()) [[unlikely]]
      poller->leave_unfinished();
  }
  return retire(count, cr);
}

void SendQueue::fill_marker(const SendEntry& entry, urma_cr_t* cr) const {
  *cr = record_of({}, 0);
  cr->status = static_cast<urma_cr_status_t>(entry.status);
  cr->user_ctx = entry.user_ctx;
  cr->flag.bs.flush_err_done = entry.status == URMA_CR_WR_FLUSH_ERR_DONE;
  cr->flag.bs.suspend_done = entry.status == URMA_CR_WR_SUSPEND_DONE;
}

void SendQueue::vacate_special(SendEntry* entry) {
  if (entry->path != nullptr) --entry->path->entries;
  if ((entry->special & kMarker) != 0) --markers_;
  flushed_ |= (entry->special & (kMarker | kDropped)) == kMarker;
  entry->special = 0;
}

bool SendQueue::move_for(CompletionQueue* /*waiter*/, bool just_armed) {
  if (empty()) return false;
  OwnerScope scope(lock_);
  if (just_armed) announced_ = popped_;
  advance_paths();
  return more_;
}

// -------------------------------------------------------------------------------------------------
// Effects of the states: the marker, and what urma_flush_* hands back
// -------------------------------------------------------------------------------------------------

void SendQueue::resume() {
  set_state(URMA_JETTY_STATE_READY);
  silence_marker();
}

void SendQueue::stop(urma_jetty_state_t state) {
  set_state(state);
  silence_marker();
  put_marker(state == URMA_JETTY_STATE_SUSPENDED ? URMA_CR_WR_SUSPEND_DONE
                                                 : URMA_CR_WR_FLUSH_ERR_DONE);
}

void SendQueue::reset() {
  set_state(URMA_JETTY_STATE_RESET);
  for (uint32_t i = 0; i < size_.load(std::memory_order_relaxed); ++i) {
    at(nth(i)).special |= kDropped;
  }
  retire(0, nullptr);
}

// The records before it may have to wait for a peer, and then the marker waits too.
void SendQueue::put_marker(urma_cr_status_t status) {
  const uint32_t size = size_.load(std::memory_order_relaxed);
  // In the place of a marker that nothing was posted after: so there always is a place.
  const bool again = size != 0 && (at(nth(size - 1)).special & kMarker) != 0;
  SendEntry* marker = &at(again ? nth(size - 1) : tail_);
  *marker = {};
  marker->state = SendState::kDone;
  marker->status = static_cast<uint8_t>(status);
  marker->special = kMarker;
  if (again) {
    // An armed JFC may know of the record that was there.
    announced_ = std::min(announced_, popped_ + size - 1);
    return;
  }
  ++markers_;
  grow(1);
}

// A queue that goes on, or stops again, has no use for the earlier marker.
void SendQueue::silence_marker() {
  for (uint32_t i = 0; i < size_.load(std::memory_order_relaxed); ++i) {
    SendEntry& entry = at(nth(i));
    if ((entry.special & kMarker) != 0) entry.special |= kDropped;
  }
}

int SendQueue::hand_back(int count, urma_cr_t* cr) {
  if (!flushed_) return 0;
  int got = 0;
  while (got < count && size_.load(std::memory_order_relaxed) != 0) {
    SendEntry& entry = at(head_);
    if (entry.state == SendState::kPending) {
      // The oldest of all, so the first of its path, too.
      entry.path->give_up_first();
      complete(&entry, URMA_CR_WR_UNHANDLED);
    }
    if (entry.state != SendState::kDone) break;
    entry.status = URMA_CR_WR_UNHANDLED;
    entry.bytes = 0;
    if ((entry.special & kDropped) == 0) fill_record(entry, &cr[got++]);
    vacate(&entry);
    ++popped_;
    size_.store(size_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  return got;
}

// More records wait than the JFC was made for. They lie here, so none is lost. Continues
// the last count while nothing was collected: a post must not cost more the longer the queue is.
void SendQueue::count_towards_overflow() {
  if (counted_since_ != popped_) {
    counted_since_ = popped_;
    counted_ = 0;
    counted_due_ = 0;
  }
  for (; counted_ < size_.load(std::memory_order_relaxed); ++counted_) {
    const SendEntry& entry = at(nth(counted_));
    if (entry.state != SendState::kDone) return;
    if (leaves_record(entry) && ++counted_due_ > overflow_above_) jfc_->overflowed();
  }
}

}  // namespace urma
