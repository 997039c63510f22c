// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/server.h"

#include <algorithm>
#include <utility>

#include "urma/base/log.h"
#include "urma/providers/verbs/receiver.h"
#include "urma/providers/verbs/transport.h"

namespace urma::verbs {
namespace {

// More than any program needs; bounds what peers can make this process hold. One host may have a
// quarter of it, for all its ports together.
constexpr size_t kMaxRoutes = 65536;

Reply with_answer(Answer answer) { return {answer, {}}; }

void log_wrong_token(const PeerRef& from, const char* kind, uint32_t id) {
  URMA_LOG_LIMITED(WARNING, "{} presented a wrong token for {} {:#x}", from.address.text(), kind,
                   id);
}

Answer judged(const PeerRef& from, const ProbeTarget& target, Answer answer) {
  if (answer == Answer::kWrongToken) log_wrong_token(from, target_name(target.type), target.id);
  return answer;
}

Receiver& receiver_of(const Endpoint& endpoint) {
  return *static_cast<Receiver*>(endpoint.receiver);
}

}  // namespace

Reply Server::on_connect(const PeerRef& from, const ConnectRequest& request) {
  const ProbeTarget& target = request.target;
  if (target.type > URMA_JETTY_GROUP) return with_answer(Answer::kMalformed);
  const LinkLayer own = transport_->device().info().link_layer;
  // Datagrams need no end at the sender.
  if (target.trans_mode != URMA_TM_UM && request.end.link_layer != own) {
    URMA_LOG_LIMITED(WARNING,
                     "{} is refused: its device is {}, and {} is {}; both sides need the same kind "
                     "of device",
                     from.address.text(), link_text(request.end.link_layer),
                     transport_->device().info().name, link_text(own));
    return with_answer(Answer::kOtherDevice);
  }
  const auto known = routes_.find({from.nonce, request.connection});
  ConnectReply reply = {};
  Route route = {from, {id_kind(target.type), target.eid, target.id}, nullptr};
  Answer answer = Answer::kNoResources;
  // Another peer may have that number, and this one use a foreign nonce. Or it asks for the other
  // kind of end, and would get a second one that is not recorded.
  const bool other_way =
      known != routes_.end() && request.one_sided != (known->second.one_sided != nullptr);
  if (known != routes_.end() && (known->second.peer != from || other_way)) {
    answer = Answer::kMalformed;
  } else if (known == routes_.end() && !has_room(from.address)) {
    URMA_LOG_LIMITED(WARNING, "{} is refused: {} connections end here already", from.address.text(),
                     routes_.size());
  } else if (request.one_sided) {
    if (known != routes_.end()) route.one_sided = known->second.one_sided;
    answer = attach_one_sided(request, &reply, &route.one_sided);
  } else {
    // A repeated request gets the same end.
    const Place* before = known != routes_.end() ? &known->second.place : nullptr;
    answer = attach(from, request, before, &route.place, &reply);
  }
  if (answer != Answer::kAccepted) return with_answer(judged(from, target, answer));
  reply.member_id = route.place.id;
  if (reply.end.qpn != 0 && target.trans_mode != URMA_TM_UM) {
    remember(from, request, reply, std::move(route));
  }
  return {answer, reply};
}

bool Server::has_room(const NetAddress& host) const {
  if (routes_.size() >= kMaxRoutes) return false;
  if (routes_.size() < kMaxRoutes / 4) return true;
  const auto own = std::count_if(routes_.begin(), routes_.end(), [&](const auto& route) {
    return same_host(host, route.second.peer.address);
  });
  return static_cast<size_t>(own) < kMaxRoutes / 4;
}

Answer Server::attach_one_sided(const ConnectRequest& request, ConnectReply* reply,
                                std::shared_ptr<QueuePair>* pair) {
  const Answer answer = transport_->judge(request.target);
  if (answer != Answer::kAccepted) return answer;
  reply->members = members_of(request.target);
  const ContextResources& resources = transport_->resources();
  // On iWARP, librdmacm would have to connect it.
  if (resources.device->info().iwarp()) return Answer::kNoSuchObject;
  if (*pair == nullptr) *pair = make_one_sided_end(resources, &no_completions_, request.end);
  reply->end = (*pair)->address();
  return answer;
}

Answer Server::attach(const PeerRef& from, const ConnectRequest& request, const Place* before,
                      Place* place, ConnectReply* reply) {
  const ProbeTarget& target = request.target;
  WayRequest asked = {target,
                      {request.source.eid, request.source.uasid, request.source.id},
                      /*rnr_retry=*/0,
                      request.hint};
  if (before != nullptr) {
    asked.type = before->kind == IdKind::kJfr ? URMA_JFR : URMA_JETTY;
    asked.id = before->id;
  }
  Answer given = Answer::kAccepted;
  uint32_t members = 0;
  const Answer answer = transport_->admit(asked, &members, [&](const Endpoint& endpoint) {
    std::shared_ptr<QueuePair> pair;
    const ConnectAnswer end = receiver_of(endpoint).accept(from.nonce, request, endpoint, &pair);
    if (end.answer == Answer::kNoSuchObject) return false;
    given = end.answer;
    *reply = end.reply;
    *place = {endpoint.identity.jetty ? IdKind::kJetty : IdKind::kJfr, endpoint.eid,
              endpoint.identity.id};
    CmAcceptor* acceptor = transport_->acceptor();
    if (acceptor != nullptr && pair != nullptr && given == Answer::kAccepted) {
      acceptor->expect(from, request, reply->end, pair);
      reply->cm_port = acceptor->port();
    }
    return true;
  });
  reply->members = members_of(target);
  return answer == Answer::kAccepted ? given : answer;
}

void Server::remember(const PeerRef& from, const ConnectRequest& request, const ConnectReply& reply,
                      Route route) {
  const Place place = route.place;
  if (!routes_.emplace(Key{from.nonce, request.connection}, std::move(route)).second) return;
  transport_->incoming().add(from, request, reply, place.kind, place.id);
  transport_->control().watch(from);
}

std::optional<PeerRef> Server::forget(uint64_t nonce, uint64_t connection) {
  const auto route = routes_.extract(Key{nonce, connection});
  if (route.empty()) return std::nullopt;
  transport_->incoming().remove(nonce, connection);
  const PeerRef peer = route.mapped().peer;
  transport_->control().unwatch(peer);
  if (transport_->acceptor() != nullptr) transport_->acceptor()->forget(nonce, connection);
  return peer;
}

void Server::end(const Key& key, const Place& place) {
  forget(key.first, key.second);
  transport_->with_endpoint(place.kind, place.eid, place.id, [&key](const Endpoint& endpoint) {
    receiver_of(endpoint).disconnected(key.first, key.second);
  });
}

Reply Server::on_disconnect(const PeerRef& from, const DisconnectRequest& request) {
  if (!request.by_initiator) {
    // Only the owner of the other end may say that it is gone.
    if (transport_->asking().owner_of(request.connection) == from) {
      transport_->connections().turned_away(request.connection, request.reason, request.received);
      transport_->serve_senders();
    }
    return {Answer::kAccepted, DisconnectReply{}};
  }
  const Key key = {from.nonce, request.connection};
  const auto route = routes_.find(key);
  if (route == routes_.end() || route->second.peer != from) {
    return with_answer(Answer::kNoSuchObject);
  }
  const Place place = route->second.place;
  if (route->second.one_sided != nullptr) {
    forget(key.first, key.second);
    return {Answer::kAccepted, DisconnectReply{}};
  }
  if (request.reason == DisconnectReason::kFlushed) {
    // If its receiver has ended it, the receiver is about to say so itself.
    std::optional<uint64_t> received;
    transport_->with_endpoint(place.kind, place.eid, place.id, [&](const Endpoint& endpoint) {
      received = receiver_of(endpoint).settle(key.first, key.second);
    });
    if (!received.has_value()) return with_answer(Answer::kNoResources);
    forget(key.first, key.second);
    return {Answer::kAccepted, DisconnectReply{*received}};
  }
  const auto end = [this, place, key] { this->end(key, place); };
  if (transport_->acceptor() == nullptr) {
    end();
  } else {
    transport_->acceptor()->finish(key.first, key.second, end);
  }
  return {Answer::kAccepted, DisconnectReply{}};
}

Reply Server::on_segment(const PeerRef& from, const SegmentRequest& request) {
  GrantError error;
  const auto grant = transport_->segments().grant(request.eid, request.token_id, request.va,
                                                  request.len, {request.token}, &error);
  if (!grant.has_value()) {
    const bool token = error == GrantError::kWrongToken;
    if (token) log_wrong_token(from, "token id", request.token_id);
    return with_answer(token ? Answer::kWrongToken : Answer::kNoSuchObject);
  }
  const auto rkey = transport_->registrations().rkey(grant->ref);
  if (!rkey.has_value()) return with_answer(Answer::kNoAccess);
  return {Answer::kAccepted,
          SegmentReply{grant->base, grant->len, grant->ref, *rkey, grant->access}};
}

Reply Server::on_fault(const PeerRef& from, const FaultRequest& request) {
  const auto route = routes_.find({from.nonce, request.connection});
  if (route == routes_.end() || route->second.peer != from) {
    return with_answer(Answer::kNoSuchObject);
  }
  const Place place = route->second.place;
  FaultReply reply = {};
  transport_->with_endpoint(place.kind, place.eid, place.id, [&](const Endpoint& endpoint) {
    reply.too_long = receiver_of(endpoint).found_too_long(from.nonce, request.connection);
  });
  return {Answer::kAccepted, reply};
}

Reply Server::on_probe(const PeerRef& from, const ProbeRequest& request) {
  return with_answer(judged(from, request.target, transport_->judge(request.target)));
}

// 0 if it is not a group.
uint32_t Server::members_of(const ProbeTarget& target) {
  if (target.type != URMA_JETTY_GROUP) return 0;
  return transport_->groups().members(target.eid, target.id);
}

void Server::on_peer_lost(const PeerRef& peer, PeerLoss loss) {
  size_t ended = 0;
  for (auto route = routes_.lower_bound({peer.nonce, 0});
       route != routes_.end() && route->first.first == peer.nonce;) {
    const auto [key, gone] = *route++;
    if (gone.peer != peer) continue;
    if (gone.one_sided != nullptr) {
      forget(key.first, key.second);
    } else {
      end(key, gone.place);
    }
    ++ended;
  }
  if (ended != 0) {
    URMA_LOG_LIMITED(INFO, "{} {}: its {} connections end", peer.address.text(), loss_text(loss),
                     ended);
  }
  // If a peer is only silent, RDMA devices go on: they report requests without an answer. iWARP
  // leaves that to TCP, which waits for many minutes, or indefinitely if it has nothing in flight.
  if (loss == PeerLoss::kSilent && !transport_->device().info().iwarp()) {
    for (size_t i = transport_->asking().connections_to(peer).size(); i != 0; --i) {
      transport_->control().watch(peer);
    }
  } else {
    const auto lost = transport_->asking().lose(peer);
    for (const uint64_t connection : lost) transport_->connections().lost(connection);
    if (!lost.empty()) {
      URMA_LOG_LIMITED(WARNING,
                       "{} {}: requests over {} connections to it end with ACK_TIMEOUT; check with "
                       "urma_ping whether it answers, and restart it if not",
                       peer.address.text(), loss_text(loss), lost.size());
    }
    transport_->serve_senders();
  }
  transport_->watches()->peer_lost(peer);
}

}  // namespace urma::verbs
