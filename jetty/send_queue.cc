// SPDX-License-Identifier: MIT
#include "jetty/send_queue.h"

#include <algorithm>
#include <cstring>

namespace urma {
namespace {

constexpr size_t kLine = 64;

// None of the enum's values, so that no program takes a send for a received message.
constexpr uint32_t kNoOpcode = 0xFF;

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

SendEntry* SendQueue::reserve() {
  // Requests that nobody asked a completion of leave their places when others need them.
  if (size_.load(std::memory_order_relaxed) >= depth_) {
    advance_paths();
    retire(0, nullptr);
  }
  const uint32_t size = size_.load(std::memory_order_relaxed);
  if (size >= depth_) return nullptr;
  // An empty queue starts over, so that it stays in the cache whatever its depth is.
  if (size == 0) head_ = 0;
  return &at(nth(size));
}

void SendQueue::grow() {
  const uint32_t size = size_.load(std::memory_order_relaxed) + 1;
  size_.store(size, std::memory_order_relaxed);
  if (size > overflow_above_) [[unlikely]]
    count_towards_overflow();
}

void SendQueue::commit(SendEntry* entry) {
  entry->state = SendState::kPending;
  entry->next = kNoEntry;
  if (entry->path->outstanding == 0) busy_.push_back(entry->path);
  ++entry->path->outstanding;
  ++entry->path->entries;
  grow();
}

void SendQueue::commit_done(SendEntry* entry) {
  entry->state = SendState::kDone;
  entry->status = URMA_CR_SUCCESS;
  entry->signalled = true;
  ++entry->path->entries;
  grow();
  announce();
}

void SendQueue::complete(SendEntry* entry, urma_cr_status_t status) {
  entry->state = SendState::kDone;
  entry->status = static_cast<uint8_t>(status);
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

void SendQueue::announce() {
  // SYNC(bell): what is done has been stored, and the bell is looked at behind; pairs with the
  // barrier in CompletionQueue::arm.
  light_barrier();
  if (!jfc_->armed()) [[likely]]
    return;
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
  advance_paths();
  if (more_ && poller->armed()) [[unlikely]]
    poller->leave_unfinished();
  return retire(count, cr);
}

bool SendQueue::move_for(CompletionQueue* /*waiter*/, bool just_armed) {
  if (empty()) return false;
  OwnerScope scope(lock_);
  if (just_armed) announced_ = popped_;
  advance_paths();
  return more_;
}

int SendQueue::retire(int count, urma_cr_t* cr) {
  int got = 0;
  while (size_.load(std::memory_order_relaxed) != 0) {
    const SendEntry& entry = at(head_);
    if (entry.state != SendState::kDone) break;
    if (leaves_record(entry)) {
      if (got == count) break;
      fill_record(entry, &cr[got++]);
    }
    pop();
  }
  return got;
}

void SendQueue::fill_record(const SendEntry& entry, urma_cr_t* cr) const {
  *cr = {};
  cr->status = static_cast<urma_cr_status_t>(entry.status);
  cr->user_ctx = entry.user_ctx;
  std::memcpy(&cr->opcode, &kNoOpcode, sizeof(cr->opcode));
  cr->flag.bs.s_r = 0;
  cr->flag.bs.jetty = identity_.jetty ? 1 : 0;
  cr->local_id = identity_.id;
  cr->user_data = identity_.user_data;
  if ((entry.special & kMarker) != 0) [[unlikely]] {
    cr->flag.bs.flush_err_done = entry.status == URMA_CR_WR_FLUSH_ERR_DONE;
    cr->flag.bs.suspend_done = entry.status == URMA_CR_WR_SUSPEND_DONE;
    return;
  }
  cr->completion_len = entry.status == URMA_CR_SUCCESS ? static_cast<uint32_t>(entry.bytes) : 0;
  cr->remote_id = entry.path->remote_id;
  cr->tpn = entry.path->tpn;
}

void SendQueue::pop() {
  SendEntry& entry = at(head_);
  if (entry.path != nullptr) --entry.path->entries;
  if (entry.special != 0) [[unlikely]] {
    flushed_ |= (entry.special & (kMarker | kDropped)) == kMarker;
    entry.special = 0;
  }
  ++popped_;
  head_ = head_ + 1 == places_ ? 0 : head_ + 1;
  size_.store(size_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

}  // namespace urma
