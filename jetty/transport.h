// SPDX-License-Identifier: MIT
//
// What one provider shares between its contexts: the objects that it owns and serves, and the
// background work on the service thread. What differs between providers is virtual.
#ifndef JETTY_TRANSPORT_H_
#define JETTY_TRANSPORT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "jetty/completion_queue.h"
#include "jetty/faults.h"
#include "jetty/groups.h"
#include "jetty/listing.h"
#include "jetty/network.h"
#include "jetty/peer_watches.h"
#include "jetty/receiver.h"
#include "jetty/remote.h"
#include "segment/segment.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"

namespace urma {

class EventChannel;
class Sender;

// A target, to be asked whether it exists and may be used.
struct ProbeTarget {
  urma_eid_t eid;
  uint32_t id;
  uint32_t type;  // urma_target_type_t
  uint32_t trans_mode;
  uint32_t token;
};

// A sender's request for a way to a target.
struct WayRequest : ProbeTarget {
  urma_jetty_id_t sender;
  uint32_t rnr_retry;
  uint32_t hint;  // of a group: which member
};

// Whether a peer with this token may send to an endpoint in this mode.
Answer admits(const Endpoint& endpoint, uint32_t trans_mode, uint32_t token);

class Transport : public SegmentInspector {
 public:
  // `faults`: as Faults::parse() returns them.
  explicit Transport(Service* service, std::unique_ptr<Faults> faults = nullptr)
      : service_(service), faults_(std::move(faults)) {}

  Service& service() { return *service_; }
  SegmentTable& segments() { return segments_; }
  const SegmentTable& segments() const { return segments_; }
  GroupTable& groups() { return groups_; }
  // What tools are shown.
  QueueList& queues() { return queues_; }
  ImportList& imports() { return imports_; }
  std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const override {
    return moved_part(segment);
  }
  void list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const override {
    queues_.append_to(queues, most);
  }
  void list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const override;
  // Becomes true on the service thread when this transport stops; for tasks that may run later.
  std::shared_ptr<const bool> ended() const { return ended_; }
  QueueSerials& queue_serials() { return queue_serials_; }
  // How long a thread that waits for events may look for them before it sleeps.
  virtual uint64_t busy_poll_ns() const { return 0; }
  uint64_t next_serial() { return serial_.fetch_add(1, std::memory_order_relaxed); }

  // The EIDs of the device, and the number of this process.
  virtual std::span<const urma_eid_t> eids() const = 0;
  virtual uint32_t uasid() const = 0;
  const urma_eid_t& eid(uint32_t index) const { return eids()[index]; }
  // An id that no other object of this kind has: the program's choice, or any if `chosen` is 0.
  // Throws Error(URMA_EEXIST) if the chosen one is taken.
  virtual uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) = 0;
  virtual void free_id(IdKind kind, uint32_t eid_index, uint32_t id) = 0;

  // The provider's halves of queues. All throw Error.
  virtual std::unique_ptr<Sender> make_sender(const urma_jfs_cfg_t& cfg,
                                              const QueueIdentity& identity,
                                              const urma_jetty_id_t& id) = 0;
  virtual std::unique_ptr<Receiver> make_receiver(const urma_jfr_cfg_t& cfg,
                                                  const QueueIdentity& identity,
                                                  const urma_eid_t& eid, EventSubject* subject) = 0;

  // Registers a segment that is filled in except `ref` and what the provider keeps of it. `segment`
  // is from make_segment(). Throws Error, and nothing has happened then.
  virtual std::unique_ptr<Segment> make_segment() { return std::make_unique<Segment>(); }
  virtual void enter(Segment* segment) = 0;
  // Removes it. Returns when its memory is no longer used.
  virtual void unregister(Segment* segment) = 0;
  // Asks the owner at once. `access` restricts the mapping; 0: all that is granted.
  virtual ImportedSegment* import_segment(urma_context_t* ctx, const urma_seg_t& seg,
                                          urma_token_t token, uint32_t access) = 0;

  // Asks the owner of a target whether it may be used. Service thread, as the answer.
  virtual void probe(const ProbeTarget& target, std::function<void(Answer)> answered) = 0;
  // Logs that no process answers for an id, and where it was looked for.
  virtual void log_absence(const char* kind, uint32_t id) const;
  // Throws Error(URMA_EINVAL) if the id is already known to be of another kind.
  virtual void require_kind(const urma_jetty_id_t& /*id*/, urma_target_type_t /*type*/) {}
  // A hint: something will be sent to the target soon.
  virtual void connect_ahead(const RemoteQueue& target) = 0;
  // The watches of the owners of queues; NULL: none is ever gone.
  virtual PeerWatches* watches() { return nullptr; }
  // Each of several watches, if the owners of queues are found by several ways. Service thread.
  virtual void for_watches(const std::function<void(PeerWatches*)>& act) {
    if (watches() != nullptr) act(watches());
  }
  // Watches the owner of (EID, id) for `watcher`, until it is gone or unwatch_peer(). Any thread;
  // `target` is only passed on.
  void watch_peer(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
                  uint64_t target);
  // Returns when no call of the watcher is in progress; with a target, only what was given with it
  // ends. Call with no lock held that peer_gone() takes.
  void unwatch_peer(PeerWatcher* watcher, std::optional<uint64_t> target = std::nullopt);
  // The channel is about to end.
  virtual void forget_channel(EventChannel* /*channel*/) {}

