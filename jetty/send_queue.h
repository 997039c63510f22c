// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty: work requests in post order, and their completions in the
// same order, however the paths to the targets execute them.
#ifndef JETTY_SEND_QUEUE_H_
#define JETTY_SEND_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "jetty/completion_queue.h"
#include "jetty/counters.h"
#include "jetty/owner_lock.h"
#include "jetty/work_request.h"
#include "segment/lazy_array.h"
#include "urma_types.h"

namespace urma {

class SendPath;

inline constexpr uint32_t kNoEntry = UINT32_MAX;

enum class SendState : uint8_t { kPending, kInFlight, kDone };

// One work request between post and completion. Local pieces, or the inline bytes, follow it.
struct SendEntry {
  uint64_t user_ctx;
  uint64_t bytes;
  uint64_t moved;  // bytes that a transfer in pieces has already moved
  uint64_t remote_addr;
  // Atomics: what is compared with the old value or changes it, and what replaces it, 16 bytes
  // each;
  // *_IMM and WRITE_NOTIFY: the immediate; WRITE_ATOMIC: its bytes, once they are collected.
  uint64_t operand[4];
  void* remote;  // the provider's imported segment, with a reference held
  SendPath* path;
  uint32_t next;  // the next pending entry of the same path
  uint32_t inline_bytes;
  uint16_t pieces;
  SendState state;
  OpKind kind;
  uint8_t opcode;
  uint8_t status;  // urma_cr_status_t, once done
  bool signalled;
  bool solicited;
  bool fence;
  bool strong;            // not placed before what was posted before it
  uint8_t special;        // SpecialEntry; 0 in a place that is free
  TokenKey key;           // names the segment where `remote` is NULL
  TokenKey notified_key;  // the same of `notified`
  void* notified;         // WRITE_NOTIFY: the segment of its second address
  uint64_t notified_addr;
};

// What the states of a queue make of an entry.
enum SpecialEntry : uint8_t {
  kDropped = 1,  // leaves without a record: its queue was reset
  kMarker = 2,   // no request: the record that says that all before it are flushed
};

// The way from one send queue to one target. A provider executes its requests in post order.
class SendPath {
 public:
  SendPath(const urma_jetty_id_t& remote_id, uint32_t tpn) : remote_id(remote_id), tpn(tpn) {}
  virtual ~SendPath() = default;
  // Moves what can be moved now. True where requests still wait to be executed.
  virtual bool advance() = 0;
  // Forgets the first request that waits to be executed.
  virtual void give_up_first() = 0;

  bool more = false;  // the last advance() did not wait for anybody, but had done enough at once
  const urma_jetty_id_t remote_id;
  const uint32_t tpn;
  uint32_t outstanding = 0;  // requests that are not done
  uint32_t entries = 0;      // requests whose completion was not collected
};

// How completions name the queue that they come from.
struct QueueIdentity {
  uint32_t id;
  bool jetty;
  uint64_t user_data;  // the public object
};

class SendQueue : public CompletionSource {
 public:
  SendQueue(const urma_jfs_cfg_t& cfg, const QueueIdentity& identity, uint64_t max_message);

  OwnerLock& lock() { return lock_; }
  const SendLimits& limits() const { return limits_; }

  // What it has done and how full it is, from any thread.
  void report(urma_ext_queue_t* queue) const;

  // Everything below needs the lock, but for collect(), which takes it, and empty().
  // So that commit() needs no memory.
  void expect_paths(size_t count) { busy_.reserve(count); }
  // The next free entry, or NULL where the queue is full. Nothing is posted until commit().
  SendEntry* reserve() {
    uint32_t size = size_.load(std::memory_order_relaxed);
    if (size >= depth_) [[unlikely]] {
      make_room();
      size = size_.load(std::memory_order_relaxed);
      if (size >= depth_) return nullptr;
    }
    // An empty queue starts over, so that it stays in the cache whatever its depth is.
    if (size == 0) head_ = 0;
    return &at(nth(size));
  }
  void commit(SendEntry* entry);
  // The same for a request with a completion that is executed already.
  void commit_done(SendEntry* entry) {
    entry->state = SendState::kDone;
    entry->status = URMA_CR_SUCCESS;
    entry->signalled = true;
    counters_.ended(URMA_CR_SUCCESS, entry->bytes);
    ++entry->path->entries;
    grow();
    announce();
  }
  void complete(SendEntry* entry, urma_cr_status_t status);
  // A request was executed that needs no entry, since it leaves no record.
  void count_executed(uint64_t bytes) { counters_.ended(URMA_CR_SUCCESS, bytes); }
  // So many requests were taken from the program.
  void count_posts(uint64_t posts) { counters_.posts.add(posts); }
  void count_refused() { counters_.refused.add(1); }

