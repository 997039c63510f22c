// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty: work requests in post order, and their completions in the
// same order, however the paths to the targets execute them.
#ifndef JETTY_SEND_QUEUE_H_
#define JETTY_SEND_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "jetty/completion_queue.h"
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
  uint64_t operand[2];  // CAS: compare, swap; FADD: the addend; *_IMM: the immediate
  void* remote;         // the provider's imported segment, with a reference held
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
};

// The way from one send queue to one target. A provider executes its requests in post order.
class SendPath {
 public:
  SendPath(const urma_jetty_id_t& remote_id, uint32_t tpn) : remote_id(remote_id), tpn(tpn) {}
  virtual ~SendPath() = default;
  // Moves what can be moved now. True where requests still wait to be executed.
  virtual bool advance() = 0;

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

  // Everything below needs the lock, but for collect(), which takes it, and empty().
  // So that commit() needs no memory.
  void expect_paths(size_t count) { busy_.reserve(count); }
  // The next free entry, or NULL where the queue is full. Nothing is posted until commit().
  SendEntry* reserve();
  void commit(SendEntry* entry);
  // The same for a request with a completion that is executed already.
  void commit_done(SendEntry* entry);
  void complete(SendEntry* entry, urma_cr_status_t status);
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
  void announce();
  // What advance_paths() last returned; a hint without the lock.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  void set_waiting() { waiting_.store(true, std::memory_order_relaxed); }
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override;
  bool move_for(CompletionQueue* waiter, bool just_armed) override;
  bool outstanding() const override { return !empty(); }
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

 private:
  int retire(int count, urma_cr_t* cr);
  void fill_record(const SendEntry& entry, urma_cr_t* cr) const;
  void pop();

  OwnerLock lock_;
  const SendLimits limits_;
  const QueueIdentity identity_;
  CompletionQueue* const jfc_;
  const uint32_t depth_;
  const size_t stride_;
  LazyMemory memory_;
  uint32_t head_ = 0;
  std::atomic<uint32_t> size_{0};  // written under lock_
  std::atomic<bool> waiting_{false};
  bool more_ = false;
  uint64_t popped_ = 0;     // all that ever left
  uint64_t announced_ = 0;  // up to here, counted as popped_ is, the armed JFC knows what is due
  std::vector<SendPath*> busy_;  // paths with outstanding requests
};

}  // namespace urma

#endif  // JETTY_SEND_QUEUE_H_
