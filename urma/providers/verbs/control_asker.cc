// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/control_asker.h"

#include <algorithm>
#include <utility>

#include "urma/providers/verbs/control_replies.h"

namespace urma::verbs {
namespace {

// Peers whose tickets are kept while nothing is asked of them.
constexpr size_t kMaxIdlePeers = 4096;

}  // namespace

ControlAsker::~ControlAsker() {
  for (const auto& [id, asked] : asked_) wire_->service->cancel(asked.timer);
}

ControlAsker::AskId ControlAsker::ask(const NetAddress& to, uint64_t incarnation,
                                      const Request& request, uint64_t deadline_ns,
                                      OnReply on_reply) {
  const AskId id = ++last_;
  Peer& peer = peers_[to];
  asked_.emplace(id, Asked{to, incarnation, request, deadline_ns, std::move(on_reply)});
  if (peer.waiting.size() >= kMaxWaiting) {
    asked_.at(id).timer = wire_->service->after(0, [this, id] {
      finish(id, {Answer::kNoResources, {}}, 0);
    });
  } else if (peer.window.size() >= kRequestWindow || !peer.waiting.empty()) {
    peer.waiting.push_back(id);
    const uint64_t now = wire_->clock();
    asked_.at(id).timer = wire_->service->after(deadline_ns > now ? deadline_ns - now : 0,
                                                [this, id] { on_timer(id); });
  } else {
    start(id);
  }
  return id;
}

void ControlAsker::cancel(AskId id) {
  if (asked_.contains(id)) remove(id);
}

void ControlAsker::start(AskId id) {
  Asked& asked = asked_.at(id);
  asked.transaction = wire_->next_transaction(asked.to);
  peers_.at(asked.to).window.emplace(asked.transaction, id);
  transmit(id);
}

void ControlAsker::transmit(AskId id) {
  Asked& asked = asked_.at(id);
  const Peer& peer = peers_.at(asked.to);
  const uint64_t receiver = asked.incarnation != 0 ? asked.incarnation : peer.nonce;
  wire_->ask(asked.to, receiver, peer.ticket, asked.transaction, peer.window.begin()->first,
             asked.request);
  const uint64_t now = wire_->clock();
  const uint64_t left = asked.deadline_ns > now ? asked.deadline_ns - now : 0;
  wire_->service->cancel(asked.timer);
  asked.timer = wire_->service->after(std::min(asked.delay_ns, left), [this, id] { on_timer(id); });
  asked.delay_ns = std::min(asked.delay_ns * 2, kLastDelayNs);
}

void ControlAsker::on_timer(AskId id) {
  const Asked& asked = asked_.at(id);
  if (asked.transaction == 0 || wire_->clock() >= asked.deadline_ns) {
    return finish(id, {Answer::kUnreachable, {}}, 0);
  }
  transmit(id);
}

void ControlAsker::on_challenge(const NetAddress& from, const Header& header) {
  const AskId id = find(from, header.transaction);
  if (id == 0) return;
  const Asked& asked = asked_.at(id);
  if (asked.incarnation != 0 && asked.incarnation != header.sender) {
    return finish(id, {Answer::kUnreachable, {}}, 0);
  }
  Peer& peer = peers_.at(from);
  // A repeated challenge must not resend requests that were sent with its ticket.
  if (peer.nonce == header.sender && peer.ticket.number >= header.ticket.number) return;
  peer.nonce = header.sender;
  peer.ticket = header.ticket;
  transmit(id);
}

void ControlAsker::on_reply(const NetAddress& from, const Header& header, const Reply& reply) {
  const AskId id = find(from, header.transaction);
  if (id == 0) return;
  const Asked& asked = asked_.at(id);
  if (asked.incarnation != 0 && asked.incarnation != header.sender) return;
  const size_t expected = reply.answer == Answer::kAccepted ? body_of(asked.request) : 0;
  if (reply.body.index() == expected) finish(id, reply, header.sender);
}

void ControlAsker::on_refused(const NetAddress& to, uint64_t transaction) {
  const AskId id = find(to, transaction);
  if (id != 0) finish(id, {Answer::kUnreachable, {}}, 0);
}

void ControlAsker::finish(AskId id, const Reply& reply, uint64_t nonce) {
  const Asked asked = remove(id);
  asked.on_reply(reply, {asked.to, nonce});
}

ControlAsker::Asked ControlAsker::remove(AskId id) {
  Asked asked = std::move(asked_.extract(id).mapped());
  wire_->service->cancel(asked.timer);
  Peer& peer = peers_.at(asked.to);
  if (asked.transaction != 0) peer.window.at(asked.transaction) = 0;
  while (!peer.window.empty() && peer.window.begin()->second == 0) {
    peer.window.erase(peer.window.begin());
  }
  while (!peer.waiting.empty() && peer.window.size() < kRequestWindow) {
    const AskId next = peer.waiting.front();
    peer.waiting.pop_front();
    if (asked_.contains(next)) start(next);
  }
  if (peer.window.empty() && peers_.size() > kMaxIdlePeers) peers_.erase(asked.to);
  return asked;
}

ControlAsker::AskId ControlAsker::find(const NetAddress& peer, uint64_t transaction) const {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return 0;
  const auto asked = found->second.window.find(transaction);
  return asked == found->second.window.end() ? 0 : asked->second;
}

}  // namespace urma::verbs
