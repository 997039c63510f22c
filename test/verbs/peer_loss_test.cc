// SPDX-License-Identifier: MIT
//
// What happens to connections whose peer is lost, and to those made when it is back.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <memory>
#include <string>
#include <thread>

#include "test/verbs/control_party.h"
#include "test/verbs/data_path.h"
#include "urma/providers/verbs/transport.h"

namespace urma::verbs {
namespace {

constexpr uint64_t kPatienceNs = 20 * kSecond;

// An IPv4 address of this machine that other machines may know; empty if it has none.
std::string own_address() {
  std::string found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    found = ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text));
  }
  ::freeifaddrs(all);
  return found;
}

// A context of another process, as seen through control messages.
struct Peer {
  Peer(const Api* api, Service* service, const urma_eid_t& at) : eid(at), network(api, 0) {
    ControlConfig config = {};
    config.eid = eid;
    config.link_layer = LinkLayer::kRoce;
    config.nonce = 77;
    control = std::make_unique<Control>(service, &network, &server, config);
    ref = {address_of(eid, LinkLayer::kRoce, control->port()), config.nonce};
  }

  const urma_eid_t eid;
  UdpNetwork network;
  CountingServer server;
  std::unique_ptr<Control> control;
  PeerRef ref;
};

// By iWARP or RoCE.
class PeerLossTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    FakeDeviceOptions options;
    options.iwarp = GetParam();
    // iWARP has no loopback.
    const std::string address = options.iwarp ? own_address() : "127.0.0.1";
    if (address.empty()) GTEST_SKIP() << "this machine has no IPv4 address";
    options.gids = {{address}};
    fake_.add_device(options);
    std::string why;
    const auto device =
        std::make_shared<Device>(fake_.api(), &service_, find_devices(*fake_.api(), &why).at(0));
    const TransportConfig config = {0, /*nonce=*/55, /*uasid=*/7, /*silence_ns=*/100 * kMs, 1024};
    transport_ = std::make_unique<Transport>(device, &service_, config);
    peer_ = std::make_unique<Peer>(fake_.api(), &service_, transport_->eids()[0]);
  }

  std::shared_ptr<Connection> connect(uint64_t number) {
    auto connection = std::make_shared<Connection>();
    connection->request = connect_request(number, peer_->eid, peer_->eid);
    connection->request.target.id = uint32_t{peer_->ref.address.port} << 16 | 9;
    transport_->connections().add(connection);
    bool accepted = false;
    transport_->asking().connect(nullptr, connection->request, [&](const ConnectAnswer& answer) {
      accepted = answer.answer == Answer::kAccepted;
    });
    EXPECT_TRUE(soon([&] { return accepted; }));
    return connection;
  }
  // As reported by the control socket, which has given up the peer before.
  void lose(PeerLoss loss) {
    transport_->control().unwatch(peer_->ref);
    Server(transport_.get()).on_peer_lost(peer_->ref, loss);
    service_.settle();
  }
  template <typename Condition>
  bool soon(Condition condition) {
    const uint64_t deadline = monotonic_ns() + kPatienceNs;
    while (!condition()) {
      if (monotonic_ns() > deadline) return false;
      if (!service_.turn()) std::this_thread::yield();
    }
    return true;
  }

  FakeVerbs fake_;
  HandService service_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Peer> peer_;
};

// TCP retransmits for a quarter of an hour, and reports nothing when there is nothing to
// retransmit.
TEST_P(PeerLossTest, OnlyRoceLeavesTimeoutsToTheDevice) {
  const std::shared_ptr<Connection> connection = connect(1);
  lose(PeerLoss::kSilent);
  EXPECT_EQ(connection->broken, GetParam() ? URMA_CR_ACK_TIMEOUT_ERR : URMA_CR_SUCCESS);
}

// As behind a firewall that rejects for a while. Unused connections that were lost meanwhile do not
// affect how long the peer is watched.
TEST_P(PeerLossTest, RestartedPeerIsWatchedForItsNewConnections) {
  const std::shared_ptr<Connection> before = connect(1);
  lose(PeerLoss::kRefused);
  EXPECT_EQ(before->broken, URMA_CR_ACK_TIMEOUT_ERR);
  const std::shared_ptr<Connection> after = connect(2);
  transport_->asking().disconnect(before->request, DisconnectReason::kClosed);
  EXPECT_EQ(after->broken, URMA_CR_SUCCESS);
  peer_->control.reset();
  EXPECT_TRUE(soon([&] { return after->broken == URMA_CR_ACK_TIMEOUT_ERR; }));
}

// Connections that end without a reason.
class IwarpPeerLossTest : public PeerLossTest {};

// What it has received has not failed, even if its connection is gone before it says so.
TEST_P(IwarpPeerLossTest, ReasonOfAnEndedReceiverIsAwaited) {
  peer_->server.probed = Answer::kNoSuchObject;
  const std::shared_ptr<Connection> told = connect(1);
  const std::shared_ptr<Connection> untold = connect(2);
  transport_->explain_break(told->request);
  transport_->explain_break(untold->request);
  EXPECT_TRUE(soon([&] { return peer_->server.probes == 2; }));
  service_.settle();
  EXPECT_EQ(told->broken, URMA_CR_SUCCESS);
  transport_->connections().turned_away(1, DisconnectReason::kClosed, 5);
  EXPECT_EQ(told->received, 5U);
  EXPECT_EQ(told->count, Count::kKnown);
  EXPECT_TRUE(soon([&] { return untold->broken == URMA_CR_REM_ACCESS_ABORT_ERR; }));
  EXPECT_NE(untold->count, Count::kKnown);
}

// Its code may be gone a moment later.
TEST_P(IwarpPeerLossTest, EndingContextAwaitsNoReason) {
  peer_->server.probed = Answer::kNoSuchObject;
  const std::shared_ptr<Connection> untold = connect(1);
  transport_->explain_break(untold->request);
  EXPECT_TRUE(soon([&] { return peer_->server.probes == 1; }));
  service_.settle();
  EXPECT_EQ(untold->broken, URMA_CR_SUCCESS);
  peer_.reset();
  transport_.reset();
  EXPECT_EQ(service_.timers(), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, IwarpPeerLossTest, testing::Values(true),
                         [](const auto&) { return "Iwarp"; });

INSTANTIATE_TEST_SUITE_P(All, PeerLossTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Iwarp" : "Roce");
});

}  // namespace
}  // namespace urma::verbs
