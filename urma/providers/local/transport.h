// SPDX-License-Identifier: MIT
//
// Everything that one provider of this family shares between its contexts: what it owns and serves,
// whom it talks to, and the background work on the service thread.
#ifndef URMA_PROVIDERS_LOCAL_TRANSPORT_H_
#define URMA_PROVIDERS_LOCAL_TRANSPORT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jetty/completion_queue.h"
#include "segment/segment.h"
#include "urma/base/host.h"
#include "urma/providers/local/groups.h"
#include "urma/providers/local/link.h"
#include "urma/providers/local/listing.h"
#include "urma/providers/local/peer.h"
#include "urma/providers/local/receiver.h"
#include "urma/providers/local/remote.h"

namespace urma::local {

class Sender;
class Server;

// Wants to know when the process that owns a remote queue is gone.
class PeerWatcher {
 public:
  virtual ~PeerWatcher() = default;
  // Service thread; `target` as it was given to watch_peer().
  virtual void peer_gone(uint64_t target) = 0;
};

class Transport : public ProgressDomain {
 public:
  // `name` tells providers apart in the runtime directory. Throws Error where the runtime directory
  // or the control socket cannot be had.
  Transport(const char* name, const urma_host& host, CopyEngine* copy);
  ~Transport() override;
  // Ends all links and the server. Nothing may use a queue of this transport any more.
  void stop();

  Service& service() { return *service_; }
  Runtime& runtime() { return *runtime_; }
  SegmentTable& segments() { return segments_; }
  CopyEngine& copy() { return *copy_; }
  // NULL where nothing can be mapped.
  SharedPages* pages() { return pages_; }
  uint32_t ring_bytes() const { return ring_bytes_; }
  GroupTable& groups() { return groups_; }
  // What tools are shown.
  QueueList& queues() { return queues_; }
  ImportList& imports() { return imports_; }
  // Becomes true on the service thread when this transport stops; for what may run later.
  std::shared_ptr<const bool> ended() const { return ended_; }
  QueueSerials& queue_serials() { return queue_serials_; }
  uint64_t next_serial() { return serial_.fetch_add(1, std::memory_order_relaxed); }

  // The index of a context's EID in the device's table.
  const urma_eid_t& eid(uint32_t index) const { return runtime_->eids()[index]; }

  // The link to the owner of (EID, id); NULL where no living process has it. Service thread.
  std::shared_ptr<Link> link_to(IdKind kind, const urma_eid_t& eid, uint32_t id);

  // What peers may send to. The receiver of an endpoint must be added before.
  void add_receiver(Receiver* receiver);
  void remove_receiver(Receiver* receiver);
  void add_endpoint(IdKind kind, const Endpoint& endpoint);
  // Also closes the rings that lead to it.
  void remove_endpoint(IdKind kind, const Endpoint& endpoint);
  // Calls with_endpoint(endpoint) where it exists; its receiver stays meanwhile. Service thread.
  bool with_endpoint(IdKind kind, const urma_eid_t& eid, uint32_t id,
                     const std::function<void(const Endpoint&)>& with_endpoint);

  // Moves the receives of this process: by a poll that found nothing, or on a peer's request.
  void progress_receives() override;
  void serve_receives();
  // Goes on with the requests of armed JFCs: something they may have waited for has come. Service
  // thread.
  void serve_senders();
  void take_over() override;
  void delay_event(CompletionQueue* jfc, uint64_t arming, uint32_t us) override;
  void forget_delayed(CompletionQueue* jfc) override;
  // The channel is about to end.
  void forget_channel(EventChannel* channel);
  // Removes a segment. Returns when nothing is done with its memory any more.
  void unregister(const Segment* segment);

  // Looks after the owner of (EID, id) for `watcher`, until it is gone or unwatch_peer(). From any
  // thread; `target` is only passed on.
  void watch_peer(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
                  uint64_t target);
  // Returns when no call of the watcher is under way. With no lock held that peer_gone() takes.
  void unwatch_peer(PeerWatcher* watcher);
  // The same, only of what was given with `target`.
  void unwatch_peer(PeerWatcher* watcher, uint64_t target);

  void add_sender(Sender* sender);
  void remove_sender(Sender* sender);
  // A request could not be executed at once. Polls of its JFC go on with it; where nobody polls,
  // the service thread does. From any thread, with the sender's lock held.
  void watch_pending() override;

 private:
  using EndpointKey = std::pair<IdKind, uint32_t>;

  // Makes pages private again that peers may no longer map, a turn at a time.
  void take_back_some(SharedPages::RangeId pages);
  // Returns when no copy from or to memory that is no longer registered is under way.
  void quiesce();
  void serve_round();
  void serve_senders_round();
  void report_gone_peers();
  void look_for_peers_later();
  void tick();

  const std::string name_;
  Service* service_;
  Runtime* runtime_;
  CopyEngine* copy_;
  SharedPages* pages_;
  const uint32_t ring_bytes_;
  std::atomic<uint64_t> serial_{1};
  QueueSerials queue_serials_;
  SegmentTable segments_;

  std::mutex endpoints_mutex_;
  std::multimap<EndpointKey, Endpoint> endpoints_;
  std::vector<Receiver*> receivers_;

  std::mutex senders_mutex_;
  std::vector<Sender*> senders_;
  std::atomic<bool> ticking_{false};

  // On the service thread only.
  std::unique_ptr<Server> server_;
  std::map<uint32_t, std::shared_ptr<Link>> links_;
  bool stopped_ = false;
  bool serving_ = false;          // a round of serve_receives() is due
  bool serving_senders_ = false;  // the same of serve_senders()
  std::multimap<CompletionQueue*, Service::TimerId> delayed_;
  struct Watched {
    IdKind kind;
    urma_eid_t eid;
    uint32_t id;
    uint64_t target;
    std::shared_ptr<Link> link;
  };
  std::map<PeerWatcher*, Watched> watched_;
  Service::TimerId watch_timer_ = 0;
  uint64_t watch_delay_ns_ = 0;
  Service::TimerId tick_timer_ = 0;
  GroupTable groups_;
  QueueList queues_;
  ImportList imports_;
  const std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_TRANSPORT_H_
