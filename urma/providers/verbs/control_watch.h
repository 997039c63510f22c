// SPDX-License-Identifier: MIT
//
// Detects lost peers by pinging them.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_WATCH_H_
#define URMA_PROVIDERS_VERBS_CONTROL_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "urma/providers/verbs/control_wire.h"

namespace urma::verbs {

class ControlWatch {
 public:
  // How many pings a peer gets within the time it may be silent.
  static constexpr uint64_t kPingsPerSilence = 5;

  using OnLost = std::function<void(const PeerRef&, PeerLoss)>;

  ControlWatch(ControlWire* wire, uint64_t silence_ns, OnLost on_lost)
      : wire_(wire), silence_ns_(silence_ns), on_lost_(std::move(on_lost)) {}
  ~ControlWatch();

  void watch(const PeerRef& peer);
  void unwatch(const PeerRef& peer);
  // Without a report.
  void forget(const PeerRef& peer);

  void on_pong(const NetAddress& from, const Header& header);
  void on_refused(const NetAddress& to, uint64_t transaction);

 private:
  struct Watched {
    uint64_t uses = 0;
    uint64_t heard_ns = 0;
    std::set<uint64_t> pings;  // transactions without an answer
    Service::TimerId timer = 0;
  };
  using Peers = std::map<PeerRef, Watched>;

  void ping(const PeerRef& peer);
  void lose(Peers::iterator peer, PeerLoss loss);
  Peers::iterator find(const NetAddress& address, uint64_t transaction);

  ControlWire* const wire_;
  const uint64_t silence_ns_;
  const OnLost on_lost_;
  Peers peers_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_WATCH_H_
