// SPDX-License-Identifier: MIT
//
// The same over real sockets. URMA_TEST_CONTROL names other pairs of addresses than those of the
// loopback, as "address%interface address%interface", with commas between the pairs.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <sstream>
#include <string>

#include "test/verbs/control_party.h"
#include "test/verbs/fake_verbs.h"
#include "urma/base/clock.h"
#include "urma/core/process/service_thread.h"

namespace urma::verbs {
namespace {

struct Place {
  urma_eid_t eid;
  uint32_t netdev;
};

Place parse_place(const std::string& text) {
  Place place = {};
  const auto percent = text.find('%');
  const auto address = text.substr(0, percent);
  if (::inet_pton(AF_INET, address.c_str(), place.eid.raw + 12) == 1) {
    place.eid.raw[10] = place.eid.raw[11] = 0xff;
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, address.c_str(), place.eid.raw), 1) << text;
  }
  if (percent != std::string::npos) {
    place.netdev = ::if_nametoindex(text.substr(percent + 1).c_str());
    EXPECT_NE(place.netdev, 0U) << text;
  }
  return place;
}

std::vector<std::pair<Place, Place>> places() {
  const char* given = std::getenv("URMA_TEST_CONTROL");
  std::istringstream pairs(given != nullptr ? given : "127.0.0.1 127.0.0.2,::1 ::1");
  std::vector<std::pair<Place, Place>> result;
  for (std::string pair; std::getline(pairs, pair, ',');) {
    std::istringstream words(pair);
    std::string from, to;
    words >> from >> to;
    result.emplace_back(parse_place(from), parse_place(to));
  }
  return result;
}

class Context {
 public:
  Context(const Api* api, core::ServiceThread* service, const Place& place, uint64_t nonce)
      : service_(service), place_(place), network_(api, place.netdev) {
    service_->run([&] {
      ControlConfig config = {};
      config.eid = place.eid;
      config.link_layer = LinkLayer::kRoce;
      config.nonce = nonce;
      control = std::make_unique<Control>(service, &network_, &server, config);
    });
  }
  ~Context() { end(); }
  void end() {
    service_->run([&] { control.reset(); });
  }
  PeerRef ref(uint64_t nonce) const {
    return {address_of(place_.eid, LinkLayer::kRoce, control->port()), nonce};
  }
  const urma_eid_t& eid() const { return place_.eid; }
  UdpNetwork& network() { return network_; }

  Answer connect(const Context& to, uint32_t id) {
    std::promise<Answer> answered;
    service_->run([&] {
      control->request(to.eid(), IdKind::kJfr, id, connect_request(++connections_, eid(), to.eid()),
                       30 * kSecond, [&](const Reply& reply, const PeerRef&) {
                         answered.set_value(reply.answer);
                       });
    });
    return answered.get_future().get();
  }

  class Server : public CountingServer {
   public:
    void on_peer_lost(const PeerRef& /*peer*/, PeerLoss loss) override { lost.set_value(loss); }
    std::promise<PeerLoss> lost;
  };
  Server server;
  std::unique_ptr<Control> control;

 private:
  core::ServiceThread* const service_;
  const Place place_;
  UdpNetwork network_;
  uint64_t connections_ = 0;
};

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() { service_.start(); }
  FakeVerbs fake_;
  core::ServiceThread service_;
};

