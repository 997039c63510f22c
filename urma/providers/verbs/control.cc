// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/control.h"

#include <sys/epoll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "jetty/network.h"
#include "urma/base/id_blocks.h"
#include "urma/base/log.h"
#include "urma/base/random.h"

namespace urma::verbs {
namespace {

// Datagrams served before other work of this thread gets its turn.
constexpr int kDatagramsPerTurn = 64;
// How long well-known ports may be silent before the next ones are asked too.
constexpr uint64_t kNextPortNs = 5'000'000;

struct Randomness {
  uint64_t of_tickets[2];
  uint64_t of_transactions[2];
};

Randomness make_randomness(uint64_t seed) {
  if (seed == 0) return random_value<Randomness>();
  return {{seed, ~seed}, {seed, seed}};
}

}  // namespace

const char* loss_text(PeerLoss loss) {
  switch (loss) {
    case PeerLoss::kRefused:
      return "its host reports that it has ended";
    case PeerLoss::kSilent:
      return "it does not answer";
    case PeerLoss::kRestarted:
      return "it was restarted";
  }
  return "unknown";
}

Control::Control(Service* service, DatagramNetwork* network, ControlServer* server,
                 const ControlConfig& config)
    : network_(network),
      server_(server),
      config_(config),
      wire_{service,      config.clock, network->open(address_of(config.eid, config.link_layer, 0)),
            config.nonce, {},           0},
      tickets_(make_randomness(config.seed).of_tickets),
      replies_(&tickets_),
      asker_(&wire_),
      watch_(&wire_, config.silence_ns,
             [this](const PeerRef& peer, PeerLoss loss) { server_->on_peer_lost(peer, loss); }),
      eids_(config.eid),
      names_(this, eids_, kWellKnownPorts, "-" + hex_of(config.eid)) {
  const Randomness random = make_randomness(config.seed);
  std::copy(std::begin(random.of_transactions), std::end(random.of_transactions), wire_.key);
  listen(wire_.socket.get());
}

Control::~Control() {
  for (const auto& [port, socket] : ports_) wire_.service->unwatch(socket->fd());
  wire_.service->unwatch(wire_.socket->fd());
  for (const auto& [id, call] : calls_) wire_.service->cancel(call.timer);
}

Control::RequestId Control::request(const urma_eid_t& eid, IdKind kind, uint32_t id,
                                    const Request& request, uint64_t timeout_ns, OnReply on_reply) {
  const NetAddress owner = address_of(eid, config_.link_layer, static_cast<uint16_t>(id >> 16));
  const RequestId number = add(owner, request, timeout_ns, std::move(on_reply));
  calls_.at(number).locate = {eid, kind, id};
  const bool can_be = id != 0 && (id > kMaxChosenId || kind != IdKind::kToken);
  const bool reachable = owner.is_unicast();
  if (!can_be || !reachable) {
    const Answer answer = can_be ? Answer::kUnreachable : Answer::kNoSuchObject;
    calls_.at(number).timer = wire_.service->after(0, [this, number, answer] {
      finish(number, {answer, {}}, {});
    });
  } else if (id > kMaxChosenId) {
    ask_owner(number, 0);
  } else {
    try_ports(number);
  }
  return number;
}

Control::RequestId Control::request(const PeerRef& peer, const Request& request,
                                    uint64_t timeout_ns, OnReply on_reply) {
  const RequestId number = add(peer.address, request, timeout_ns, std::move(on_reply));
  ask_owner(number, peer.nonce);
  return number;
}

void Control::listen(DatagramSocket* socket) {
  wire_.service->watch(socket->fd(), EPOLLIN, [this, socket](uint32_t) { on_ready(socket); });
}

bool Control::listen_also(uint16_t port) {
  NetAddress address = wire_.socket->local();
  address.port = port;
  auto socket = network_->open(address);
  if (socket == nullptr) return false;
  listen(socket.get());
  ports_.emplace(port, std::move(socket));
  return true;
}

void Control::stop_listening(uint16_t port) {
  const auto socket = ports_.extract(port);
  wire_.service->unwatch(socket.mapped()->fd());
}

void Control::end_requests() {
  for (const auto& [id, call] : std::exchange(calls_, {})) {
    wire_.service->cancel(call.timer);
    guarded(URMA_LOG_SITE, [&] { call.on_reply({Answer::kUnreachable, {}}, {}); });
  }
}

void Control::cancel(RequestId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const Call call = std::move(found->second);
  calls_.erase(found);
  wire_.service->cancel(call.timer);
  for (const auto asked : call.asked) asker_.cancel(asked);
}

Control::RequestId Control::add(const NetAddress& owner, const Request& request,
                                uint64_t timeout_ns, OnReply on_reply) {
  calls_.emplace(++last_call_, Call{.request = request,
                                    .deadline_ns = wire_.clock() + timeout_ns,
                                    .on_reply = std::move(on_reply),
                                    .owner = owner});
  return last_call_;
}

void Control::ask_owner(RequestId id, uint64_t incarnation) {
  Call& call = calls_.at(id);
  call.asked.push_back(asker_.ask(
      call.owner, incarnation, call.request, call.deadline_ns,
      [this, id](const Reply& reply, const PeerRef& owner) { finish(id, reply, owner); }));
}

// Asks the next well-known ports, and later those after them.
void Control::try_ports(RequestId id) {
  Call& call = calls_.at(id);
  wire_.service->cancel(call.timer);
  const uint32_t block_id = block_of(call.locate.id) * kBlockIds;
  const uint16_t port = port_of(kWellKnownPorts, call.locate.id, call.next_port);
  const uint16_t block_port = port_of(kWellKnownPorts, block_id, call.next_port);
  ++call.next_port;
  call.last_silent = 0;
  try_port(id, block_port);
  if (port != block_port) try_port(id, port);
  if (call.next_port == kPortsOfId) return;
  call.timer = wire_.service->after(kNextPortNs, [this, id] { try_ports(id); });
}

void Control::try_port(RequestId id, uint16_t port) {
  Call& call = calls_.at(id);
  NetAddress address = call.owner;
  address.port = port;
  ++call.silent;
  ++call.last_silent;
  call.asked.push_back(
      asker_.ask(address, 0, call.locate, call.deadline_ns,
                 [this, id, next = call.next_port](const Reply& reply, const PeerRef&) {
                   tried(id, reply, next);
                 }));
}

// `next_port`: its value when the port was asked.
void Control::tried(RequestId id, const Reply& reply, uint32_t next_port) {
  Call& call = calls_.at(id);
  --call.silent;
  if (next_port == call.next_port) --call.last_silent;
  if (const auto* located = std::get_if<LocateReply>(&reply.body)) {
    wire_.service->cancel(call.timer);
    for (const auto asked : std::exchange(call.asked, {})) asker_.cancel(asked);
    call.owner.port = located->port;
    return ask_owner(id, 0);
  }
  const bool late = wire_.clock() >= call.deadline_ns;
  if (!late && call.next_port < kPortsOfId) {
    // A late answer from an earlier port lets the next ones be asked at once.
    if (next_port != call.next_port || call.last_silent == 0) try_ports(id);
    return;
  }
  // Nobody is left who may answer.
  if (late || call.silent == 0) {
    finish(id, {Answer::kUnreachable, {}}, {});
  }
}

void Control::finish(RequestId id, const Reply& reply, const PeerRef& owner) {
  const auto on_reply = std::move(calls_.at(id).on_reply);
  cancel(id);
  on_reply(reply, owner);
}

void Control::on_ready(DatagramSocket* socket) {
  for (int i = 0; i < kDatagramsPerTurn; ++i) {
    uint8_t buffer[kDatagramBytes + 1];
    size_t length = 0;
    NetAddress other;
    const Arrival arrival = socket->receive(buffer, &length, &other);
    if (arrival == Arrival::kNothing) return;
    const std::span bytes(buffer, std::min(length, sizeof(buffer)));
    if (arrival == Arrival::kRefused) {
      const auto returned = decode_returned(bytes);
      if (!returned.has_value() || returned->sender != config_.nonce) continue;
      asker_.on_refused(other, returned->transaction);
      watch_.on_refused(other, returned->transaction);
      continue;
    }
    ControlMessage message;
    const Decoded decoded = decode(bytes, &message);
    if (decoded == Decoded::kMessage) {
      on_message(socket, other, message);
    } else {
      URMA_LOG_LIMITED(WARNING, "ignored a datagram of {} bytes from {}: {}", length, other.text(),
                       decoded == Decoded::kOtherVersion
                           ? "another version of the control protocol; use one release of liburma "
                             "on all machines"
                           : "not a control message");
    }
  }
}

void Control::on_message(DatagramSocket* socket, const NetAddress& from,
                         const ControlMessage& message) {
  if (!from.is_unicast() || from.port == 0) return;
  const Header& header = message.header;
  if (const auto* request = std::get_if<Request>(&message.body)) {
    return on_request(socket, from, header, *request);
  }
  if (header.receiver != config_.nonce || socket != wire_.socket.get()) return;
  const auto* reply = std::get_if<Reply>(&message.body);
  if (reply == nullptr) return asker_.on_challenge(from, header);
  asker_.on_reply(from, header, *reply);
  watch_.on_pong(from, header);
}

void Control::on_request(DatagramSocket* socket, const NetAddress& from, const Header& header,
                         const Request& request) {
  // These two change nothing and leave no state: anybody may ask.
  std::optional<Reply> known;
  if (std::holds_alternative<PingRequest>(request)) {
    known = Reply{Answer::kAccepted, {}};
  } else if (const auto* locate = std::get_if<LocateRequest>(&request)) {
    const bool here = names_.serves(locate->eid, locate->kind, locate->id);
    known = here ? Reply{Answer::kAccepted, LocateReply{port()}} : Reply{Answer::kNoSuchObject, {}};
  }
  if (known.has_value()) return socket->send(from, encode({answering(header), *known}));
  if (socket != wire_.socket.get()) return;
  if (header.receiver == config_.nonce && tickets_.valid(header.ticket, from, header.sender)) {
    return serve(from, header, request);
  }
  const Ticket ticket = tickets_.issue(from, header.sender);
  socket->send(from, encode({answering(header, ticket), Challenge()}));
}

void Control::serve(const NetAddress& from, const Header& header, const Request& request) {
  const DatagramBytes* known = nullptr;
  uint64_t replaced = 0;
  const auto verdict = replies_.admit(from, header, wire_.clock(), &known, &replaced);
  if (verdict == ReplyCache::Verdict::kRepeat) return wire_.socket->send(from, *known);
  if (verdict == ReplyCache::Verdict::kFull) {
    URMA_LOG_LIMITED(WARNING,
                     "a request from {} waits: too many peers ({}) or unacknowledged replies ({})",
                     from.text(), replies_.peers(), replies_.replies());
  }
  if (replaced != 0) {
    const PeerRef old = {from, replaced};
    watch_.forget(old);
    server_->on_peer_lost(old, PeerLoss::kRestarted);
  }
  if (verdict != ReplyCache::Verdict::kExecute) return;
  const Reply reply = execute({from, header.sender}, request);
  const auto bytes = encode({answering(header), reply});
  replies_.keep(from, header.sender, header.transaction, bytes);
  wire_.socket->send(from, bytes);
}

// Otherwise traffic could be directed to a host that did not ask for it.
bool Control::comes_from_source(const PeerRef& from, const ConnectRequest& request) const {
  const auto source = address_of(request.source.eid, config_.link_layer, 0);
  const bool has_end = request.target.trans_mode != URMA_TM_UM;
  return same_host(source, from.address) && request.source.id <= kMaxChosenId &&
         (!has_end || same_eid(request.end.gid, request.source.eid));
}

Reply Control::execute(const PeerRef& from, const Request& request) {
  try {
    Reply reply = {Answer::kMalformed, {}};
    if (const auto* connect = std::get_if<ConnectRequest>(&request)) {
      if (comes_from_source(from, *connect)) reply = server_->on_connect(from, *connect);
    } else if (const auto* disconnect = std::get_if<DisconnectRequest>(&request)) {
      reply = server_->on_disconnect(from, *disconnect);
    } else if (const auto* segment = std::get_if<SegmentRequest>(&request)) {
      reply = server_->on_segment(from, *segment);
    } else if (const auto* fault = std::get_if<FaultRequest>(&request)) {
      reply = server_->on_fault(from, *fault);
    } else if (const auto* probe = std::get_if<ProbeRequest>(&request)) {
      reply = server_->on_probe(from, *probe);
    }
    if (reply.answer != Answer::kAccepted) reply.body = {};
    return reply;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "a request from {} is refused: {}", from.address.text(),
                     error.what());
    return {Answer::kNoResources, {}};
  }
}

Header Control::answering(const Header& asked, const Ticket& ticket) const {
  return {config_.nonce, asked.sender, ticket, asked.transaction, /*oldest=*/0};
}

}  // namespace urma::verbs
