// SPDX-License-Identifier: MIT
#include "jetty/peer_watches.h"

#include <algorithm>
#include <utility>

#include "jetty/network.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

constexpr uint64_t kFirstDelayNs = 10'000'000;
constexpr uint64_t kLastDelayNs = 1'000'000'000;

}  // namespace

void PeerWatches::stop() {
  stopped_ = true;
  for (auto& [watcher, watch] : watches_) cancel_timer(&watch);
  watches_.clear();
}

void PeerWatches::watch(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
                        uint64_t target) {
  if (stopped_) return;
  unwatch(watcher);
  const Name name = {watcher, ++last_};
  watches_.emplace(watcher, Watch{kind, eid, id, target, name.number, kFirstDelayNs});
  look(name);
}

void PeerWatches::unwatch(PeerWatcher* watcher, std::optional<uint64_t> target) {
  const auto known = watches_.find(watcher);
  if (known == watches_.end() || known->second.target != target.value_or(known->second.target)) {
    return;
  }
  auto ended = watches_.extract(known);
  cancel_timer(&ended.mapped());
  if (ended.mapped().owner.has_value()) heed_(*ended.mapped().owner, false);
}

void PeerWatches::cancel_timer(Watch* watch) {
  if (watch->timer != 0) service_->cancel(std::exchange(watch->timer, 0));
}

PeerWatches::Watch* PeerWatches::at(const Name& name) {
  const auto known = watches_.find(name.watcher);
  return known != watches_.end() && known->second.number == name.number ? &known->second : nullptr;
}

template <typename Which>
std::vector<PeerWatches::Name> PeerWatches::those(const Which& which) const {
  std::vector<Name> names;
  for (const auto& [watcher, watch] : watches_) {
    if (which(watch)) names.push_back({watcher, watch.number});
  }
  return names;
}

std::vector<PeerWatches::Name> PeerWatches::watches_of(const OwnerKey& owner) const {
  return those([&](const Watch& watch) { return watch.owner == owner; });
}

PeerWatches* PeerWatches::chosen_for(IdKind kind, const urma_eid_t& eid, uint32_t id) {
  return choose_ ? choose_(kind, eid, id) : this;
}

void PeerWatches::look(const Name& name) {
  // Copies: the answer may end the watch at once.
  const Watch* watch = at(name);
  const IdKind kind = watch->kind;
  const urma_eid_t eid = watch->eid;
  const uint32_t id = watch->id;
  try {
    PeerWatches* const chosen = chosen_for(kind, eid, id);
    if (chosen != this) return move(name, chosen);
    find_(kind, eid, id, [this, name](const std::optional<Owner>& owner) { found(name, owner); });
  } catch (...) {
    // Out of memory or descriptors.
    look_later(name);
    throw;
  }
}

void PeerWatches::move(const Name& name, PeerWatches* there) {
  const Watch watch = *at(name);
  // There was an owner here, and nobody has the id here any more.
  if (watch.found) return tell(name);
  // Unless it has come back.
  const auto leave = [&] {
    Watch* const left = at(name);
    if (left == nullptr) return;
    cancel_timer(left);
    watches_.erase(name.watcher);
  };
  try {
    there->watch(name.watcher, watch.kind, watch.eid, watch.id, watch.target);
  } catch (...) {
    // It looks there later, if it is there.
    if (there->watches_.contains(name.watcher)) leave();
    throw;
  }
  leave();
}

void PeerWatches::look_now(IdKind kind, const urma_eid_t& eid, uint32_t id,
                           const std::optional<Owner>& owner) {
  const auto wants = [&](const Watch& watch) {
    return !watch.owner.has_value() && watch.kind == kind && watch.id == id &&
           same_eid(watch.eid, eid);
  };
  for (const Name& name : those(wants)) {
    guarded(URMA_LOG_SITE, [&] {
      Watch* watch = at(name);
      if (watch == nullptr) return;
      const bool here = chosen_for(kind, eid, id) == this;
      if (here && owner.has_value()) return found(name, owner);
      // One that is looking goes on, unless its owner is to be found elsewhere.
      if (here && watch->timer == 0) return;
      cancel_timer(watch);
      look(name);
    });
  }
}

void PeerWatches::look_later(const Name& name) {
  Watch* watch = at(name);
  if (watch == nullptr || watch->timer != 0 || watch->owner.has_value()) return;
  watch->timer = service_->after(watch->delay_ns, [this, name] {
    Watch* due = at(name);
    if (due == nullptr) return;
    due->timer = 0;
    guarded(URMA_LOG_SITE, [&] { look(name); });
  });
  watch->delay_ns = std::min(2 * watch->delay_ns, kLastDelayNs);
}

void PeerWatches::found(const Name& name, const std::optional<Owner>& owner) {
  Watch* watch = at(name);
  // It already has an owner: this answers a look that threw after it had asked.
  if (watch == nullptr || watch->owner.has_value()) return;
  cancel_timer(watch);
  if (!owner.has_value()) {
    // There was an owner, and nobody has the id any more.
    return watch->found ? tell(name) : look_later(name);
  }
  const bool lost =
      std::find(watch->lost.begin(), watch->lost.end(), owner->key) != watch->lost.end();
  if (lost || owner->state == State::kGone) return tell(name);
  if (owner->state == State::kRefused) {
    watch->found = true;
    return look_later(name);
  }
  try {
    heed_(owner->key, true);
  } catch (...) {
    look_later(name);
    throw;
  }
  watch->found = true;
  watch->owner = owner->key;
  watch->delay_ns = kFirstDelayNs;
}

void PeerWatches::tell(const Name& name) {
  Watch* watch = at(name);
  if (watch == nullptr) return;
  cancel_timer(watch);
  const uint64_t target = watch->target;
  watches_.erase(name.watcher);
  guarded(URMA_LOG_SITE, [&] { name.watcher->peer_gone(target); });
}

void PeerWatches::lost(const OwnerKey& owner) {
  for (const Name& name : watches_of(owner)) tell(name);
}

void PeerWatches::take_for_lost(const OwnerKey& owner) {
  for (auto& [watcher, watch] : watches_) {
    if (!watch.owner.has_value()) watch.lost.push_back(owner);
  }
  for (const Name& name : watches_of(owner)) {
    // A watcher that was told before may have ended this watch.
    if (at(name) == nullptr) continue;
    heed_(owner, false);
    tell(name);
  }
}

void PeerWatches::look_again(const OwnerKey& owner) {
  for (const Name& name : watches_of(owner)) {
    if (Watch* watch = at(name); watch != nullptr) {
      watch->owner.reset();
      guarded(URMA_LOG_SITE, [&] { look(name); });
    }
  }
}

}  // namespace urma
