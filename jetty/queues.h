// SPDX-License-Identifier: MIT
//
// The public queue objects of a provider, with the parts behind each of them.
#ifndef JETTY_QUEUES_H_
#define JETTY_QUEUES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "jetty/async_events.h"
#include "jetty/completion_queue.h"
#include "jetty/lease.h"
#include "jetty/listing.h"
#include "jetty/receiver.h"
#include "jetty/sender.h"
#include "jetty/transport.h"
#include "urma/base/mutex.h"
#include "urma/base/runtime.h"
#include "urma/base/text.h"

namespace urma {

class Context;
class Results;

// An id while an object lives: the one that the program chose, else a fresh one.
class IdLease {
 public:
  // Throws Error(URMA_EEXIST) if the chosen id is taken, Error(URMA_EINVAL) if it cannot be
  // chosen.
  IdLease(Context* context, IdKind kind, uint32_t chosen);
  ~IdLease();
  IdLease(const IdLease&) = delete;
  IdLease& operator=(const IdLease&) = delete;
  uint32_t get() const { return id_; }

 private:
  Context* context_;
  const IdKind kind_;
  uint32_t id_;
};

// Makes a queue known to peers.
using EndpointLease = Lease<&Transport::add_endpoint, &Transport::remove_endpoint>;
// Lets the transport move the receives of a receiver.
using ReceiverLease = Lease<&Transport::add_receiver, &Transport::remove_receiver>;
// Drops the records of a queue when it goes: none is polled once the queue is deleted.
using RecordsLease = Lease<nullptr, &CompletionRing::purge>;

// True once the program has acknowledged all asynchronous events of an object. Waits for that,
// unless non_blocking: then false, with a log line, and nothing changed.
bool may_end(EventSubject* subject, const char* what, uint32_t id, bool non_blocking);

// Throws Error if the JFC `name` is not active.
void require_open(const char* what, const char* name, urma_jfc_t* jfc);
// The result of a call on a queue that is not active, with a log line.
urma_status_t refuse_inactive(const char* call);

// Whether urma_modify_* may be asked for this mask; false with a log line. The mask must have
// `needed`.
bool check_mask(const char* call, uint32_t mask, uint32_t known, uint32_t needed);
bool check_change(const char* call, urma_jetty_state_t from, const urma_jetty_state_t& to);

// The parts of a queue's description for tools that never change.
template <typename Config>
urma_ext_queue_t describe(const urma_context_t& ctx, urma_ext_queue_kind_t kind, uint32_t id,
                          const Config& cfg) {
  urma_ext_queue_t queue = {};
  copy_text(queue.device, ctx.dev->name);
  queue.eid = ctx.eid;
  queue.kind = kind;
  queue.id = id;
  queue.depth = cfg.depth;
  queue.lock_free = cfg.flag.bs.lock_free;
  if constexpr (!std::is_same_v<Config, urma_jfc_cfg_t>) {
    queue.trans_mode = cfg.trans_mode;
    queue.jfc_id = cfg.jfc->jfc_id.id;
  }
  return queue;
}

// Each of the four is made inactive, with its configuration in the public struct. Its Body holds
// what exists only while it is active. All of activate() throw Error and change nothing then;
// deactivate() returns URMA_EAGAIN while something still uses the object.

class Jfc : public CompletionQueue {
 public:
  Jfc(Context* ctx, const urma_jfc_cfg_t& cfg);

  urma_status_t activate();
  urma_status_t deactivate();
  urma_status_t set_option(uint64_t option, void* value, uint32_t length);
  urma_status_t get_option(uint64_t option, void* value, uint32_t length);

 private:
  void shut();

  Context* context_;
  std::optional<IdLease> id_;
  std::optional<IdLease> bell_id_;  // a fresh one: ids that programs choose have no bell
  std::optional<QueueListing> listed_;
};

class Jfs : public urma_jfs_t {
 public:
  Jfs(Context* ctx, const urma_jfs_cfg_t& cfg);

  urma_status_t activate();
  urma_status_t deactivate();
  urma_status_t modify(urma_jfs_attr_t* attr);
  urma_status_t query(urma_jfs_cfg_t* cfg, urma_jfs_attr_t* attr);
  urma_status_t get_option(uint64_t option, void* value, uint32_t length);
  int flush(int count, urma_cr_t* cr);

  // NULL if it is not active.
  Sender* sender() const { return live_; }
  // Its requests can no longer be executed: to ERROR, with an event.
  void break_down();

 private:
  struct Body {
    Body(Context* context, Jfs* jfs, const urma_jfs_cfg_t& cfg);
    IdLease id;
    JfcHold held;
    const std::unique_ptr<Sender> sender;
    Attachment completions;
    QueueListing listed;
  };

  Context* context_;
  EventSubject subject_;
  Mutex mutex_;  // held while the state changes
  std::optional<Body> body_;
  Sender* live_ = nullptr;  // of body_
};

class Jfr : public urma_jfr_t {
 public:
  Jfr(Context* ctx, const urma_jfr_cfg_t& cfg);

