// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty: takes work requests in and hands each to the path of its
// target.
#ifndef JETTY_SENDER_H_
#define JETTY_SENDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "jetty/network.h"
#include "jetty/remote.h"
#include "jetty/send_queue.h"
#include "jetty/work_request.h"
#include "urma_types.h"

namespace urma {

class Transport;

// A path to an imported queue, with the requests that wait to be executed in post order.
class TargetPath : public SendPath {
 public:
  // `hint` distinguishes the paths to one group.
  TargetPath(SendQueue* queue, RemoteQueue* target, uint32_t hint);
  ~TargetPath() override;
  TargetPath(const TargetPath&) = delete;
  TargetPath& operator=(const TargetPath&) = delete;

  // Whether requests that follow another one to the same target may take the provider's short way.
  virtual bool has_short_way() const { return true; }
  // Whether messages go by shared memory; else by a network.
  virtual bool is_near() const { return false; }
  // Enqueues after all others.
  void enqueue(SendEntry* entry) { enqueue_at(queue_->index_of(entry), idle()); }
  // For a request that has ended, or will never be executed.
  [[gnu::always_inline]] static void drop_segments(SendEntry* entry) {
    if (entry->remote != nullptr) entry->remote->drop_ref();
    if (entry->notified != nullptr) [[unlikely]]
      entry->notified->drop_ref();
  }
  // The caller looks seldom: the next look counts as many unsuccessful ones.
  virtual void insist() {}
  // Ends all requests: those that the target has received with success, the others with
  // WR_FLUSH_ERR, which may take until the owner has answered. The path can be used again.
  virtual void flush() = 0;
  // The same for a queue that drops them: nobody is told when one ends later.
  virtual void drop() { flush(); }
  // Once all of its requests are done, the next one to the target takes a new path, which may lead
  // another way.
  void give_up() { given_up_ = true; }
  // The same. Nobody has the target, or this memory: requests that wait for it end too, so that the
  // path is over also while a program posts more.
  void give_up_target() {
    given_up_ = true;
    lose_target(UINT64_MAX);
  }
  void give_up_memory(const ImportedSegment& lost) {
    given_up_ = any_lost_ = true;
    lost_memory_ = {lost.seg.ubva.eid, lost.seg.token_id};
  }
  // Nobody has the target now: of the first `posted` requests of the queue, those that wait for it
  // end too. Later ones ask anew.
  void lose_target(uint64_t posted) {
    any_lost_ = true;
    in_vain_until_ = posted;
  }
  bool is_over() const { return given_up_ && outstanding == 0; }
  // True if nothing needs this path any more: it may be deleted.
  bool unused() const { return entries == 0 && (serial_ == 0 || !target_->imported.load()); }
  // The serial of the target; 0: no further request takes this path.
  uint64_t serial() const { return serial_; }
  void retire() { serial_ = 0; }
  bool leads_to(const RemoteQueue* target) const { return target_ == target; }
  bool leads_to(const RemoteQueue* target, uint32_t hint) const {
    return target_ == target && hint_ == hint;
  }
  // True if no request waits to be executed.
  bool idle() const { return first_pending_ == kNoEntry; }
  // Another number once a request has moved on, almost always.
  uint64_t mark() const {
    const uint64_t moved = idle() ? 0 : queue_->at(first_pending_).moved;
    return (uint64_t{first_pending_} << 32 | outstanding) + moved;
  }
  // Whether the program, or the service thread while the program sleeps, is woken by all that the
  // requests may wait for.
  virtual bool wakes() const { return false; }

 protected:
  // The oldest request that waits; not to be called while idle().
  SendEntry* first() const { return &queue_->at(first_pending_); }
  // Takes it out, without a completion.
  [[gnu::always_inline]] SendEntry* take_first() {
    SendEntry* entry = first();
    take_out(entry);
    return entry;
  }
  [[gnu::always_inline]] void take_out(SendEntry* first) {
    first_pending_ = first->next;
    drop_segments(first);
  }
  // As enqueue(), for a caller that knows whether there are others.
  [[gnu::always_inline]] void enqueue_at(uint32_t index, bool alone) {
    (alone ? first_pending_ : queue_->at(last_pending_).next) = index;
    last_pending_ = index;
  }
  RemoteQueue* target() const { return target_; }
  uint32_t hint() const { return hint_; }
  // Whether a request waits for what this path has found lost. Memory may belong to another process
  // than the target.
  bool in_vain(const SendEntry& entry) const {
    if (!any_lost_) [[likely]]
      return false;
    const bool message = entry.kind == OpKind::kSend || entry.kind == OpKind::kWriteImm;
    if (message && queue_->posted_before(&entry) < in_vain_until_) return true;
    return entry.kind != OpKind::kSend && is_lost_memory(entry.remote);
  }

