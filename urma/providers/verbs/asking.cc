// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/asking.h"

#include <utility>

namespace urma::verbs {

void Asking::start(Control* control, Server* server) {
  control_ = control;
  server_ = server;
}

void Asking::stop() {
  server_ = nullptr;
  owners_.clear();
  std::exchange(control_, nullptr)->end_requests();
}

void Asking::ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& question,
                 OnReply answered) {
  if (control_ == nullptr) return answered({Answer::kUnreachable, {}}, {});
  control_->request(eid, kind, id, question, patience_ns_, std::move(answered));
}

void Asking::ask_end(const ConnectRequest& request, const Request& question, OnReply answered) {
  const auto owner = owners_.find(request.connection);
  if (owner == owners_.end()) return answered({Answer::kUnreachable, {}}, {});
  control_->request(owner->second.peer, question, patience_ns_,
                    [this, connection = request.connection, answered = std::move(answered)](
                        const Reply& reply, const PeerRef& peer) {
                      if (std::holds_alternative<DisconnectReply>(reply.body)) forget(connection);
                      answered(reply, peer);
                    });
}

void Asking::connect(const std::shared_ptr<QueuePair>& /*pair*/, const ConnectRequest& request,
                     std::function<void(const ConnectAnswer&)> answered) {
  const ProbeTarget& target = request.target;
  ask(target.eid, id_kind(target.type), target.id, request,
      [this, connection = request.connection, answered = std::move(answered)](
          const Reply& reply, const PeerRef& owner) {
        ConnectAnswer answer = {reply.answer, {}, owner.nonce};
        if (const auto* body = std::get_if<ConnectReply>(&reply.body)) answer.reply = *body;
        if (answer.answer == Answer::kAccepted && !answer.later()) {
          owners_[connection] = {owner, /*watched=*/true};
          control_->watch(owner);
        }
        answered(answer);
      });
}

void Asking::tell(const PeerRef& peer, const DisconnectRequest& request) {
  control_->request(peer, request, patience_ns_, [](const Reply&, const PeerRef&) {});
}

void Asking::forget(uint64_t connection) {
  const auto owner = owners_.extract(connection);
  if (!owner.empty() && owner.mapped().watched) control_->unwatch(owner.mapped().peer);
}

void Asking::disconnect(const ConnectRequest& request, DisconnectReason reason) {
  const std::optional<PeerRef> owner = owner_of(request.connection);
  if (!owner.has_value()) return;
  forget(request.connection);
  // Datagrams have no end at the peer that knows of them.
  if (request.target.trans_mode == URMA_TM_UM) return;
  tell(*owner, {request.connection, /*by_initiator=*/true, reason, /*received=*/0});
}

void Asking::turn_away(uint64_t nonce, const ConnectRequest& request, DisconnectReason reason,
                       uint64_t received) {
  if (control_ == nullptr) return;
  const auto peer = server_->forget(nonce, request.connection);
  if (peer.has_value()) tell(*peer, {request.connection, /*by_initiator=*/false, reason, received});
}

std::vector<uint64_t> Asking::connections_to(const PeerRef& peer) const {
  std::vector<uint64_t> connections;
  for (const auto& [connection, owner] : owners_) {
    if (owner.peer == peer && owner.watched) connections.push_back(connection);
  }
  return connections;
}

std::vector<uint64_t> Asking::lose(const PeerRef& peer) {
  std::vector<uint64_t> connections = connections_to(peer);
  for (const uint64_t connection : connections) owners_.at(connection).watched = false;
  return connections;
}

std::optional<PeerRef> Asking::owner_of(uint64_t connection) const {
  const auto owner = owners_.find(connection);
  if (owner == owners_.end()) return std::nullopt;
  return owner->second.peer;
}

}  // namespace urma::verbs
