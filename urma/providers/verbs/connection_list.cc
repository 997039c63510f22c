// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/connection_list.h"

#include "jetty/listing.h"
#include "urma/base/clock.h"

namespace urma::verbs {
namespace {

urma_ext_queue_kind_t target_kind(uint32_t type) {
  return type == URMA_JFR ? URMA_EXT_QUEUE_JFR : URMA_EXT_QUEUE_JETTY;
}

urma_ext_queue_kind_t source_kind(const QueueName& source) {
  return source.is_jetty ? URMA_EXT_QUEUE_JETTY : URMA_EXT_QUEUE_JFS;
}

// The entry of a sender's connection, once it is known whether it could be made.
void describe_settled(const Connection& connection, urma_ext_connection_t* described) {
  const auto broken = connection.broken.load();
  if (connection.status != URMA_CR_SUCCESS || broken != URMA_CR_SUCCESS) {
    described->state = URMA_EXT_CONNECTION_FAILED;
    described->status =
        broken != URMA_CR_SUCCESS ? broken : static_cast<uint32_t>(connection.status);
  } else if (connection.answer.later()) {
    described->state = URMA_EXT_CONNECTION_WAITING;
  } else {
    described->state = connection.unwanted.load(std::memory_order_relaxed)
                           ? URMA_EXT_CONNECTION_CLOSING
                           : URMA_EXT_CONNECTION_READY;
    described->peer_number = connection.answer.reply.end.qpn;
    described->peer_id = connection.answer.reply.member_id;
  }
  if (connection.pair != nullptr) described->number = connection.pair->number();
}

}  // namespace

urma_ext_connection_t describe_sending(const Connection& connection) {
  const ConnectRequest& request = connection.request;
  urma_ext_connection_t described = {};
  described.eid = request.source.eid;
  described.peer_eid = request.target.eid;
  described.kind = source_kind(request.source);
  described.id = request.source.id;
  described.peer_kind = target_kind(request.target.type);
  described.peer_id = request.target.id;
  described.trans_mode = request.target.trans_mode;
  described.handle = request.connection;
  described.age_ns = monotonic_ns() - connection.begun_ns;
  described.state = URMA_EXT_CONNECTION_CONNECTING;
  // Sequentially consistent, as where it is set: all earlier writes of the service thread are
  // visible.
  if (connection.settled.load()) describe_settled(connection, &described);
  return described;
}

void IncomingList::add(const PeerRef& peer, const ConnectRequest& request,
                       const ConnectReply& reply, IdKind kind, uint32_t id) {
  urma_ext_connection_t described = {};
  described.eid = request.target.eid;
  described.peer_eid = request.source.eid;
  described.kind = kind == IdKind::kJfr ? URMA_EXT_QUEUE_JFR : URMA_EXT_QUEUE_JETTY;
  described.id = id;
  described.peer_kind = source_kind(request.source);
  described.peer_id = request.source.id;
  described.state = URMA_EXT_CONNECTION_READY;
  described.incoming = 1;
  described.trans_mode = request.target.trans_mode;
  described.number = reply.end.qpn;
  described.peer_number = request.end.qpn;
  described.handle = request.connection;
  described.age_ns = monotonic_ns();
  const MutexLock lock(mutex_);
  known_.insert_or_assign({peer.nonce, request.connection}, described);
}

void IncomingList::remove(uint64_t nonce, uint64_t connection) {
  const MutexLock lock(mutex_);
  known_.erase({nonce, connection});
}

void IncomingList::append_to(std::vector<urma_ext_connection_t>* connections, size_t most) const {
  const MutexLock lock(mutex_);
  require_room(*connections, known_.size(), most);
  const uint64_t now = monotonic_ns();
  for (const auto& [key, known] : known_) {
    connections->push_back(known);
    connections->back().age_ns = now - known.age_ns;
  }
}

}  // namespace urma::verbs
