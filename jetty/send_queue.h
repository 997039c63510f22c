// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty: work requests in post order, and their completions in the
// same order, whatever paths execute them.
#ifndef JETTY_SEND_QUEUE_H_
#define JETTY_SEND_QUEUE_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "jetty/completion_queue.h"
#include "jetty/counters.h"
#include "jetty/failures.h"
#include "jetty/owner_lock.h"
#include "jetty/work_request.h"
#include "segment/lazy_array.h"
#include "urma/base/guard.h"
#include "urma_types.h"

namespace urma {

class ImportedSegment;
class SendPath;

inline constexpr uint32_t kNoEntry = UINT32_MAX;

enum class SendState : uint8_t { kPending, kInFlight, kDone };

// The part of an entry that the short ways write with two stores.
struct EntryForm {
  SendState state;
  uint8_t special;  // SpecialEntry; 0 in a place that is free
  bool signalled;
  OpKind kind;
  uint8_t status;  // urma_cr_status_t, once done
  bool fence;
  bool strong;  // not placed before what was posted before it
  bool solicited;
  uint16_t opcode;
  uint16_t pieces;
  uint32_t inline_bytes;
};

// The first word of a form, as the shortest ways store it.
constexpr uint64_t start_of_form(SendState state, OpKind kind, bool signalled) {
  const EntryForm form = {.state = state,
                          .special = 0,
                          .signalled = signalled,
                          .kind = kind,
                          .status = URMA_CR_SUCCESS,
                          .fence = false,
                          .strong = false,
                          .solicited = false,
                          .opcode = 0,
                          .pieces = 0,
                          .inline_bytes = 0};
  return std::bit_cast<std::array<uint64_t, 2>>(form)[0];
}

// One work request between post and completion. Local pieces, or the inline bytes, follow it.
struct SendEntry : EntryForm {
  uint64_t user_ctx;
  uint64_t bytes;  // 0 once it has failed
  uint64_t moved;  // bytes that a transfer in pieces has already moved
  uint64_t remote_addr;
  // Atomics: what is compared with the old value or changes it, and what replaces it, 16 bytes
  // each; *_IMM and WRITE_NOTIFY: the immediate; WRITE_ATOMIC: its bytes, once they are collected.
  uint64_t operand[4];
  ImportedSegment* remote;  // with a reference held
  SendPath* path;
  uint32_t next;              // the next pending entry of the same path
  TokenKey key;               // names the segment if `remote` is NULL
  TokenKey notified_key;      // the same of `notified`
  ImportedSegment* notified;  // WRITE_NOTIFY: the segment of its second address
  uint64_t notified_addr;
};

// How the states of a queue mark an entry.
enum SpecialEntry : uint8_t {
  kDropped = 1,  // leaves without a record: its queue was reset
  kMarker = 2,   // no request: the record that says that all before it are flushed
};

// The way from one send queue to one target. A provider executes its requests in post order.
class SendPath {
 public:
  explicit SendPath(const urma_cr_t& record) : record(record) {}
  SendPath(const SendPath&) = delete;
  SendPath& operator=(const SendPath&) = delete;
  virtual ~SendPath() = default;
  // Moves what can be moved now. True if requests still wait to be executed.
  virtual bool advance() = 0;
  // Drops the first request that waits to be executed.
  virtual void give_up_first() = 0;
  // Whether the message at this place of the queue, the oldest of all, was in flight here and has
  // ended with success. True only once. A path may leave all that to advance().
  virtual bool take_ended(uint32_t /*place*/) { return false; }
  // Keeps what the request that is about to fail has met, for its line in the log.
  template <typename... Args>
  [[gnu::cold, gnu::noinline]] void because(fmt::string_view text, const Args&... args) noexcept {
    if (!failures_are_read()) return;
    // Without memory the line lacks it.
    guarded(URMA_LOG_SITE, [&] { why = format_args(text, fmt::make_format_args(args...)); });
  }

