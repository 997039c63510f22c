// SPDX-License-Identifier: MIT
//
// What a context does for its peers: lets them connect, and grants them its segments. Everything
// that a peer says is checked here.
#ifndef URMA_PROVIDERS_VERBS_SERVER_H_
#define URMA_PROVIDERS_VERBS_SERVER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "urma/providers/verbs/control.h"

namespace urma::verbs {

class VerbsTransport;

class Server final : public ControlServer {
 public:
  explicit Server(VerbsTransport* transport) : transport_(transport) {}

  Reply on_connect(const PeerRef& from, const ConnectRequest& request) override;
  Reply on_disconnect(const PeerRef& from, const DisconnectRequest& request) override;
  Reply on_segment(const PeerRef& from, const SegmentRequest& request) override;
  Reply on_fault(const PeerRef& from, const FaultRequest& request) override;
  Reply on_probe(const PeerRef& from, const ProbeRequest& request) override;
  void on_peer_lost(const PeerRef& peer, PeerLoss loss) override;

  // The receiver's end of a connection has gone: whose the other one is. Nothing where there was
  // none.
  std::optional<PeerRef> forget(uint64_t nonce, uint64_t connection);

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
  };
  using Key = std::pair<uint64_t, uint64_t>;  // the peer's nonce, and its number

  Answer attach(const PeerRef& from, const ConnectRequest& request, const Place& place,
                ConnectReply* reply);
  Answer attach_member(const PeerRef& from, const ConnectRequest& request, Place* place,
                       ConnectReply* reply);
  void remember(const PeerRef& from, const ConnectRequest& request, const ConnectReply& reply,
                const Place& place);

  VerbsTransport* const transport_;
  std::map<Key, Route> routes_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_SERVER_H_
