// SPDX-License-Identifier: MIT
//
// Who wants to know when the owner of a remote queue is gone.
#ifndef URMA_PROVIDERS_VERBS_PEER_WATCHES_H_
#define URMA_PROVIDERS_VERBS_PEER_WATCHES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "jetty/transport.h"
#include "urma/providers/verbs/asking.h"
#include "urma/providers/verbs/control.h"

namespace urma::verbs {

// On the service thread.
class PeerWatches {
 public:
  PeerWatches(Service* service, Asking* asking) : service_(service), asking_(asking) {}

  void start(Control* control) { control_ = control; }
  void stop();

  // An owner not found yet is looked up again, at growing intervals.
  void watch(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
             uint64_t target);
  void unwatch(PeerWatcher* watcher);
  void unwatch(PeerWatcher* watcher, uint64_t target);
  void peer_lost(const PeerRef& peer);
  // The same for a peer that Control goes on watching.
  void take_for_lost(const PeerRef& peer);

 private:
  struct Watch {
    IdKind kind;
    urma_eid_t eid;
    uint32_t id;
    uint64_t target;
    uint64_t number;  // identifies a late answer about another watch
    uint64_t delay_ns;
    std::optional<PeerRef> owner;
    std::vector<PeerRef> lost;  // those taken for lost before the owner was found
    Service::TimerId timer = 0;
  };

  void look(PeerWatcher* watcher);
  void found(PeerWatcher* watcher, uint64_t number, const Reply& reply, const PeerRef& owner);

  Service* const service_;
  Asking* const asking_;
  Control* control_ = nullptr;
  uint64_t last_ = 0;
  std::map<PeerWatcher*, Watch> watches_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_PEER_WATCHES_H_