 private:
  bool is_lost_memory(const ImportedSegment* segment) const {
    return segment != nullptr && segment->seg.token_id == lost_memory_.token_id &&
           same_eid(segment->seg.ubva.eid, lost_memory_.owner);
  }

  SendQueue* const queue_;
  RemoteQueue* const target_;
  uint64_t serial_;
  uint32_t first_pending_ = kNoEntry;
  uint32_t last_pending_ = kNoEntry;
  const uint32_t hint_;
  bool given_up_ = false;
  bool any_lost_ = false;  // the target or memory
  uint64_t in_vain_until_ = 0;
  struct {
    urma_eid_t owner;
    uint32_t token_id;
  } lost_memory_ = {};
};

class Sender {
 public:
  Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
         const urma_jetty_id_t& id, uint64_t max_message);
  // Derived classes call end() in their destructor.
  virtual ~Sender() = default;
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // RC: the target of everything posted from now on. `target` stays until unbind().
  void bind(RemoteQueue* target);
  // Connects now, so that the first request need not wait for it.
  virtual void connect_ahead(RemoteQueue* /*target*/) {}
  // Ends what is outstanding: what the peer has received with success, the rest with WR_FLUSH_ERR.
  void unbind();

  // If the contract allows it, see change_allowed(); the same state again changes nothing.
  void set_state(urma_jetty_state_t state);
  urma_jetty_state_t state();
  // urma_flush_*.
  int hand_back(int count, urma_cr_t* cr);
  uint64_t posted();
  uint64_t retired();

  // Service thread, from time to time: goes on with requests that wait to be executed, unless the
  // program polls. Tells when to look again: later, if nothing has moved and the program sleeps
  // until something wakes it.
  enum class Look { kNever, kLater, kSoon };
  Look serve();
  // Service thread, at once, if the JFC is armed: nobody polls. True if more can be done at
  // once.
  bool serve_armed();

  // A hint: something will be sent to the target soon. Throws Error.
  virtual urma_status_t advise(RemoteQueue* target);
  virtual urma_status_t unadvise(RemoteQueue* /*target*/) { return URMA_SUCCESS; }

  // The queue ends: gives what is in flight its time to finish. The JFC still stands.
  virtual void finish() {}

  // Returns when unregistered memory is no longer copied from or to.
  void quiesce(OwnerBarrier* barrier);
  // Returns when no thread is inside any more that was there before.
  void await_others(OwnerBarrier* barrier) { lock().await_others(barrier); }

  // Its counts, how full it is, and its ways to targets; any thread.
  void report(urma_ext_queue_t* queue) const;

  SendQueue& queue() { return queue_; }
  const SendQueue& queue() const { return queue_; }
  OwnerLock& lock() URMA_RETURN_CAPABILITY(queue_.lock()) { return queue_.lock(); }
  const OwnerLock& lock() const URMA_RETURN_CAPABILITY(queue_.lock()) { return queue_.lock(); }
  Transport& transport() { return *transport_; }
  const urma_jfs_cfg_t& config() const { return cfg_; }
  const urma_jetty_id_t& id() const { return id_; }

