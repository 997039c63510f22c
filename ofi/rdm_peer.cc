/* SPDX-License-Identifier: MIT */

#include "ofi/rdm_peer.h"

namespace urma_fi {

void PeerTable::place(Peer* peer) {
  size_t i = hash(peer->address.eid, peer->address.id);
  while (slots_[i & (slots_.size() - 1)] != nullptr) i++;
  slots_[i & (slots_.size() - 1)] = peer;
}

Peer* PeerTable::add(const Address& address) {
  peers_.emplace_back().address = address;
  if (peers_.size() * 2 > slots_.size()) {
    slots_.assign(slots_.size() * 2, nullptr);
    for (Peer& peer : peers_) place(&peer);
  } else {
    place(&peers_.back());
  }
  return &peers_.back();
}

}  // namespace urma_fi
