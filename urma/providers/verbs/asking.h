// SPDX-License-Identifier: MIT
//
// What the queues and imports of a context ask of other contexts, over its control socket.
#ifndef URMA_PROVIDERS_VERBS_ASKING_H_
#define URMA_PROVIDERS_VERBS_ASKING_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "urma/providers/verbs/connector.h"
#include "urma/providers/verbs/control.h"
#include "urma/providers/verbs/server.h"

namespace urma::verbs {

// On the service thread.
class Asking final : public Connector {
 public:
  // How long an owner may take to answer.
  explicit Asking(uint64_t patience_ns) : patience_ns_(patience_ns) {}

  // Both stay until stop().
  void start(Control* control, Server* server);
  // Pending and later questions get kUnreachable.
  void stop();

  void connect(const std::shared_ptr<QueuePair>& pair, const ConnectRequest& request,
               std::function<void(const ConnectAnswer&)> answered) override;
  void disconnect(const ConnectRequest& request, DisconnectReason reason) override;
  void turn_away(uint64_t nonce, const ConnectRequest& request, DisconnectReason reason,
                 uint64_t received) override;
  void ask_end(const ConnectRequest& request, const Request& question, OnReply answered) override;
  void ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& question,
           OnReply answered) override;

  // Without those that lose() has returned.
  std::vector<uint64_t> connections_to(const PeerRef& peer) const;
  // The same, and stops watching the peer. If it comes back unchanged, only its new connections are
  // watched.
  std::vector<uint64_t> lose(const PeerRef& peer);
  // The owner of the other end of the connection with this number, if there is one.
  std::optional<PeerRef> owner_of(uint64_t connection) const;

 private:
  struct Owner {
    PeerRef peer;
    bool watched;
  };

  void tell(const PeerRef& peer, const DisconnectRequest& request);
  void forget(uint64_t connection);

  const uint64_t patience_ns_;
  Control* control_ = nullptr;
  Server* server_ = nullptr;
  std::unordered_map<uint64_t, Owner> owners_;  // of the other ends, by connection
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_ASKING_H_