 protected:
  virtual std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) = 0;
  // True, with one log line, if the queue does not support the request.
  virtual bool refuses(const urma_jfs_wr_t& wr) const;
  // A post has found no place: the end of the oldest request may have to be asked for.
  virtual void found_full() {}

  // This sender is no longer used, and its paths are gone.
  void end();
  // Checks a request and takes it in: *path has to go on with it, see go_on(); NULL if it needs
  // nothing more. Does not throw. If it fails, nothing has happened.
  [[gnu::noinline]] urma_status_t take_in(const urma_jfs_wr_t& wr, TargetPath** path) noexcept
      URMA_REQUIRES(lock());
  // Executes what can be executed now of what a path has taken.
  void go_on(TargetPath* path) URMA_REQUIRES(lock());
  // Lets the service thread go on if nobody polls.
  void look_after() URMA_REQUIRES(lock());
  // The path to a target that is not a group. Throws Error.
  TargetPath* path_to(RemoteQueue* target) URMA_REQUIRES(lock());
  const CompletionQueue& jfc() const { return *static_cast<const CompletionQueue*>(cfg_.jfc); }
  // The path and the target of the last request, if the next may follow by a shorter way; else
  // NULL, and a target that no request has.
  TargetPath* last_path() const URMA_REQUIRES(lock()) { return last_path_; }
  const urma_target_jetty_t* last_target() const URMA_REQUIRES(lock()) { return last_target_; }
  // The serial of the last path if it has a short way; else 0, which no target has.
  uint64_t short_serial() const URMA_REQUIRES(lock()) { return short_serial_; }
  const RemoteQueue* bound() const URMA_REQUIRES(lock()) { return bound_; }
  const std::vector<std::unique_ptr<TargetPath>>& paths() const URMA_REQUIRES(lock()) {
    return paths_;
  }

 private:
  urma_status_t check_and_take(const urma_jfs_wr_t& wr, TargetPath** path) URMA_REQUIRES(lock());
  void post_stopped(SendEntry* entry, TargetPath* path) URMA_REQUIRES(lock());
  void flush_paths() URMA_REQUIRES(lock());
  urma_status_t fill(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry);
  urma_status_t fill_remote(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry);
  RemoteQueue* target_of(const urma_jfs_wr_t& wr) const URMA_REQUIRES(lock());
  TargetPath* path_to_member(RemoteQueue* group, uint32_t hint) URMA_REQUIRES(lock());
  void make_room(const RemoteQueue* group) URMA_REQUIRES(lock());
  Look leave_to_polls();
  bool has_moved() URMA_REQUIRES(lock());
  TargetPath* add_path(RemoteQueue* target, uint32_t hint) URMA_REQUIRES(lock());
  // The short way stays shut until a request has gone the long one.
  void shut_short_way() URMA_REQUIRES(lock()) { take_short_way(nullptr, &kNobody); }
  TargetPath* take_short_way(TargetPath* path, const urma_target_jetty_t* target)
      URMA_REQUIRES(lock()) {
    const bool has_one = path != nullptr && path->has_short_way();
    last_target_ = has_one ? target : &kNobody;
    short_serial_ = has_one ? path->serial() : 0;
    queue_.room_until() = 0;
    return last_path_ = path;
  }

  Transport* transport_;
  const urma_jfs_cfg_t cfg_;
  const urma_jetty_id_t id_;
  std::atomic<bool> pending_{false};
  // Of the paths that further requests may take.
  std::atomic<uint32_t> near_ways_{0};
  std::atomic<uint32_t> far_ways_{0};
  uint32_t rounds_in_flight_ = 0;  // rounds of the service thread without anything to execute
  uint64_t polls_seen_ = 0;
  uint64_t mark_seen_ = 0;
  SendQueue queue_;
  std::vector<std::unique_ptr<TargetPath>> paths_ URMA_GUARDED_BY(lock());
  TargetPath* last_path_ URMA_GUARDED_BY(lock()) = nullptr;
  // A target that stays as long as its path does.
  const urma_target_jetty_t* last_target_ URMA_GUARDED_BY(lock()) = &kNobody;
  uint64_t short_serial_ URMA_GUARDED_BY(lock()) = 0;
  static const urma_target_jetty_t kNobody;
  RemoteQueue* bound_ URMA_GUARDED_BY(lock()) = nullptr;  // RC
};

// Whether urma_modify_* may lead from one state of a send queue to another.
bool change_allowed(urma_jetty_state_t from, urma_jetty_state_t to);
// Whether a queue in this state executes nothing until the program changes it.
inline bool is_stopped(urma_jetty_state_t state) {
  return state == URMA_JETTY_STATE_ERROR || state == URMA_JETTY_STATE_RESET;
}

}  // namespace urma

#endif  // JETTY_SENDER_H_