  bool more = false;            // the last advance() did not wait, but had done enough at once
  const urma_cr_t record;       // what all its completion records share
  uint32_t outstanding = 0;     // requests that are not done
  uint32_t entries = 0;         // requests whose completion was not collected
  SendPath* earlier = nullptr;  // among the busy paths of the queue, while this is one
  SendPath* later = nullptr;
  std::string why;  // see because(); "": the status tells all
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

  OwnerLock& lock() URMA_RETURN_CAPABILITY(lock_) { return lock_; }
  const OwnerLock& lock() const URMA_RETURN_CAPABILITY(lock_) { return lock_; }
  const SendLimits& limits() const { return limits_; }

  // Its counts and how full it is; any thread.
  void report(urma_ext_queue_t* queue) const;

  // What the records of a path share.
  urma_cr_t record_of(const urma_jetty_id_t& remote_id, uint32_t tpn) const;

  // Everything below needs the lock, except collect(), which takes it, and empty().
  // The next free entry, or NULL if the queue is full. Nothing is posted until commit().
  SendEntry* reserve();
  // The place of the reserved entry.
  uint32_t reserved() const { return tail_; }
  void commit(SendEntry* entry);
  // The shortest way, for requests of one post that are executed, or in flight, at once, and all on
  // one path: they take one place after the other, and count when the run of them ends.
  void begin_run() {
    if (empty()) start_over();
  }
  // Whether there is a place after the `taken` ones that the run has; false also if that needs more
  // than a look.
  [[gnu::always_inline]] bool room_after(uint32_t taken) const {
    return size_.load(std::memory_order_relaxed) + taken < easy_;
  }
  // For a post of one request the compiler knows that it is 0.
  [[gnu::always_inline]] uint32_t place_after(uint32_t taken) const {
    return taken == 0 ? tail_ : behind(tail_, taken);
  }
  // Ends a run of requests that are executed.
  [[gnu::always_inline]] void end_run_done(uint32_t taken, SendPath* path) {
    path->entries += taken;
    grow(taken);
  }
  // Ends a run of messages in flight, at least one.
  [[gnu::always_inline]] void end_run_sent(uint32_t taken, SendPath* path) {
    if (path->outstanding == 0) make_busy(path);
    path->outstanding += taken;
    path->entries += taken;
    grow(taken);
    counters_.posts.add(taken);
  }
  // As commit(), for a request that a path gives to its device, and whose form says so. True if it
  // is the only one outstanding on this path.
  [[gnu::always_inline]] bool commit_in_flight(SendEntry* entry, uint32_t place, SendPath* path) {
    entry->next = kNoEntry;
    tail_ = behind(place);
    size_.store(size_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    ++path->entries;
    const bool only = path->outstanding++ == 0;
    if (only) make_busy(path);
    return only;
  }
  // How many further requests find a place, as far as a look tells.
  uint32_t easy_room() const {
    const uint32_t size = size_.load(std::memory_order_relaxed);
    return size < easy_ ? easy_ - size : 0;
  }
  // For a provider: while its count of requests on the path of the last one is below this, there is
  // room for one more wherever it needs some, unless others were posted meanwhile.
  uint64_t& room_until() { return room_until_; }
  // The next free entry, if room is known to be there.
  SendEntry* reserve_known() { return &at(tail_); }
  [[gnu::always_inline]] void complete(SendEntry* entry, urma_cr_status_t status) {
    entry->state = SendState::kDone;
    entry->status = static_cast<uint8_t>(status);
    if (status == URMA_CR_SUCCESS) [[likely]] {
      counters_.ended(URMA_CR_SUCCESS, entry->bytes);
    } else {
      fail(entry, status);
    }
    if (--entry->path->outstanding == 0) make_idle(entry->path);
  }
  // A request was executed when it was posted.
  [[gnu::always_inline]] void count_executed(uint64_t bytes) { counters_.executed(bytes); }
  // The program posted a request.
  void count_post() { count_posts(1); }
  [[gnu::always_inline]] void count_posts(uint32_t count) { counters_.posts.add(count); }
  void count_refused() { counters_.refused.add(1); }

  // The state, and its effect on the records. The provider flushes the paths first.
  urma_jetty_state_t state() const { return state_.load(std::memory_order_relaxed); }
  // READY again. What was posted to a suspended queue lies in its paths and goes on.
  void resume();
  // ERROR or SUSPENDED: puts the marker after all that is outstanding.
  void stop(urma_jetty_state_t state);
  // RESET: no entry leaves a record.
  void reset();
  // urma_flush_*: once the marker was polled, returns requests that were posted after it.
  int hand_back(int count, urma_cr_t* cr);
  // All that were ever posted, and all that left: the producer and the consumer index.
  uint64_t posted() const { return popped_ + size_.load(std::memory_order_relaxed); }
  uint64_t retired() const { return popped_; }
  // Of all, those before this one, which has not left.
  uint64_t posted_before(const SendEntry* entry) const {
    const uint32_t place = index_of(entry);
    return popped_ + (place < head_ ? places_ : 0) + place - head_;
  }

  // True if every read and atomic that was posted before `entry` is done.
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

  // Advances every path with outstanding requests; true if some still wait to be executed.
  bool advance_paths();
  // Whether a path could have moved more when they were last advanced.
  bool more() const { return more_; }
  // Whether the JFC is armed, after something has become due, or has begun.
  [[gnu::always_inline]] bool armed() const {
    // SYNC(bell): what is done, or that the queue is not empty, was stored before this look at the
    // bell; pairs with the barrier in CompletionQueue::arm.
    light_barrier(fenced_);
    return (bell_.seen() & kArmed) != 0;
  }
  // The same, and also true if that look needs a fence before it.
  [[gnu::always_inline]] bool may_be_armed() const { return watch_.may_be_set(); }
  // Tells an armed JFC of the completions that are now due.
  void announce() {
    if (armed()) [[unlikely]]
      announce_armed();
  }
  // The last result of advance_paths(); a hint without the lock.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  void set_waiting() { waiting_.store(true, std::memory_order_relaxed); }
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override
      URMA_REQUIRES(poller->poll_lock());
  PollAlone poll_alone() const override { return poll_source; }
  bool contended() const override { return lock_.is_contended(); }
  const std::atomic<uint32_t>* fill() const override { return &size_; }
  // The source that a JFC polls for it: itself, or a sender that collects for it from a device,
  // which calls collected_by() before it is attached.
  CompletionSource* collector() { return collector_; }
  void collected_by(CompletionSource* collector) { collector_ = collector; }
  // For that sender, with the lock: the first path with outstanding requests; the oldest request;
  // up to a number of records of requests that are done.
  SendPath* busy() const { return busy_.load(std::memory_order_relaxed); }
  SendEntry* oldest() const { return &at(head_); }
  // The oldest entry, in flight, ends with success and leaves at once, with its record. No path but
  // its own is busy.
  [[gnu::always_inline]] void leave_at_once(const SendEntry* entry, SendPath* path, urma_cr_t* cr) {
    static_assert(URMA_CR_SUCCESS == 0);
    *cr = path->record;
    cr->user_ctx = entry->user_ctx;
    cr->completion_len = static_cast<uint32_t>(entry->bytes);
    counters_.ended(URMA_CR_SUCCESS, entry->bytes);
    --path->entries;
    if (--path->outstanding == 0) none_is_busy();
    ++popped_;
    const uint32_t left = size_.load(std::memory_order_relaxed) - 1;
    size_.store(left, std::memory_order_relaxed);
    if (left == 0) {
      start_over();
    } else {
      head_ = behind(head_);
    }
  }
  // Whether the oldest request is a message in flight that leaves a record. For a queue that is not
  // empty.
  [[gnu::always_inline]] bool oldest_is_on_its_way() const URMA_REQUIRES(lock_);
  // If so, takes the records of such messages, from the oldest on, while they have ended with
  // success on the only busy path. `count`, above 0, is the room in `cr`.
  [[gnu::always_inline]] int take_oldest(int count, urma_cr_t* cr) URMA_REQUIRES(lock_);
  [[gnu::always_inline]] int retire(int count, urma_cr_t* cr);
  [[gnu::always_inline]] static void fill_record(const SendEntry& entry, urma_cr_t* cr);
  bool move_for(CompletionQueue* waiter, bool just_armed) override;
  bool outstanding() const override { return !empty(); }
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

 private:
  void make_room();
  // The poller's lock is held, which a pointer to a function cannot express.
  static int poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                         CompletionSource* source) noexcept URMA_NO_THREAD_SAFETY_ANALYSIS;
  [[gnu::always_inline]] int poll_alone(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(poller->poll_lock());
  // After `got` records. The analysis does not know that the lambda in it leaves the lock.
  [[gnu::noinline]] int poll_rest(CompletionQueue* poller, int got, int count,
                                  urma_cr_t* cr) noexcept URMA_RELEASE(lock_)
      URMA_RELEASE(poller->poll_lock()) URMA_NO_THREAD_SAFETY_ANALYSIS;
  // The same, if these are all, and another thread waits for the lock that was left.
  [[gnu::noinline]] int end_awaited_poll(CompletionQueue* poller, int got) noexcept
      URMA_RELEASE(poller->poll_lock());
  int advance_and_retire(CompletionQueue* poller, int count, urma_cr_t* cr) URMA_REQUIRES(lock_)
      URMA_REQUIRES(poller->poll_lock());
  // As poll_alone(), after oldest_is_on_its_way().
  [[gnu::noinline]] int poll_messages(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(lock_) URMA_RELEASE(poller->poll_lock());
  [[gnu::noinline]] void announce_armed();
  [[gnu::cold, gnu::noinline]] void fill_marker(const SendEntry& entry, urma_cr_t* cr) const;
  [[gnu::cold, gnu::noinline]] void vacate_special(SendEntry* entry);
  [[gnu::cold, gnu::noinline]] void fail(SendEntry* entry, urma_cr_status_t status);
  void log_failure(SendEntry* entry, urma_cr_status_t status) const;
  uint32_t behind(uint32_t place) const { return place + 1 == places_ ? 0 : place + 1; }
  uint32_t behind(uint32_t place, uint32_t by) const {
    const uint32_t sum = place + by;
    return sum >= places_ ? sum - places_ : sum;
  }
  // An empty queue starts over, so that it stays in the cache whatever its depth is.
  void start_over() { head_ = tail_ = 0; }
  [[gnu::always_inline]] void grow(uint32_t by) {
    tail_ = behind(tail_, by);
    size_.store(size_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  [[gnu::always_inline]] void make_busy(SendPath* path) {
    SendPath* const before = busy();
    path->earlier = before;
    path->later = nullptr;
    if (before != nullptr) before->later = path;
    set_busy(path);
  }
  [[gnu::always_inline]] void make_idle(SendPath* path) {
    if (path->earlier != nullptr) path->earlier->later = path->later;
    if (path->later != nullptr) {
      path->later->earlier = path->earlier;
    } else if (path->earlier != nullptr) {
      set_busy(path->earlier);
    } else {
      none_is_busy();
    }
  }
  void none_is_busy() {
    set_busy(nullptr);
    waiting_.store(false, std::memory_order_relaxed);
  }
  void set_busy(SendPath* path) { busy_.store(path, std::memory_order_relaxed); }
  // The oldest entry leaves its place.
  [[gnu::always_inline]] void vacate(SendEntry* entry) {
    if (entry->special == 0) [[likely]] {
      --entry->path->entries;
    } else {
      vacate_special(entry);
    }
    head_ = behind(head_);
  }
  void set_state(urma_jetty_state_t state) {
    state_.store(state, std::memory_order_relaxed);
    flushed_ = false;
  }
  void put_marker(urma_cr_status_t status);
  void silence_marker();
  void count_towards_overflow();
  static bool leaves_record(const SendEntry& entry) {
    return (entry.signalled || entry.status != URMA_CR_SUCCESS) && (entry.special & kDropped) == 0;
  }
  // The place of the entry at `offset` from the oldest.
  uint32_t nth(uint32_t offset) const {
    return offset < places_ - head_ ? head_ + offset : head_ - (places_ - offset);
  }

  OwnerLock lock_;
  const SendLimits limits_;
  const QueueIdentity identity_;
  CompletionQueue* const jfc_;
  const Bell& bell_;  // of the JFC
  const bool fenced_;
  const BellWatch watch_;
  const uint32_t depth_;
  const uint32_t places_;          // the depth, a marker, and one for the next marker alone
  const uint32_t overflow_above_;  // the depth of the JFC
  const uint32_t easy_;            // up to this size a look is enough: neither limit is reached
  const size_t stride_;
  LazyMemory memory_;
  std::atomic<urma_jetty_state_t> state_{URMA_JETTY_STATE_READY};  // written under lock_
  bool flushed_ = false;                                           // the marker was polled
  uint32_t markers_ = 0;  // of the entries; the older ones leave without a record
  // What count_towards_overflow() has counted since popped_ had this value.
  uint64_t counted_since_ = 0;
  uint32_t counted_ = 0;
  uint32_t counted_due_ = 0;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;              // the place behind the newest entry
  std::atomic<uint32_t> size_{0};  // written under lock_
  std::atomic<bool> waiting_{false};
  bool more_ = false;
  uint64_t popped_ = 0;     // all that ever left
  uint64_t announced_ = 0;  // the armed JFC knows of all that is due before this count
  // The paths with outstanding requests, the latest first. Written under lock_.
  std::atomic<SendPath*> busy_{nullptr};
  CompletionSource* collector_ = this;
  uint64_t room_until_ = 0;
  QueueCounters counters_;
};

// The rest is most of the cost of a poll.

inline void SendQueue::fill_record(const SendEntry& entry, urma_cr_t* cr) {
  *cr = entry.path->record;
  cr->status = static_cast<urma_cr_status_t>(entry.status);
  cr->user_ctx = entry.user_ctx;
  cr->completion_len = static_cast<uint32_t>(entry.bytes);
}

inline bool SendQueue::oldest_is_on_its_way() const {
  const SendEntry& entry = *oldest();
  return entry.state == SendState::kInFlight && entry.special == 0 && entry.signalled &&
         entry.kind == OpKind::kSend;
}

inline int SendQueue::take_oldest(int count, urma_cr_t* cr) {
  int got = 0;
  do {
    SendEntry* const entry = oldest();
    SendPath* const path = busy();
    // An armed JFC has to be told of what has ended.
    if (path == nullptr || path->earlier != nullptr || entry->path != path || may_be_armed() ||
        !path->take_ended(head_)) {
      break;
    }
    // A path may keep what belongs to the entry until it sees this.
    entry->state = SendState::kDone;
    leave_at_once(entry, path, &cr[got]);
  } while (++got != count && !empty() && oldest_is_on_its_way());
  return got;
}

inline int SendQueue::retire(int count, urma_cr_t* cr) {
  int got = 0;
  uint32_t size = size_.load(std::memory_order_relaxed);
  const uint32_t before = size;
  while (size != 0) {
    SendEntry& entry = at(head_);
    if (entry.state != SendState::kDone) break;
    if (leaves_record(entry)) {
      if (got == count) break;
      if (entry.special == 0) [[likely]] {
        fill_record(entry, &cr[got]);
      } else {
        fill_marker(entry, &cr[got]);
      }
      ++got;
    }
    vacate(&entry);
    --size;
  }
  popped_ += before - size;
  size_.store(size, std::memory_order_relaxed);
  if (size == 0) start_over();
  return got;
}

}  // namespace urma

#endif  // JETTY_SEND_QUEUE_H_