  urma_status_t activate();
  urma_status_t deactivate();
  urma_status_t modify(urma_jfr_attr_t* attr);
  urma_status_t query(urma_jfr_cfg_t* cfg, urma_jfr_attr_t* attr);
  // If it is active already, core asks for more receives: URMA_JFR_DEPTH.
  urma_status_t set_option(uint64_t option, void* value, uint32_t length);
  urma_status_t get_option(uint64_t option, void* value, uint32_t length);

  // NULL if it is not active.
  Receiver* receiver() const { return live_; }
  // As that of a JFS.
  void break_down();
  // A JFR outlives the jetties that share it: each holds a share.
  void share() { users_.fetch_add(1, std::memory_order_relaxed); }
  void unshare() { users_.fetch_sub(1, std::memory_order_relaxed); }
  bool shared() const { return users_.load(std::memory_order_relaxed) != 0; }

 private:
  struct Body {
    Body(Context* context, Jfr* jfr, const urma_jfr_cfg_t& cfg);
    IdLease id;
    JfcHold held;
    const std::unique_ptr<Receiver> receiver;
    // Ends after those below: the JFC stays while peers may complete into it.
    Attachment completions;
    RecordsLease records;
    ReceiverLease known_receiver;
    EndpointLease known;
    QueueListing listed;
  };

  Context* context_;
  EventSubject subject_;
  std::atomic<uint32_t> users_{0};
  uint32_t asked_id_ = 0;
  std::optional<Body> body_;
  Receiver* live_ = nullptr;  // of body_
};

class Jetty : public urma_jetty_t {
 public:
  Jetty(Context* ctx, const urma_jetty_cfg_t& cfg);

  urma_status_t activate();
  urma_status_t deactivate();
  urma_status_t modify(urma_jetty_attr_t* attr);
  urma_status_t query(urma_jetty_cfg_t* cfg, urma_jetty_attr_t* attr);
  urma_status_t get_option(uint64_t option, void* value, uint32_t length);
  int flush(int count, urma_cr_t* cr);

  // Both NULL if it is not active.
  Sender* sender() const { return live_; }
  Receiver* receiver() const { return live_ != nullptr ? body_->described.receiver : nullptr; }

  // RC. URMA_EINVAL if another jetty is bound to the target, URMA_EEXIST if this one has
  // another peer. Nothing is asked of the peer: what it sends before waits, see Receiver::set_bond.
  // `results` receives the result of a bind in the background; *anew is set if the two were not
  // bound to each other before.
  urma_status_t bind(RemoteQueue* target, const std::shared_ptr<Results>& results = nullptr,
                     bool* anew = nullptr);
  // After a bind, once its channel is known: see Sender::connect_ahead.
  void connect_ahead() noexcept;
  // URMA_EINVAL if it has no peer.
  urma_status_t unbind();
  // Unbinds for a result that says that the bind has failed.
  urma_status_t disconnect();
  // As that of a JFS.
  void break_down();

 private:
  // Not the jetty itself: its public struct has to come first.
  struct Watcher : PeerWatcher {
    explicit Watcher(Jetty* owner) : jetty(owner) {}
    void peer_gone(uint64_t target) override { jetty->peer_gone(target); }
    Jetty* const jetty;
  };

  struct Body {
    Body(Context* context, Jetty* jetty, const urma_jetty_cfg_t& cfg);
    Lease<&Jfr::share, &Jfr::unshare> share;
    IdLease id;
    JfcHold held;  // the hold on the JFC of its sends
    const std::unique_ptr<Sender> sender;
    Bond bond;
    // End after those below: the JFCs stay while peers may complete into them.
    Attachment send_completions;
    Attachment receive_completions;
    RecordsLease records;
    const Endpoint described;
    std::optional<EndpointLease> known;  // while READY or SUSPENDED
    // None of its limit events comes once it goes.
    Lease<nullptr, &Receiver::set_limit_of> limit;
    QueueListing listed;
  };

  void set_state(urma_jetty_state_t state) URMA_REQUIRES(mutex_);
  bool check_limit(const urma_jetty_attr_t& attr);
  void forget_peer() noexcept URMA_REQUIRES(mutex_);
  void watch_peer() URMA_REQUIRES(mutex_);
  // The process of the bound peer is gone: to ERROR, with an event. Service thread.
  void peer_gone(uint64_t target);

  Context* context_;
  EventSubject subject_;
  Watcher watcher_{this};
  Mutex mutex_;                                           // held while the state changes
  RemoteQueue* bound_ URMA_GUARDED_BY(mutex_) = nullptr;  // with a reference
  std::vector<std::shared_ptr<Results>> told_ URMA_GUARDED_BY(mutex_);  // results of this bind
  bool ever_bound_ = false;
  std::optional<Body> body_;
  Sender* live_ = nullptr;  // of body_
};

}  // namespace urma

#endif  // JETTY_QUEUES_H_
