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
  void settle(const ConnectRequest& request,
              std::function<void(const CountAnswer&)> answered) override;
  void turn_away(uint64_t nonce, const ConnectRequest& request, DisconnectReason reason,
                 uint64_t received) override;
  void ask_for_fault(const ConnectRequest& request,
                     std::function<void(bool too_long)> answered) override;
  void ask_for_sign(const ConnectRequest& request,
                    std::function<void(bool there)> answered) override;
  void ask_for_segment(const SegmentRequest& request,
                       std::function<void(const SegmentAnswer&)> answered) override;
  // Asks the owner of (eid, id) something. `answered` is called exactly once, later or by stop().
  void ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& request,
           Control::OnReply answered);

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

  Control::OnReply wait_for_answer(Control::OnReply answered);
  void tell(const PeerRef& peer, const DisconnectRequest& request);
  void unwatch(const Owner& owner);

  const uint64_t patience_ns_;
  Control* control_ = nullptr;
  Server* server_ = nullptr;
  uint64_t last_ask_ = 0;
  std::unordered_map<uint64_t, Control::OnReply> waiting_;
  std::unordered_map<uint64_t, Owner> owners_;  // of the other ends, by connection
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_ASKING_H_
