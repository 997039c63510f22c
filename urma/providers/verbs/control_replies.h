// SPDX-License-Identifier: MIT
//
// What a context remembers of the peers it served, so that a repeated request gets the same reply
// and is not executed again. Bounded, whatever others send.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_REPLIES_H_
#define URMA_PROVIDERS_VERBS_CONTROL_REPLIES_H_

#include <cstdint>
#include <map>
#include <optional>

#include "urma/providers/verbs/control_ticket.h"
#include "urma/providers/verbs/datagram.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

// Requests that an asker may have in flight, from the oldest one that it still waits for.
inline constexpr size_t kRequestWindow = 64;

class ReplyCache {
 public:
  // Peers that are remembered, and replies to them. One host may have a quarter of both, for all
  // its ports together.
  static constexpr size_t kMaxPeers = 16384;
  static constexpr size_t kMaxReplies = 65536;
  // Longer than any request is repeated.
  static constexpr uint64_t kForgetNs = 120'000'000'000;

  enum class Verdict {
    kExecute,  // then keep() its reply
    kRepeat,   // send *reply again
    kIgnore,   // an old one that is late
    kFull,     // no room now; it may come again
  };

  explicit ReplyCache(TicketOffice* tickets) : tickets_(tickets) {}

  // A request with a valid ticket. *replaced is the nonce of the incarnation served at this address
  // before, 0 if there was no other.
  Verdict admit(const NetAddress& from, const Header& header, uint64_t now_ns,
                const DatagramBytes** reply, uint64_t* replaced);
  void keep(const NetAddress& to, uint64_t nonce, uint64_t transaction, const DatagramBytes& reply);

  size_t peers() const { return peers_.size(); }
  size_t replies() const { return replies_; }

 private:
  struct Use {
    size_t peers = 0;
    size_t replies = 0;
  };
  struct Peer {
    uint64_t nonce;
    uint64_t ticket;  // the last that this incarnation showed
    uint64_t oldest;
    uint64_t heard_ns;
    // Without a reply while the request is being executed.
    std::map<uint64_t, std::optional<DatagramBytes>> replies;
  };
  using Peers = std::map<NetAddress, Peer>;

  // NULL if there is no room, or the request is of an older incarnation.
  Peer* find(const NetAddress& from, const Header& header, uint64_t now_ns, Verdict* verdict,
             uint64_t* replaced);
  Peers::iterator forget(Peers::iterator peer);
  void forget_silent(uint64_t now_ns);
  void drop_replies(const NetAddress& from, Peer* peer, uint64_t before);

  TicketOffice* const tickets_;
  Peers peers_;
  std::map<NetAddress, Use> hosts_;
  size_t replies_ = 0;
  uint64_t swept_ns_ = 0;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_REPLIES_H_
