// SPDX-License-Identifier: MIT
//
// A JFC: where a program collects completion records.
//
// Send completions stay in their send queue until a poll collects them; receive completions wait in
// the JFC's own ring. So queues of different threads share nothing on the way.
#ifndef JETTY_COMPLETION_QUEUE_H_
#define JETTY_COMPLETION_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "jetty/async_events.h"
#include "jetty/counters.h"
#include "jetty/event_channel.h"
#include "jetty/lease.h"
#include "jetty/owner_lock.h"
#include "jetty/process_barrier.h"
#include "jetty/turns.h"
#include "segment/bells.h"
#include "segment/lazy_array.h"
#include "urma_types.h"

namespace urma {

class CompletionQueue;
class Transport;

// What gives completions to a JFC when it is polled.
class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  // Moves what it can for a poll of `poller`, writes up to `count` records that are due, and
  // returns their number. Records may also go to the poller's ring.
  virtual int collect(CompletionQueue* poller, int count, urma_cr_t* cr) = 0;
  // Moves one turn of work for the armed JFC `waiter`, which nobody polls, and tells it of the
  // completions that are due: all of them with `just_armed`, else those since the last call. True
  // if more can be moved at once.
  virtual bool move_for(CompletionQueue* waiter, bool just_armed) = 0;
  // Whether something is in flight that may need attention.
  virtual bool outstanding() const = 0;
  // The shortest way, instead of collect(): a whole poll of a JFC that has no other source, and
  // nothing in its ring. Called with its lock held, and leaves it: see end_poll(), finish_poll()
  // and poll_rest_guarded(). A function with its arguments if the provider's operation has them;
  // NULL if there is no such way.
  using PollAlone = int (*)(CompletionQueue* poller, int count, urma_cr_t* cr,
                            CompletionSource* source) noexcept;
  virtual PollAlone poll_alone() const { return nullptr; }
  // A hint: whether another thread uses this source; a poll should not keep it waiting.
  virtual bool contended() const { return false; }
  // A number that is 0 while there is nothing to collect; NULL if there is no such number.
  virtual const std::atomic<uint32_t>* fill() const { return nullptr; }
};

// Receive completions that wait for a poll. Has a lock of its own, since a shared JFR may complete
// into the JFC of another thread.
class CompletionRing {
 public:
  explicit CompletionRing(uint32_t depth) : records_(depth) {}

  // Only a hint if other threads push; room that this thread saw stays, if no other thread
  // pushes.
  bool has_room() const { return size_.load(std::memory_order_relaxed) < records_.size(); }
  bool empty() const { return size() == 0; }
  uint32_t size() const { return size_.load(std::memory_order_relaxed); }
  // False if the ring is full.
  bool push(const urma_cr_t& record, bool solicited);
  int pop(int count, urma_cr_t* cr);
  // The number of waiting records, and whether one of them may be solicited.
  uint32_t waiting(bool* solicited);
  // Drops the records of one queue; called when it is deleted.
  void purge(uint64_t user_data);

 private:
  urma_cr_t& at(uint32_t offset) URMA_REQUIRES(lock_) {
    return records_[(head_ + offset) % records_.size()];
  }

  OwnerLock lock_;
  LazyArray<urma_cr_t> records_;
  size_t head_ URMA_GUARDED_BY(lock_) = 0;
  std::atomic<uint32_t> size_{0};  // written under lock_
  uint64_t pushed_ URMA_GUARDED_BY(lock_) = 0;
  uint64_t last_solicited_ URMA_GUARDED_BY(lock_) = 0;  // pushed_ after the last solicited one
};

// Made inactive: it completes nothing before open().
class CompletionQueue : public urma_jfc_t {
 public:
  CompletionQueue(urma_context_t* ctx, const urma_jfc_cfg_t& cfg, Transport* transport,
                  AsyncEvents* events);

  // As jfc_cfg says.
  void open();
  // Nothing completes into it afterwards. Records that wait in it are lost.
  void close();
  bool is_open() const { return ring_.has_value(); }

