// SPDX-License-Identifier: MIT
//
// A JFC: where a program collects completion records.
//
// Send completions stay in their send queue until a poll collects them; receive completions wait in
// the JFC's own ring. So queues of different threads meet nowhere on the way.
#ifndef JETTY_COMPLETION_QUEUE_H_
#define JETTY_COMPLETION_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "jetty/owner_lock.h"
#include "segment/lazy_array.h"
#include "urma_types.h"

namespace urma {

class CompletionQueue;

// What can give completions to a JFC when it is polled.
class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  // Moves what can be moved for a poll of `poller`, and writes up to `count` records that are due;
  // returns how many. Records may also go to the poller's ring.
  virtual int collect(CompletionQueue* poller, int count, urma_cr_t* cr) = 0;
};

// Everything that a poll which found nothing may try to move besides its own JFC's queues.
class ProgressDomain {
 public:
  virtual ~ProgressDomain() = default;
  virtual void progress_receives() = 0;
};

// Receive completions that wait for a poll. Guarded by a lock of its own, since a shared JFR may
// complete into the JFC of another thread.
class CompletionRing {
 public:
  CompletionRing(uint32_t depth, bool lock_free) : lock_(lock_free), records_(depth) {}

  // Only a hint where other threads push; what this thread saw free stays free for it alone if it
  // is the only one to push.
  bool has_room() const { return size_.load(std::memory_order_relaxed) < records_.size(); }
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }
  // False where the ring is full. `polling` where the caller is inside a poll of this very JFC, so
  // that pushing costs a lock_free JFC nothing.
  bool push(const urma_cr_t& record, bool polling);
  int pop(int count, urma_cr_t* cr);
  // Drops the records of one queue; called when it is deleted.
  void purge(uint64_t user_data);

 private:
  bool push_locked(const urma_cr_t& record);
  urma_cr_t& at(uint32_t offset) { return records_[(head_ + offset) % records_.size()]; }

  OwnerLock lock_;
  LazyArray<urma_cr_t> records_;
  size_t head_ = 0;
  std::atomic<uint32_t> size_{0};  // written under lock_
};

class CompletionQueue : public urma_jfc_t {
 public:
  CompletionQueue(urma_context_t* ctx, const urma_jfc_cfg_t& cfg, const urma_jfc_id_t& id,
                  ProgressDomain* domain);

  int poll(int count, urma_cr_t* cr);

  // True while queues complete into it.
  bool attached() const { return attachments_.load(std::memory_order_relaxed) != 0; }

  CompletionRing& ring() { return ring_; }
  // Changes whenever the JFC is polled: how the service thread knows that somebody does.
  uint64_t polls() const { return polls_.load(std::memory_order_relaxed); }

 private:
  friend class Attachment;

  struct Attached {
    CompletionSource* source;
    uint32_t count;
  };

  void attach(CompletionSource* source);
  void detach(CompletionSource* source);
  int collect(int count, urma_cr_t* cr);
  int collect_from_sources(int count, urma_cr_t* cr);

  ProgressDomain* domain_;
  OwnerLock poll_lock_;  // guards the next three
  std::vector<Attached> sources_;
  size_t first_ = 0;
  bool ring_first_ = false;
  CompletionRing ring_;
  std::atomic<uint32_t> attachments_{0};
  std::atomic<uint64_t> polls_{0};
};

// A source is polled with its JFC as long as one attachment of it stands.
class Attachment {
 public:
  Attachment(CompletionQueue* jfc, CompletionSource* source) : jfc_(jfc), source_(source) {
    jfc_->attach(source_);
  }
  ~Attachment() { jfc_->detach(source_); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

 private:
  CompletionQueue* jfc_;
  CompletionSource* source_;
};

}  // namespace urma

#endif  // JETTY_COMPLETION_QUEUE_H_
