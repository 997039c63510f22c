// SPDX-License-Identifier: MIT
//
// The asker's end: sends a request until it is answered.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_ASKER_H_
#define URMA_PROVIDERS_VERBS_CONTROL_ASKER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>

#include "urma/providers/verbs/control_wire.h"

namespace urma::verbs {

class ControlAsker {
 public:
  // Interval between repeats of a request: the first, and the longest.
  static constexpr uint64_t kFirstDelayNs = 5'000'000;
  static constexpr uint64_t kLastDelayNs = 1'000'000'000;
  // Of one peer.
  static constexpr size_t kMaxWaiting = 65536;

  using AskId = uint64_t;  // never 0

  explicit ControlAsker(ControlWire* wire) : wire_(wire) {}
  ~ControlAsker();

  // Only `incarnation` may answer; 0: any may. on_reply() is called later, once.
  AskId ask(const NetAddress& to, uint64_t incarnation, const Request& request,
            uint64_t deadline_ns, OnReply on_reply);
  // Does nothing if it was answered already.
  void cancel(AskId id);

  void on_challenge(const NetAddress& from, const Header& header);
  void on_reply(const NetAddress& from, const Header& header, const Reply& reply);
  // The peer's host reports that the port is closed.
  void on_refused(const NetAddress& to, uint64_t transaction);

 private:
  struct Asked {
    NetAddress to;
    uint64_t incarnation;
    Request request;
    uint64_t deadline_ns;
    OnReply on_reply;
    uint64_t transaction = 0;  // 0: waits until the window has room
    uint64_t delay_ns = kFirstDelayNs;
    Service::TimerId timer = 0;
  };
  struct Peer {
    uint64_t nonce = 0;
    Ticket ticket;
    std::map<uint64_t, AskId> window;  // by transaction; 0: it has ended
    std::deque<AskId> waiting;         // may hold requests that have ended
  };

  void start(AskId id);
  void transmit(AskId id);
  void on_timer(AskId id);
  void finish(AskId id, const Reply& reply, uint64_t nonce);
  // Takes it out, and sends those behind it.
  Asked remove(AskId id);
  AskId find(const NetAddress& peer, uint64_t transaction) const;

  ControlWire* const wire_;
  AskId last_ = 0;
  std::unordered_map<AskId, Asked> asked_;
  std::map<NetAddress, Peer> peers_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_ASKER_H_