  // NULL if no faults were asked for.
  Faults* faults() { return faults_.get(); }
  // As if the process that owns the target had ended: everything in flight to it ends, if there
  // is a connection, and bound jetties fail. Then calls lost(); the next request connects anew.
  // Overrides keep it. NOLINTNEXTLINE(performance-unnecessary-value-param)
  virtual void lose_connection(const RemoteQueue& /*target*/, std::function<void()> lost) {
    lost();
  }

  // What peers may send to. The receiver of an endpoint must be added before.
  void add_receiver(Receiver* receiver);
  void remove_receiver(Receiver* receiver);
  void add_endpoint(IdKind kind, const Endpoint& endpoint);
  // Also closes the ways that lead to it.
  void remove_endpoint(IdKind kind, const Endpoint& endpoint);
  // Calls with_endpoint(endpoint) if it exists; its receiver stays meanwhile. Service thread.
  bool with_endpoint(IdKind kind, const urma_eid_t& eid, uint32_t id,
                     const std::function<void(const Endpoint&)>& with_endpoint);

  // The answer to a peer that asks whether it may use a queue or group of this process. Service
  // thread.
  Answer judge(const ProbeTarget& target);
  // The same for a peer that asks for a way: take(endpoint) is called if it may send, and
  // returns false if no messages are taken there now. For a group, the endpoint is the member
  // that the hint selects, or the next one that takes messages; *members is their number.
  Answer admit(const WayRequest& asked, uint32_t* members,
               const std::function<bool(const Endpoint&)>& take);

  // Calls visit(receiver) for each; none of them can go meanwhile.
  void visit_receivers(const std::function<void(Receiver&)>& visit);

  // Calls visit(sender) for each until one returns true; none of them can go meanwhile.
  bool find_sender(const std::function<bool(Sender&)>& visit);
  void add_sender(Sender* sender);
  void remove_sender(Sender* sender);

  // Moves the receives of this process: for a poll that found nothing, or a peer's request.
  virtual void progress_receives();
  // Whether other processes look at the bells of this one, and ring them. True is never wrong, but
  // costs a system call for each arming.
  virtual bool has_remote_bells() const { return true; }
  void serve_receives();
  // The same for a peer that says that its message waits, at most once in kHintPauseNs: peers may
  // say so at any rate, and each time keeps the program out of its queues. Service thread.
  void serve_hint();
  // Goes on with the requests of armed JFCs: something that they may wait for has come. Service
  // thread.
  void serve_senders();
  // Goes on with what armed JFCs have begun: one round for all who ask before it begins. Any
  // thread. Throws std::bad_alloc; then a later call asks again.
  void take_over();
  // A request could not be executed at once. Polls of its JFC go on with it; if nobody polls,
  // the service thread does. Any thread, with the sender's lock held. Throws as take_over().
  virtual void watch_pending();
  // Calls jfc->raise_delayed(arming) after `us` microseconds, unless forget_delayed() is called
  // before. Any thread.
  void delay_event(CompletionQueue* jfc, uint64_t arming, uint32_t us);
  void forget_delayed(CompletionQueue* jfc);
  // Returns when no thread is inside a queue any more that was there before; what one of them has
  // read there without another lock is then no longer used. Not with a queue's lock held.
  void await_queues();

 protected:
  // Nothing begins any more. Service thread. Call cancel_timers() later, when all that was posted
  // there has run.
  void end_service();
  void cancel_timers();
  bool stopped() const { return *ended_; }
  // Returns when no copy from or to unregistered memory is in progress.
  void quiesce();

 private:
  // No two live objects of a kind and an EID have one id.
  using EndpointKey = std::tuple<IdKind, EidKey, uint32_t>;

  void serve_round();
  void serve_senders_round();
  void tick();
  void tick_soon();
  void tick_later();
  // Has the service thread begin a round that is due; nothing is due if that throws.
  template <typename Round>
  void post_due(std::atomic<bool>* due, const Round& round);

  Service* service_;
  const std::unique_ptr<Faults> faults_;
  std::atomic<uint64_t> serial_{1};
  QueueSerials queue_serials_;
  SegmentTable segments_;

  Mutex endpoints_mutex_;
  std::map<EndpointKey, Endpoint> endpoints_ URMA_GUARDED_BY(endpoints_mutex_);
  std::vector<Receiver*> receivers_ URMA_GUARDED_BY(endpoints_mutex_);
  size_t next_receiver_ URMA_GUARDED_BY(endpoints_mutex_) =
      0;  // the next receiver in progress_receives()

  Mutex senders_mutex_;
  std::vector<Sender*> senders_ URMA_GUARDED_BY(senders_mutex_);
  std::atomic<bool> taking_over_{false};
  std::atomic<bool> ticking_{false};
  std::atomic<bool> seldom_{false};  // the tick that is due may be late for others

  // On the service thread only.
  bool serving_ = false;          // a round of serve_receives() is due
  bool serving_senders_ = false;  // the same of serve_senders()
  std::multimap<CompletionQueue*, Service::TimerId> delayed_;
  Service::TimerId tick_timer_ = 0;
  uint64_t tick_ns_ = 0;  // until the next one
  Service::TimerId hint_timer_ = 0;
  uint64_t next_hint_ns_ = 0;
  GroupTable groups_;
  QueueList queues_;
  ImportList imports_;
  const std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
};

}  // namespace urma

#endif  // JETTY_TRANSPORT_H_
