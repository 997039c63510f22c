// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_PEER_WATCHES_H_
#define URMA_PROVIDERS_VERBS_PEER_WATCHES_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "jetty/peer_watches.h"
#include "urma/providers/verbs/asking.h"
#include "urma/providers/verbs/control.h"

namespace urma::verbs {

// Watches of the owners that answer at control sockets. On the service thread.
class PeerWatches : public urma::PeerWatches {
 public:
  PeerWatches(Service* service, Asking* asking)
      : urma::PeerWatches(
            service,
            [asking](IdKind kind, const urma_eid_t& eid, uint32_t id, OnFound found) {
              asking->ask(eid, kind, id, PingRequest(),
                          [found = std::move(found)](const Reply& reply, const PeerRef& owner) {
                            if (reply.answer != Answer::kAccepted) return found(std::nullopt);
                            found(Owner{key_of(owner)});
                          });
            },
            [this](const OwnerKey& owner, bool heeded) {
              heeded ? control_->watch(ref_of(owner)) : control_->unwatch(ref_of(owner));
            }) {}

  void start(Control* control) { control_ = control; }
  void peer_lost(const PeerRef& peer) { lost(key_of(peer)); }
  // The same for a peer that Control goes on watching.
  void take_for_lost(const PeerRef& peer) { urma::PeerWatches::take_for_lost(key_of(peer)); }

 private:
  static OwnerKey key_of(const PeerRef& peer) {
    OwnerKey key = {0, 0, peer.address.port, peer.nonce};
    std::memcpy(key.data(), peer.address.ip, sizeof(peer.address.ip));
    return key;
  }
  static PeerRef ref_of(const OwnerKey& key) {
    PeerRef peer = {{{}, static_cast<uint16_t>(key[2])}, key[3]};
    std::memcpy(peer.address.ip, key.data(), sizeof(peer.address.ip));
    return peer;
  }

  Control* control_ = nullptr;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_PEER_WATCHES_H_