  // The state, and what it does to the records. The paths are the provider's to flush, before.
  urma_jetty_state_t state() const { return state_.load(std::memory_order_relaxed); }
  // READY again. What was posted to a suspended queue lies in its paths and goes on.
  void resume();
  // ERROR or SUSPENDED: puts the marker behind all that is outstanding.
  void stop(urma_jetty_state_t state);
  // RESET: nothing that is here leaves a record.
  void reset();
  // urma_flush_*: once the marker was polled, requests that were posted after it.
  int hand_back(int count, urma_cr_t* cr);
  // All that were ever posted, and all that left: the producer and the consumer index.
  uint64_t posted() const { return popped_ + size_.load(std::memory_order_relaxed); }
  uint64_t retired() const { return popped_; }

  // True where every read and atomic that was posted before `entry` is done.
  bool earlier_reads_done(const SendEntry* entry) const;

  SendEntry& at(uint32_t index) const {
    return *reinterpret_cast<SendEntry*>(static_cast<char*>(memory_.data()) + index * stride_);
  }
  uint32_t index_of(const SendEntry* entry) const {
    return static_cast<uint32_t>(
        (reinterpret_cast<const char*>(entry) - static_cast<char*>(memory_.data())) / stride_);
  }
  static std::span<LocalPiece> pieces(SendEntry* entry) {
    return {reinterpret_cast<LocalPiece*>(entry + 1), entry->pieces};
  }
  static char* inline_data(SendEntry* entry) { return reinterpret_cast<char*>(entry + 1); }

  // Advances every path with outstanding requests; true where some still wait to be executed.
  bool advance_paths();
  // Whether a path had more to do at once when they were last advanced.
  bool more() const { return more_; }
  // Tells an armed JFC of the completions that have become due.
  void announce() {
    // SYNC(bell): what is done has been stored, and the bell is looked at behind; pairs with the
    // barrier in CompletionQueue::arm.
    light_barrier();
    if (jfc_->armed()) [[unlikely]]
      announce_armed();
  }
  // What advance_paths() last returned; a hint without the lock.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  void set_waiting() { waiting_.store(true, std::memory_order_relaxed); }
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override;
  bool move_for(CompletionQueue* waiter, bool just_armed) override;
  bool outstanding() const override { return !empty(); }
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

 private:
  void make_room();
  void announce_armed();
  [[gnu::always_inline]] int retire(int count, urma_cr_t* cr);
  [[gnu::always_inline]] void fill_record(const SendEntry& entry, urma_cr_t* cr) const;
  [[gnu::always_inline]] void pop();
  void grow() {
    const uint32_t size = size_.load(std::memory_order_relaxed) + 1;
    size_.store(size, std::memory_order_relaxed);
    if (size > overflow_above_) [[unlikely]]
      count_towards_overflow();
  }
  void set_state(urma_jetty_state_t state) { state_.store(state, std::memory_order_relaxed); }
  void put_marker(urma_cr_status_t status);
  void silence_marker();
  void count_towards_overflow();
  static bool leaves_record(const SendEntry& entry) {
    return (entry.signalled || entry.status != URMA_CR_SUCCESS) && (entry.special & kDropped) == 0;
  }
  // The place of the entry so far behind the oldest one.
  uint32_t nth(uint32_t offset) const {
    return offset < places_ - head_ ? head_ + offset : head_ - (places_ - offset);
  }

  OwnerLock lock_;
  const SendLimits limits_;
  const QueueIdentity identity_;
  CompletionQueue* const jfc_;
  const uint32_t depth_;
  const uint32_t places_;          // one more than the depth, for the marker
  const uint32_t overflow_above_;  // the depth of the JFC
  const size_t stride_;
  LazyMemory memory_;
  std::atomic<urma_jetty_state_t> state_{URMA_JETTY_STATE_READY};  // written under lock_
  bool flushed_ = false;                                           // the marker was polled
  // What count_towards_overflow() has counted, since popped_ had this value.
  uint64_t counted_since_ = 0;
  uint32_t counted_ = 0;
  uint32_t counted_due_ = 0;
  uint32_t head_ = 0;
  std::atomic<uint32_t> size_{0};  // written under lock_
  std::atomic<bool> waiting_{false};
  bool more_ = false;
  uint64_t popped_ = 0;     // all that ever left
  uint64_t announced_ = 0;  // up to here, counted as popped_ is, the armed JFC knows what is due
  std::vector<SendPath*> busy_;  // paths with outstanding requests
  QueueCounters counters_;
};

// The three that follow are most of what a poll costs.

inline void SendQueue::fill_record(const SendEntry& entry, urma_cr_t* cr) const {
  *cr = {};
  cr->status = static_cast<urma_cr_status_t>(entry.status);
  cr->user_ctx = entry.user_ctx;
  // None of the enum's values, so that no program takes a send for a received message.
  constexpr uint32_t kNoOpcode = 0xFF;
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

inline void SendQueue::pop() {
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

inline int SendQueue::retire(int count, urma_cr_t* cr) {
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

}  // namespace urma

#endif  // JETTY_SEND_QUEUE_H_