TEST_F(ControlSocketTest, AsksAnswersAndNoticesTheEnd) {
  for (const auto& [from, to] : places()) {
    Context a(fake_.api(), &service_, from, 11);
    Context b(fake_.api(), &service_, to, 22);
    const uint32_t id = uint32_t{b.control->port()} << 16 | 1;
    SCOPED_TRACE(b.ref(22).address.text());
    for (int i = 0; i < 100; ++i) ASSERT_EQ(a.connect(b, id), Answer::kAccepted);
    EXPECT_EQ(b.server.connects.size(), 100U);

    // An id that no other run of this test has: the kernel chose the port.
    const uint32_t chosen = b.control->port();
    service_.run([&] { b.control->names().reserve(IdKind::kJfr, 0, chosen); });
    EXPECT_TRUE(b.control->names().reserved_elsewhere(IdKind::kJfr, chosen));
    EXPECT_EQ(a.connect(b, chosen), Answer::kAccepted);
    service_.run([&] { b.control->names().unreserve(IdKind::kJfr, 0, chosen); });
    EXPECT_FALSE(b.control->names().reserved_elsewhere(IdKind::kJfr, chosen));
    EXPECT_EQ(a.connect(b, chosen), Answer::kUnreachable);

    const PeerRef peer = b.ref(22);
    service_.run([&] { a.control->watch(peer); });
    b.end();
    EXPECT_EQ(a.server.lost.get_future().get(), PeerLoss::kRefused);
    const uint64_t before = monotonic_ns();
    EXPECT_EQ(a.connect(b, id), Answer::kUnreachable);
    EXPECT_LT(monotonic_ns() - before, 25 * kSecond);  // not by the timeout
  }
}

TEST_F(ControlSocketTest, NamesAreClaimedOnce) {
  UdpNetwork one(fake_.api(), 1), two(fake_.api(), 2);
  const auto name = std::to_string(::getpid());
  auto held = one.claim(name);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(one.claim(name), nullptr);
  EXPECT_NE(two.claim(name), nullptr);
  held.reset();
  EXPECT_FALSE(one.is_claimed(name));
  held = one.claim(name);
  EXPECT_NE(held, nullptr);
  EXPECT_TRUE(one.is_claimed(name));
}

// The holder of a name may allow only one other socket to send to it.
TEST_F(ControlSocketTest, AConnectedSocketStillClaimsItsName) {
  const auto held = std::to_string(::getpid()), other = held + "-other";
  const auto address_of = [](const std::string& name) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    return address;
  };
  const auto bound = [&](const std::string& name) {
    Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(name);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    return fd;
  };
  const Fd holder = bound("urma-verbs-1-" + held), friend_of_it = bound(other);
  const sockaddr_un address = address_of(other);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + other.size());
  ASSERT_EQ(::connect(holder.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  EXPECT_TRUE(UdpNetwork(fake_.api(), 1).is_claimed(held));
}

// A child that continues without exec has neither the names nor the ports of its parent.
TEST_F(ControlSocketTest, NamesAndPortsEndWithTheirProcessDespiteItsChild) {
  UdpNetwork network(fake_.api(), 0);
  const std::string name = "held-" + std::to_string(::getpid());
  std::shared_ptr<void> claim = network.claim(name);
  ASSERT_NE(claim, nullptr);
  std::unique_ptr<DatagramSocket> socket =
      network.open(address_of(places()[0].first.eid, LinkLayer::kRoce, 0));
  const NetAddress address = socket->local();
  int begun[2], over[2];
  ASSERT_EQ(::pipe(begun), 0);
  ASSERT_EQ(::pipe(over), 0);
  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  char byte = 0;
  if (child == 0) {
    ::close(over[1]);
    const bool told = ::write(begun[1], &byte, 1) == 1;
    ::_exit(told && ::read(over[0], &byte, 1) == 0 ? 0 : 1);
  }
  EXPECT_EQ(::read(begun[0], &byte, 1), 1);
  // They still belong to the parent.
  EXPECT_TRUE(network.is_claimed(name));
  EXPECT_EQ(network.open(address), nullptr);
  claim.reset();
  socket.reset();
  EXPECT_FALSE(network.is_claimed(name));
  EXPECT_NE(network.claim(name), nullptr);
  EXPECT_NE(network.open(address), nullptr);
  for (const int fd : {begun[0], begun[1], over[0], over[1]}) ::close(fd);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ControlSocketTest, OnlyUnicastAddressesAreOpened) {
  UdpNetwork network(fake_.api(), 0);
  EXPECT_THROW(network.open(NetAddress()), Error);
  NetAddress group = {};
  group.ip[0] = 0xff;
  EXPECT_THROW(network.open(group), Error);
}

}  // namespace
}  // namespace urma::verbs
