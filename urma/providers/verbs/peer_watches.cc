// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/peer_watches.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace urma::verbs {
namespace {

constexpr uint64_t kFirstDelayNs = 10'000'000;
constexpr uint64_t kLastDelayNs = 1'000'000'000;

}  // namespace

void PeerWatches::stop() {
  control_ = nullptr;
  for (const auto& [watcher, watch] : watches_) service_->cancel(watch.timer);
  watches_.clear();
}

void PeerWatches::watch(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
                        uint64_t target) {
  if (control_ == nullptr) return;
  unwatch(watcher);
  watches_[watcher] = {kind, eid, id, target, ++last_, kFirstDelayNs, std::nullopt, {}};
  look(watcher);
}

void PeerWatches::look(PeerWatcher* watcher) {
  Watch& watch = watches_.at(watcher);
  watch.timer = 0;
  asking_->ask(watch.eid, watch.kind, watch.id, PingRequest(),
               [this, watcher, number = watch.number](const Reply& reply, const PeerRef& owner) {
                 found(watcher, number, reply, owner);
               });
}

void PeerWatches::found(PeerWatcher* watcher, uint64_t number, const Reply& reply,
                        const PeerRef& owner) {
  const auto known = watches_.find(watcher);
  if (control_ == nullptr || known == watches_.end() || known->second.number != number) return;
  Watch& watch = known->second;
  if (reply.answer == Answer::kAccepted) {
    if (std::find(watch.lost.begin(), watch.lost.end(), owner) != watch.lost.end()) {
      const uint64_t target = watch.target;
      watches_.erase(known);
      return watcher->peer_gone(target);
    }
    watch.owner = owner;
    control_->watch(owner);
    return;
  }
  watch.timer = service_->after(watch.delay_ns, [this, watcher] { look(watcher); });
  watch.delay_ns = std::min(2 * watch.delay_ns, kLastDelayNs);
}

void PeerWatches::unwatch(PeerWatcher* watcher) {
  const auto known = watches_.extract(watcher);
  if (known.empty()) return;
  if (known.mapped().timer != 0) service_->cancel(known.mapped().timer);
  if (known.mapped().owner.has_value() && control_ != nullptr) {
    control_->unwatch(*known.mapped().owner);
  }
}

void PeerWatches::unwatch(PeerWatcher* watcher, uint64_t target) {
  const auto known = watches_.find(watcher);
  if (known != watches_.end() && known->second.target == target) unwatch(watcher);
}

void PeerWatches::take_for_lost(const PeerRef& peer) {
  if (control_ == nullptr) return;
  for (auto& [watcher, watch] : watches_) {
    if (watch.owner == peer) control_->unwatch(peer);
    if (!watch.owner.has_value()) watch.lost.push_back(peer);
  }
  peer_lost(peer);
}

void PeerWatches::peer_lost(const PeerRef& peer) {
  std::vector<std::pair<PeerWatcher*, uint64_t>> gone;
  for (const auto& [watcher, watch] : watches_) {
    if (watch.owner == peer) gone.emplace_back(watcher, watch.target);
  }
  for (const auto& [watcher, target] : gone) {
    watches_.erase(watcher);
    watcher->peer_gone(target);
  }
}

}  // namespace urma::verbs