  // -1 if it is not open.
  [[gnu::always_inline]] int poll(int count, urma_cr_t* cr) noexcept {
    if (!is_open()) [[unlikely]]
      return -1;
    if (!poll_lock_->enter_at_once()) [[unlikely]]
      return poll_behind_guarded(count, cr);
    return poll_held(count, cr);
  }
  // For poll_alone(): these `got` records, all successes, are all of this poll.
  [[gnu::always_inline]] int end_poll(int got) URMA_RELEASE(poll_lock()) {
    counters_->by_status[URMA_CR_SUCCESS].add(static_cast<uint32_t>(got));
    if (poll_lock_->leave_at_once()) [[unlikely]]
      return wake_one(got);
    return got;
  }
  [[gnu::noinline]] int poll_rest_guarded(int got, int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(poll_lock());
  // Another thread uses the only source: lets it leave, then looks. The source may have gone
  // meanwhile.
  [[gnu::noinline]] int poll_behind_other(int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(poll_lock());
  // These records are all of this poll.
  [[gnu::noinline]] int finish_poll(int got, const urma_cr_t* cr) noexcept
      URMA_RELEASE(poll_lock());
  // The same, without a call for the usual poll: of one record, a success.
  [[gnu::always_inline]] int finish_usual_poll(int got, const urma_cr_t* cr) noexcept
      URMA_RELEASE(poll_lock()) {
    if (got == 1 && cr->status == URMA_CR_SUCCESS && !unfinished_) return end_poll(1);
    return finish_poll(got, cr);
  }
  // For the analysis of locks.
  OwnerLock& poll_lock() URMA_RETURN_CAPABILITY(*poll_lock_) { return *poll_lock_; }

  // urma_rearm_jfc, and the moderation of urma_modify_jfc.
  urma_status_t arm(bool solicited_only);
  urma_status_t modify(urma_jfc_attr_t* attr);
  // Before it is deleted: no further event comes, and the program has acknowledged those that it
  // got. Waits for that, unless the JFC is non_blocking: then URMA_EAGAIN, and nothing changed.
  urma_status_t end_events();
  void ack_events(uint32_t count) { acked_.add(count); }
  // A completion finds no room. The program is told once; no completion is lost if its queue can
  // wait.
  void overflowed();
  // The queue or device behind it has failed: completions are lost.
  void failed() { subject_.raise(URMA_EVENT_JFC_ERR); }

  bool armed() const { return (bell_->bits.load(std::memory_order_relaxed) & kArmed) != 0; }
  bool armed_for_solicited() const {
    return (bell_->bits.load(std::memory_order_relaxed) & kArmed) == kForSolicited;
  }
  // A hint: whether the program has waited for its events lately, rather than polled.
  bool waits() const { return streak_.load(std::memory_order_relaxed) >= kStreak; }
  // A number that changes with each arm().
  uint64_t arming() const { return arming_.load(std::memory_order_relaxed); }
  // `count` completions are due now; solicited or failed. What made them due has been stored.
  [[gnu::always_inline]] void completed(uint32_t count, bool solicited) {
    if (may_be_armed()) [[unlikely]]
      completed_where_armed(count, solicited);
  }
  // Whether it is armed, or that look needs a fence before it: after what makes completions due.
  [[gnu::always_inline]] bool may_be_armed() const { return watch_.may_be_set(); }
  // For a source that a poll left with more to move; called from its collect().
  void leave_unfinished() URMA_REQUIRES(poll_lock()) { unfinished_ = true; }
  void raise_delayed(uint64_t arming);

  EventChannel* channel() const { return channel_; }
  // Whether publishers fence before they look at its bell: see light_barrier().
  bool fenced() const { return fenced_; }
  // Its own bell, while queues complete into it.
  const Bell& bell() const { return *bell_; }
  // The index of that bell in this process.
  uint32_t bell_index() const { return bell_index_; }
  // For the channel.
  bool move();
  // Around a look of the channel's: nobody wakes it meanwhile. The first is false if the JFC takes
  // no part; the second is true if it has to be moved once more.
  bool look_begins();
  bool look_ends();
  bool all_acked() const { return acked_.all_of(reported_); }

  // See Attachment and JfcHold.
  void attach(CompletionSource* source);
  void detach(CompletionSource* source);
  void hold() { attachments_.fetch_add(1, std::memory_order_relaxed); }
  void let_go();
  // True while queues complete into it or hold it. Once false, they no longer use it.
  bool attached();

  CompletionRing& ring() { return *ring_; }
  // Changes whenever the JFC is polled: tells the service thread that the program polls.
  uint64_t polls() const { return polls_.load(std::memory_order_relaxed); }
  // What it has done and how full it is, from any thread while it is open.
  void report(urma_ext_queue_t* queue) const;

 protected:
  // Events go to `channel`; peers look at `bell`, the one with this index.
  void raise_at(EventChannel* channel, Bell* bell, uint32_t bell_index);

 private:
  friend class EventChannel;

  struct Attached {
    CompletionSource* source;
    const std::atomic<uint32_t>* fill;  // of the source
    uint32_t count;
    uint32_t silence;  // for turns_

    // Relaxed: a hint.
    bool is_empty() const { return fill != nullptr && fill->load(std::memory_order_relaxed) == 0; }
  };

  void find_only_ones() URMA_REQUIRES(*poll_lock_);
  // The analysis does not know that poll_alone_() leaves the lock.
  [[gnu::always_inline]] int poll_held(int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(*poll_lock_) URMA_NO_THREAD_SAFETY_ANALYSIS {
    polls_.store(polls() + 1, std::memory_order_relaxed);
    const auto poll_alone = poll_alone_;
    if (poll_alone == nullptr || !ring_->empty()) [[unlikely]]
      return poll_rest_guarded(0, count, cr);
    return poll_alone(this, count, cr, only_source_);
  }
  [[gnu::noinline]] int poll_behind_guarded(int count, urma_cr_t* cr) noexcept;
  [[gnu::noinline]] int wake_one(int got);
  int collect(int count, urma_cr_t* cr) URMA_REQUIRES(*poll_lock_);
  void give_way() URMA_REQUIRES(*poll_lock_);
  int collect_from_any(int count, urma_cr_t* cr) URMA_REQUIRES(*poll_lock_);
  int collect_from_each(int count, urma_cr_t* cr) URMA_REQUIRES(*poll_lock_);
  int collect_from_many(int count, urma_cr_t* cr) URMA_REQUIRES(*poll_lock_);
  int collect_from(const Attached& attached, int count, urma_cr_t* cr);
  void set_bell(uint32_t kind);
  void note_arming();
  void note_idle_polls();
  bool move_just_armed(bool* outstanding);
  [[gnu::noinline]] void completed_where_armed(uint32_t count, bool solicited);
  void raise();

  Transport* transport_;
  // Both while it is open.
  std::optional<OwnerLock> poll_lock_;
  std::optional<CompletionRing> ring_;
  std::vector<Attached> sources_ URMA_GUARDED_BY(*poll_lock_);
  // Most have one source.
  CompletionSource* only_source_ URMA_GUARDED_BY(*poll_lock_) = nullptr;
  CompletionSource::PollAlone poll_alone_ URMA_GUARDED_BY(*poll_lock_) = nullptr;
  size_t first_ URMA_GUARDED_BY(*poll_lock_) = 0;  // of sources_, for the next poll
  Turns turns_ URMA_GUARDED_BY(*poll_lock_){2};    // if the sources are many
  bool ring_first_ URMA_GUARDED_BY(*poll_lock_) = false;
  bool unfinished_ URMA_GUARDED_BY(*poll_lock_) = false;
  std::atomic<uint32_t> attachments_{0};
  std::atomic<uint64_t> polls_{0};
  std::optional<QueueCounters> counters_;  // while it is open

  // As many armings in a row, each after few polls, are those of a program that waits.
  static constexpr uint32_t kStreak = 8;

  static Bell silent_bell_;  // for all JFCs without a channel
  Bell* bell_ = &silent_bell_;
  BellWatch watch_;
  uint32_t bell_index_ = 0;
  bool fenced_ = false;
  EventChannel* channel_ = nullptr;
  EventSubject subject_;
  Acknowledged acked_ = {&event_mutex, &event_cond, &comp_events_acked};
  std::atomic<bool> overflow_told_{false};
  // Guarded by the channel.
  bool listed_ = false;  // in the channel's list
  bool event_pending_ = false;
  uint32_t reported_ = 0;            // events handed out
  std::atomic<uint64_t> arming_{0};  // counts them
  std::atomic<uint64_t> polls_at_arming_{0};
  std::atomic<uint32_t> streak_{0};          // up to kStreak
  std::atomic<uint64_t> delayed_arming_{0};  // the last one whose event was delayed
  std::atomic<uint32_t> counted_{0};         // completions since it was armed
  std::atomic<uint32_t> moderate_count_{0};
  std::atomic<uint32_t> moderate_period_{0};
};

// A source is polled with its JFC while it has at least one of these.
using Attachment = Lease<&CompletionQueue::attach, &CompletionQueue::detach>;
// A JFC stays while it is held: what ends after its attachment may still look at it, and wake the
// threads that sleep there.
using JfcHold = Lease<&CompletionQueue::hold, &CompletionQueue::let_go>;

}  // namespace urma

#endif  // JETTY_COMPLETION_QUEUE_H_
