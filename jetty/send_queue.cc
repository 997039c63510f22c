// SPDX-License-Identifier: MIT
#include "jetty/send_queue.h"

#include <algorithm>

namespace urma {
namespace {

constexpr size_t kLine = 64;

size_t entry_stride(const urma_jfs_cfg_t& cfg) {
  const size_t tail = std::max<size_t>(cfg.max_sge * sizeof(LocalPiece), cfg.max_inline_data);
  return (sizeof(SendEntry) + tail + kLine - 1) / kLine * kLine;
}

}  // namespace

SendQueue::SendQueue(const urma_jfs_cfg_t& cfg, const QueueIdentity& identity, uint64_t max_message)
    : lock_(cfg.flag.bs.lock_free != 0),
      limits_{cfg.max_sge, cfg.max_inline_data, max_message},
      identity_(identity),
      jfc_(static_cast<CompletionQueue*>(cfg.jfc)),
      depth_(cfg.depth),
      places_(cfg.depth + 1),
      overflow_above_(cfg.jfc->jfc_cfg.depth),
      stride_(entry_stride(cfg)),
      memory_(places_ * stride_) {}

void SendQueue::report(urma_ext_queue_t* queue) const {
  counters_.report(queue);
  queue->rnr = queue->by_status[URMA_CR_RNR_RETRY_CNT_EXC_ERR];
  queue->state = state();
  // The marker has a place of its own.
  queue->fill = std::min(size_.load(std::memory_order_relaxed), depth_);
}

// Requests that nobody asked a completion of leave their places when others need them.
void SendQueue::make_room() {
  advance_paths();
  retire(0, nullptr);
}

void SendQueue::commit(SendEntry* entry) {
  entry->state = SendState::kPending;
  entry->next = kNoEntry;
  if (entry->path->outstanding == 0) busy_.push_back(entry->path);
  ++entry->path->outstanding;
  ++entry->path->entries;
  grow();
}

void SendQueue::complete(SendEntry* entry, urma_cr_status_t status) {
  entry->state = SendState::kDone;
  entry->status = static_cast<uint8_t>(status);
  counters_.ended(status, entry->bytes);
  if (--entry->path->outstanding == 0) std::erase(busy_, entry->path);
}

bool SendQueue::earlier_reads_done(const SendEntry* entry) const {
  for (uint32_t index = head_; &at(index) != entry; index = index + 1 == places_ ? 0 : index + 1) {
    const SendEntry& earlier = at(index);
    const bool reads = earlier.kind == OpKind::kRead || earlier.kind == OpKind::kAtomic;
    if (reads && earlier.state != SendState::kDone) return false;
  }
  return true;
}

bool SendQueue::advance_paths() {
  bool waiting = false;
  more_ = false;
  // A path that becomes idle leaves busy_ and the last one takes no one else's place.
  for (size_t i = 0; i < busy_.size();) {
    SendPath* path = busy_[i];
    waiting |= path->advance();
    more_ |= path->more;
    if (i < busy_.size() && busy_[i] == path) ++i;
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

int SendQueue::collect(CompletionQueue* poller, int count, urma_cr_t* cr) {
  if (empty()) return 0;
  OwnerScope scope(lock_);
  // Without a path that is busy, nothing has become due since it was announced.
  if (!busy_.empty() || waiting()) {
    advance_paths();
    if (more_ && poller->armed()) [[unlikely]]
      poller->leave_unfinished();
  }
  return retire(count, cr);
}

bool SendQueue::move_for(CompletionQueue* /*waiter*/, bool just_armed) {
  if (empty()) return false;
  OwnerScope scope(lock_);
  if (just_armed) announced_ = popped_;
  advance_paths();
  return more_;
}

}  // namespace urma
