// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/asking.h"

#include <utility>

namespace urma::verbs {

void Asking::start(Control* control, Server* server) {
  control_ = control;
  server_ = server;
}

void Asking::stop() {
  control_ = nullptr;
  server_ = nullptr;
  for (const auto& [number, answered] : std::exchange(waiting_, {})) {
    answered({Answer::kUnreachable, {}}, {});
  }
  owners_.clear();
}

void Asking::ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& request,
                 Control::OnReply answered) {
  if (control_ == nullptr) return answered({Answer::kUnreachable, {}}, {});
  control_->request(eid, kind, id, request, patience_ns_, wait_for_answer(std::move(answered)));
}

// `answered` is called once: by the returned function or by stop().
Control::OnReply Asking::wait_for_answer(Control::OnReply answered) {
  const uint64_t number = ++last_ask_;
  waiting_.emplace(number, std::move(answered));
  return [this, number](const Reply& reply, const PeerRef& owner) {
    const auto found = waiting_.extract(number);
    if (!found.empty()) found.mapped()(reply, owner);
  };
}

void Asking::connect(const std::shared_ptr<QueuePair>& /*pair*/, const ConnectRequest& request,
                     std::function<void(const ConnectAnswer&)> answered) {
  const ProbeTarget& target = request.target;
  ask(target.eid, id_kind(target.type), target.id, request,
      [this, connection = request.connection, answered = std::move(answered)](
          const Reply& reply, const PeerRef& owner) {
        ConnectAnswer answer = {reply.answer, {}, owner.nonce};
        if (const auto* body = std::get_if<ConnectReply>(&reply.body)) answer.reply = *body;
        const bool connected = answer.answer == Answer::kAccepted && !answer.later();
        if (connected && control_ != nullptr) {
          owners_[connection] = {owner, /*watched=*/true};
          control_->watch(owner);
        }
        answered(answer);
      });
}

void Asking::tell(const PeerRef& peer, const DisconnectRequest& request) {
  control_->request(peer, request, patience_ns_, [](const Reply&, const PeerRef&) {});
}

void Asking::unwatch(const Owner& owner) {
  if (owner.watched && control_ != nullptr) control_->unwatch(owner.peer);
}

void Asking::disconnect(const ConnectRequest& request, DisconnectReason reason) {
  const auto owner = owners_.extract(request.connection);
  if (owner.empty() || control_ == nullptr) return;
  unwatch(owner.mapped());
  // Datagrams have no end at the peer that knows of them.
  if (request.target.trans_mode == URMA_TM_UM) return;
  tell(owner.mapped().peer, {request.connection, /*by_initiator=*/true, reason, /*received=*/0});
}

void Asking::settle(const ConnectRequest& request,
                    std::function<void(const CountAnswer&)> answered) {
  const uint64_t connection = request.connection;
  const auto owner = owners_.find(connection);
  if (owner == owners_.end() || control_ == nullptr) return answered({});
  control_->request(owner->second.peer,
                    DisconnectRequest{connection, /*by_initiator=*/true, DisconnectReason::kFlushed,
                                      /*received=*/0},
                    patience_ns_,
                    wait_for_answer([this, connection, answered = std::move(answered)](
                                        const Reply& reply, const PeerRef&) {
                      CountAnswer answer = {reply.answer};
                      if (const auto* body = std::get_if<DisconnectReply>(&reply.body)) {
                        answer.received = body->received;
                        const auto settled = owners_.extract(connection);
                        if (!settled.empty()) unwatch(settled.mapped());
                      }
                      answered(answer);
                    }));
}

void Asking::turn_away(uint64_t nonce, const ConnectRequest& request, DisconnectReason reason,
                       uint64_t received) {
  if (control_ == nullptr) return;
  const auto peer = server_->forget(nonce, request.connection);
  if (peer.has_value()) tell(*peer, {request.connection, /*by_initiator=*/false, reason, received});
}

void Asking::ask_for_fault(const ConnectRequest& request,
                           std::function<void(bool too_long)> answered) {
  const auto owner = owners_.find(request.connection);
  if (owner == owners_.end() || control_ == nullptr) return answered(false);
  control_->request(
      owner->second.peer, FaultRequest{request.connection}, patience_ns_,
      wait_for_answer([answered = std::move(answered)](const Reply& reply, const PeerRef&) {
        const auto* body = std::get_if<FaultReply>(&reply.body);
        answered(body != nullptr && body->too_long);
      }));
}

void Asking::ask_for_sign(const ConnectRequest& request, std::function<void(bool there)> answered) {
  const auto owner = owners_.find(request.connection);
  if (owner == owners_.end() || control_ == nullptr) return answered(false);
  control_->request(
      owner->second.peer, PingRequest(), patience_ns_,
      wait_for_answer([answered = std::move(answered)](const Reply& reply, const PeerRef&) {
        answered(reply.answer == Answer::kAccepted);
      }));
}

void Asking::ask_for_segment(const SegmentRequest& request,
                             std::function<void(const SegmentAnswer&)> answered) {
  ask(request.eid, IdKind::kToken, request.token_id, request,
      [answered = std::move(answered)](const Reply& reply, const PeerRef&) {
        SegmentAnswer answer = {reply.answer, {}};
        if (const auto* body = std::get_if<SegmentReply>(&reply.body)) answer.reply = *body;
        answered(answer);
      });
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
