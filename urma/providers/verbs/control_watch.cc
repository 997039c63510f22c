// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/control_watch.h"

namespace urma::verbs {

ControlWatch::~ControlWatch() {
  for (const auto& [peer, watched] : peers_) wire_->service->cancel(watched.timer);
}

void ControlWatch::watch(const PeerRef& peer) {
  const auto [known, is_new] = peers_.try_emplace(peer);
  Watched& watched = known->second;
  if (is_new) {
    watched.heard_ns = wire_->clock();
    try {
      // Not at once: the peer has just been heard from.
      watched.timer =
          wire_->service->after(silence_ns_ / kPingsPerSilence, [this, peer] { ping(peer); });
    } catch (...) {
      // The next watch() has to set one.
      peers_.erase(known);
      throw;
    }
  }
  ++watched.uses;
}

void ControlWatch::unwatch(const PeerRef& peer) {
  const auto found = peers_.find(peer);
  if (found != peers_.end() && --found->second.uses == 0) forget(peer);
}

void ControlWatch::forget(const PeerRef& peer) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  wire_->service->cancel(found->second.timer);
  peers_.erase(found);
}

void ControlWatch::ping(const PeerRef& peer) {
  const auto found = peers_.find(peer);
  Watched& watched = found->second;
  // Only while a ping waits: a service thread that was delayed has not listened either.
  if (!watched.pings.empty() && wire_->clock() - watched.heard_ns >= silence_ns_ &&
      watched.pings.size() >= kPingsPerSilence - 1) {
    return lose(found, PeerLoss::kSilent);
  }
  const uint64_t transaction = wire_->next_transaction(peer.address);
  watched.pings.insert(transaction);
  watched.timer =
      wire_->service->after(silence_ns_ / kPingsPerSilence, [this, peer] { ping(peer); });
  wire_->ask(peer.address, peer.nonce, Ticket(), transaction, transaction, PingRequest());
}

void ControlWatch::on_pong(const NetAddress& from, const Header& header) {
  const auto found = find(from, header.transaction);
  if (found == peers_.end()) return;
  if (found->first.nonce != header.sender) return lose(found, PeerLoss::kRestarted);
  Watched& watched = found->second;
  watched.heard_ns = wire_->clock();
  watched.pings.clear();
}

void ControlWatch::on_refused(const NetAddress& to, uint64_t transaction) {
  const auto found = find(to, transaction);
  if (found != peers_.end()) lose(found, PeerLoss::kRefused);
}

void ControlWatch::lose(Peers::iterator peer, PeerLoss loss) {
  const PeerRef lost = peer->first;
  forget(lost);
  on_lost_(lost, loss);
}

ControlWatch::Peers::iterator ControlWatch::find(const NetAddress& address, uint64_t transaction) {
  for (auto peer = peers_.lower_bound({address, 0});
       peer != peers_.end() && peer->first.address == address; ++peer) {
    if (peer->second.pings.contains(transaction)) return peer;
  }
  return peers_.end();
}

}  // namespace urma::verbs
