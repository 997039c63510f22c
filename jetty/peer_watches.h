// SPDX-License-Identifier: MIT
//
// Who wants to know when the process that owns a remote queue is gone.
#ifndef JETTY_PEER_WATCHES_H_
#define JETTY_PEER_WATCHES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma_types.h"

namespace urma {

// Is told when the process that owns a remote queue is gone.
class PeerWatcher {
 public:
  virtual ~PeerWatcher() = default;
  // Service thread; `target` as it was given to watch().
  virtual void peer_gone(uint64_t target) = 0;
};

// What tells an owner from all others, as its provider knows it; one that is found again has
// another key.
using OwnerKey = std::array<uint64_t, 4>;

// On the service thread.
class PeerWatches {
 public:
  enum class State {
    kReached,
    kGone,     // since it was looked up: its loss may have been reported already
    kRefused,  // cannot be reached now; another process may have the id soon
  };
  struct Owner {
    OwnerKey key;
    State state = State::kReached;
  };
  // Calls found() once, perhaps at once: with nothing if nobody has the id. Even if it throws, it
  // may have called found(), or do so later.
  using OnFound = std::function<void(const std::optional<Owner>&)>;
  using Find = std::function<void(IdKind kind, const urma_eid_t& eid, uint32_t id, OnFound found)>;
  // Asks the provider to report the loss of this owner, or, with false, to stop.
  using Heed = std::function<void(const OwnerKey& owner, bool heeded)>;

  // The watches that look for the owner of an id: these, or those of another way to it.
  using Choose = std::function<PeerWatches*(IdKind kind, const urma_eid_t& eid, uint32_t id)>;

  PeerWatches(
      Service* service, Find find, Heed heed = [](const OwnerKey&, bool) {})
      : service_(service), find_(std::move(find)), heed_(std::move(heed)) {}

  // Asked before each look: watches of an owner that was not found yet move to those that it names.
  void choose_by(Choose choose) { choose_ = std::move(choose); }

  // Each watcher watches one target, the last. An owner not found yet is looked up again, at
  // growing intervals.
  void watch(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
             uint64_t target);
  // If it watches this target; nothing: whatever it watches.
  void unwatch(PeerWatcher* watcher, std::optional<uint64_t> target = std::nullopt);
  // An owner has been found otherwise: those that wait to look for it look now. Or it is this one,
  // which might not live to answer another look.
  void look_now(IdKind kind, const urma_eid_t& eid, uint32_t id,
                const std::optional<Owner>& owner = std::nullopt);
  // An owner is gone, and no longer heeded.
  void lost(const OwnerKey& owner);
  // The same for one that the provider goes on heeding; it may not have been found yet.
  void take_for_lost(const OwnerKey& owner);
  // The way to an owner has ended, though the owner may live: from now on it is the process that
  // has the id.
  void look_again(const OwnerKey& owner);
  // Nobody is told anything any more.
  void stop();

 private:
  struct Watch {
    IdKind kind;
    urma_eid_t eid;
    uint32_t id;
    uint64_t target;
    uint64_t number;  // identifies a late answer about another watch
    uint64_t delay_ns;
    Service::TimerId timer = 0;
    bool found = false;  // there was an owner; once nobody has the id, it is gone
    std::optional<OwnerKey> owner = {};
    std::vector<OwnerKey> lost = {};  // those taken for lost before the owner was found
  };
  using Watches = std::unordered_map<PeerWatcher*, Watch>;
  struct Name {
    PeerWatcher* watcher;
    uint64_t number;
  };

  template <typename Which>
  std::vector<Name> those(const Which& which) const;
  // Those with this owner.
  std::vector<Name> watches_of(const OwnerKey& owner) const;
  void cancel_timer(Watch* watch);
  // NULL if it has ended.
  Watch* at(const Name& name);
  PeerWatches* chosen_for(IdKind kind, const urma_eid_t& eid, uint32_t id);
  void look(const Name& name);
  void move(const Name& name, PeerWatches* there);
  void look_later(const Name& name);
  void found(const Name& name, const std::optional<Owner>& owner);
  void tell(const Name& name);

  Service* const service_;
  const Find find_;
  const Heed heed_;
  Choose choose_;
  bool stopped_ = false;
  uint64_t last_ = 0;
  Watches watches_;
};

}  // namespace urma

#endif  // JETTY_PEER_WATCHES_H_
