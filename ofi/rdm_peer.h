/* SPDX-License-Identifier: MIT */

// The peers of an endpoint for datagrams: those of its address vector, and senders outside it.

#ifndef OFI_RDM_PEER_H
#define OFI_RDM_PEER_H

#include <rdma/fabric.h>

#include <cstring>
#include <deque>
#include <vector>

#include "ofi/address.h"
#include "ofi/rdm_frame.h"
#include "ofi/rdm_list.h"
#include "urma_types.h"

namespace urma_fi {

struct Receive;
struct Send;

// Our queue that takes the data of large messages from one peer, in the order of our grants.
struct LaneIn {
  urma_jfr_t* queue = nullptr;  // NULL: no large message yet
  uint32_t token = 0;
  List<Receive> granted;  // their buffers are posted there
  size_t count = 0;       // of them
  int closing = 0;        // they come back flushed, and fail with this; 0: open
  List<Receive> waiting;  // the queue was full
};

// The peer's queue for our data.
struct LaneOut {
  urma_target_jetty_t* target = nullptr;  // NULL: no grant yet
  uint32_t id = 0;
  uint32_t token = 0;
  uint32_t in_flight = 0;  // messages on the way there
};

// A grant that waits for room in the queue to its peer.
struct GrantFrame {
  uint8_t flags;
  GrantBody body;
};

struct Peer {
  Address address;
  fi_addr_t number = FI_ADDR_NOTAVAIL;  // in the address vector
  uint16_t incarnation = 0;             // 0: nothing has come from it
  uint16_t former = 0;                  // of the endpoint that had the address before
  bool stranger = false;                // sent before anybody inserted it
  bool answered = false;                // a stranger that may be answered
  // Of all that is sent to it: a queue completes in order, and this peer may not read.
  urma_jfs_t* queue = nullptr;
  urma_target_jetty_t* target = nullptr;  // NULL: nothing sent yet
  bool proven = false;                    // the last confirmed send has arrived
  bool probed = false;                    // a probe is under way
  bool unconfirmed = false;               // something was posted behind the last probe
  uint32_t copies = 0;                    // in flight to it
  uint32_t awaited = 0;                   // what it alone can end: receives from it, large messages
  List<Send> requested;                   // large messages that wait for its grant
  std::vector<GrantFrame> delayed_grants;  // its queue was full
  List<Send> delayed_data;                 // likewise
  LaneIn in;
  LaneOut out;

  bool delayed = false;  // in the list of peers whose queue was full

  bool removed() const { return number == FI_ADDR_NOTAVAIL && !stranger; }
};

constexpr size_t kMostStrangers = 65536;
// An answer takes a send queue.
constexpr size_t kMostAnswered = 1024;

class PeerTable {
 public:
  // The peer at that address, made if needed. It is no stranger any more.
  Peer* at(const urma_eid_t& eid, uint32_t id) {
    Peer* peer = find(eid, id);
    if (peer == nullptr) return add({eid, id});
    strangers_ -= peer->stranger;
    answered_ -= peer->answered;
    peer->stranger = peer->answered = false;
    return peer;
  }

  // The same for a sender; NULL: there are too many.
  Peer* from(const urma_eid_t& eid, uint32_t id) {
    Peer* peer = find(eid, id);
    if (peer != nullptr || strangers_ == kMostStrangers) return peer;
    strangers_++;
    peer = add({eid, id});
    peer->stranger = true;
    return peer;
  }

  // Call before anything that may be answered is taken from the peer. False: drop it, since too
  // many strangers have sent such things.
  bool may_answer(Peer* peer) {
    if (!peer->stranger || peer->answered) return true;
    if (answered_ == kMostAnswered) return false;
    answered_++;
    return peer->answered = true;
  }

  std::deque<Peer>& all() { return peers_; }
  const std::deque<Peer>& all() const { return peers_; }

 private:
  // Ids are often consecutive, and alike on different devices.
  static size_t hash(const urma_eid_t& eid, uint32_t id) {
    uint64_t words[2];
    std::memcpy(words, eid.raw, sizeof(words));
    return ((words[0] ^ words[1] ^ id) * 0x9e3779b97f4a7c15) >> 32;
  }
  Peer* find(const urma_eid_t& eid, uint32_t id) const {
    for (size_t i = hash(eid, id);; i++) {
      Peer* peer = slots_[i & (slots_.size() - 1)];
      if (peer == nullptr) return nullptr;
      if (peer->address.id == id && same_eid(peer->address.eid, eid)) return peer;
    }
  }
  Peer* add(const Address& address);
  void place(Peer* peer);

  std::deque<Peer> peers_;
  size_t strangers_ = 0;
  size_t answered_ = 0;                                // of them
  std::vector<Peer*> slots_ = std::vector<Peer*>(64);  // a power of two, half of them empty
};

}  // namespace urma_fi

#endif  // OFI_RDM_PEER_H
