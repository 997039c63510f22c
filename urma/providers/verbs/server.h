// SPDX-License-Identifier: MIT
//
// What a context does for its peers: lets them connect, and grants them its segments. Checks
// everything that a peer says.
#ifndef URMA_PROVIDERS_VERBS_SERVER_H_
#define URMA_PROVIDERS_VERBS_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "urma/providers/verbs/control.h"

namespace urma::verbs {

class CqPump;
class QueuePair;
class Transport;

class Server final : public ControlServer {
 public:
  explicit Server(Transport* transport) : transport_(transport) {}

  Reply on_connect(const PeerRef& from, const ConnectRequest& request) override;
  Reply on_disconnect(const PeerRef& from, const DisconnectRequest& request) override;
  Reply on_segment(const PeerRef& from, const SegmentRequest& request) override;
  Reply on_fault(const PeerRef& from, const FaultRequest& request) override;
  Reply on_probe(const PeerRef& from, const ProbeRequest& request) override;
  void on_peer_lost(const PeerRef& peer, PeerLoss loss) override;

  // The receiver's end of a connection is gone. Returns the owner of the other end; nothing if
  // there was none.
  std::optional<PeerRef> forget(uint64_t nonce, uint64_t connection);
  // Also those of connections without a receiver.
  void close_ends() { routes_.clear(); }

 private:
  // Where a connection ends here.
  struct Place {
    IdKind kind;
    urma_eid_t eid;
    uint32_t id;
  };
  struct Route {
    PeerRef peer;
    Place place;
    std::shared_ptr<QueuePair> one_sided;  // the end of a connection without a receiver
  };
  using Key = std::pair<uint64_t, uint64_t>;  // the peer's nonce, and its number

  // For one more connection from a host.
  bool has_room(const NetAddress& host) const;
  // At the target, or at the end `before` of the same connection; NULL: there is none. *place is
  // its end now.
  Answer attach(const PeerRef& from, const ConnectRequest& request, const Place* before,
                Place* place, ConnectReply* reply);
  // An end for requests that need no queue here, unless *pair is one. Throws Error.
  Answer attach_one_sided(const ConnectRequest& request, ConnectReply* reply,
                          std::shared_ptr<QueuePair>* pair);
  // Its receiver gets no more messages.
  void end(const Key& key, const Place& place);
  uint32_t members_of(const ProbeTarget& target);
  void remember(const PeerRef& from, const ConnectRequest& request, const ConnectReply& reply,
                Route route);

  Transport* const transport_;
  std::shared_ptr<CqPump> no_completions_;  // of the one-sided ends
  std::map<Key, Route> routes_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_SERVER_H_
