// SPDX-License-Identifier: MIT
//
// A context with a Control, whose server counts what it executes.
#ifndef TEST_VERBS_CONTROL_PARTY_H_
#define TEST_VERBS_CONTROL_PARTY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "test/verbs/lossy_network.h"
#include "urma/base/error.h"
#include "urma/providers/verbs/control.h"

namespace urma::verbs {

inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kSecond = 1000 * kMs;

inline urma_eid_t eid_of(uint8_t host) {
  urma_eid_t eid = {};
  eid.raw[10] = eid.raw[11] = 0xff;
  eid.raw[12] = 10;
  eid.raw[15] = host;
  return eid;
}

inline ConnectRequest connect_request(uint64_t connection, const urma_eid_t& from,
                                      const urma_eid_t& to) {
  ConnectRequest request = {};
  request.connection = connection;
  request.source = {from, 1, 7, false};
  request.end.gid = from;
  request.end.mtu = IBV_MTU_1024;
  request.target = {to, 9, URMA_JFR, URMA_TM_RM, 0};
  return request;
}

class CountingServer : public ControlServer {
 public:
  Reply on_connect(const PeerRef& from, const ConnectRequest& request) override {
    ++connects[{from.nonce, request.connection}];
    ConnectReply reply = {};
    reply.end.mtu = IBV_MTU_1024;
    reply.end.rd_atomic = 1;
    reply.end.qpn = static_cast<uint32_t>(request.connection * 3);
    reply.member_id = 1;
    return {Answer::kAccepted, reply};
  }
  Reply on_disconnect(const PeerRef& from, const DisconnectRequest& request) override {
    ++disconnects[{from.nonce, request.connection}];
    return {Answer::kAccepted, DisconnectReply{5}};
  }
  Reply on_segment(const PeerRef&, const SegmentRequest& request) override {
    if (request.token != 1) return {Answer::kWrongToken, {}};
    return {Answer::kAccepted, SegmentReply{request.va, request.len, {1, 3}, 5, 6}};
  }
  Reply on_fault(const PeerRef&, const FaultRequest&) override {
    fail(URMA_FAIL, "this server fails");
  }
  Reply on_probe(const PeerRef&, const ProbeRequest& request) override {
    ++probes;
    last_probed = request.target.id;
    return {probed, {}};
  }
  void on_peer_lost(const PeerRef& peer, PeerLoss loss) override { lost.emplace_back(peer, loss); }

  using Key = std::pair<uint64_t, uint64_t>;  // nonce and connection
  std::map<Key, int> connects;
  std::map<Key, int> disconnects;
  int probes = 0;
  uint32_t last_probed = 0;
  Answer probed = Answer::kAccepted;
  std::vector<std::pair<PeerRef, PeerLoss>> lost;
};

struct Party {
  Party(Service* service, DatagramNetwork* network, uint8_t host, uint64_t nonce,
        std::function<uint64_t()> clock)
      : eid(eid_of(host)), nonce(nonce) {
    ControlConfig config = {};
    config.eid = eid;
    config.link_layer = LinkLayer::kRoce;
    config.nonce = nonce;
    config.clock = std::move(clock);
    config.seed = nonce * 1000 + host;
    control = std::make_unique<Control>(service, network, &server, config);
  }
  Party(FakeService* service, DatagramNetwork* network, uint8_t host, uint64_t nonce)
      : Party(service, network, host, nonce, service->clock()) {}

  uint32_t id() const { return uint32_t{control->port()} << 16 | 9; }
  NetAddress address() const { return address_of(eid, LinkLayer::kRoce, control->port()); }
  PeerRef ref() const { return {address(), nonce}; }

  const urma_eid_t eid;
  const uint64_t nonce;
  CountingServer server;
  std::unique_ptr<Control> control;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_CONTROL_PARTY_H_
