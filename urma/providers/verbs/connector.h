// SPDX-License-Identifier: MIT
//
// What the queues of a context tell and ask other contexts.
#ifndef URMA_PROVIDERS_VERBS_CONNECTOR_H_
#define URMA_PROVIDERS_VERBS_CONNECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "jetty/remote.h"
#include "urma/providers/verbs/control_wire.h"

namespace urma::verbs {

class QueuePair;

// The owner's answer, or kUnreachable if it gave none for too long.
struct ConnectAnswer {
  Answer answer = Answer::kUnreachable;
  ConnectReply reply = {};
  uint64_t owner = 0;  // the nonce of the context that answered

  // There is no other end yet: the target is an RC jetty that its program has not bound. Ask again.
  bool later() const {
    return answer == Answer::kAccepted && reply.end.qpn == 0 && reply.cm_port == 0;
  }
};

// All on the service thread. Each answer comes exactly once, also on the service thread, after the
// call has returned.
class Connector {
 public:
  virtual ~Connector() = default;

  // Asks the owner of the target to make its end. `pair` is in INIT; on iWARP it is connected when
  // the answer comes, elsewhere the receiver of the answer connects it. NULL in mode UM.
  virtual void connect(const std::shared_ptr<QueuePair>& pair, const ConnectRequest& request,
                       std::function<void(const ConnectAnswer&)> answered) = 0;
  // The sender gives up a connection that `answered` has reported: its other end may go.
  virtual void disconnect(const ConnectRequest& request, DisconnectReason reason) = 0;
  // The receiver gives one up after this many messages; its sender is the process with this nonce.
  virtual void turn_away(uint64_t nonce, const ConnectRequest& request, DisconnectReason reason,
                         uint64_t received) = 0;
  // Asks the owner of the other end of a connection that `answered` has reported. It answers once
  // it has finished what its service thread had begun before. A DisconnectReply gives the
  // connection up, like disconnect().
  virtual void ask_end(const ConnectRequest& request, const Request& question,
                       OnReply answered) = 0;
  // Asks the owner of (eid, id).
  virtual void ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& question,
                   OnReply answered) = 0;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONNECTOR_H_
