// SPDX-License-Identifier: MIT
//
// The device in private networks: its EIDs and ports, and changes to them.
#include "urma/providers/tcp/device.h"

#include <poll.h>
#include <sys/resource.h>

#include <deque>
#include <utility>
#include <vector>

#include "test/tcp/networks.h"
#include "test/tcp/streams.h"
#include "urma/base/error.h"

namespace urma::tcp {
namespace {

// The thread of the test is the service thread.
class OwnService final : public Service {
 public:
  void post(Task task) override { task(); }
  void run(const Task& task) override { task(); }
  bool on_thread() const override { return true; }
  void watch(int fd, uint32_t /*events*/, Ready ready) override {
    fd_ = fd;
    ready_ = std::move(ready);
  }
  void rewatch(int /*fd*/, uint32_t /*events*/) override {}
  void unwatch(int /*fd*/) override { fd_ = -1; }
  TimerId after(uint64_t /*delay_ns*/, Task task) override {
    later_ = std::move(task);
    return 0;
  }
  void cancel(TimerId /*timer*/) override { later_ = nullptr; }

  bool watches() const { return fd_ >= 0; }
  bool has_timer() const { return later_ != nullptr; }
  void expire() { std::exchange(later_, nullptr)(); }
  void wait() {
    wait_for(fd_, POLLIN);
    take();
  }
  void take() { ready_(POLLIN); }

 private:
  int fd_ = -1;
  Ready ready_;
  Task later_;
};

class PortStates final : public Registry {
 public:
  void add_provider(urma_provider_ops_t* /*ops*/) override {}
  void add_device(urma_provider_ops_t* /*ops*/, const DeviceDescription& /*device*/) override {}
  void explain(urma_provider_ops_t* /*ops*/, const std::string& /*reason*/) override {}
  void set_port_state(const char* /*device*/, uint32_t port, urma_port_state_t state) override {
    states[port] = state;
  }

  std::map<uint32_t, urma_port_state_t> states;
};

using Event = std::pair<urma_async_event_type_t, uint32_t>;

class DeviceTest : public TwoNetworks {
 protected:
  // The kernel needs a moment to report a link.
  void SetUp() override {
    TwoNetworks::SetUp();
    if (IsSkipped()) return;
    NetworkNews news;
    while (!read_host_network().running("wire")) {
      wait_for(news.fd(), POLLIN);
      news.read();
    }
  }
  static std::vector<std::string> eids(const Device& device) {
    std::vector<std::string> texts;
    for (const auto& eid : device.eids()) texts.push_back(text_of(eid));
    return texts;
  }
  void watch(Device& device) {
    device.watch(
        &service_, &ports_, [this](const auto& eid) { return text_of(eid) != unreachable_; },
        [this](auto type, auto element) { events_.emplace_back(type, element); });
  }
  Event next_event() {
    while (events_.empty()) service_.wait();
    const Event event = events_.front();
    events_.pop_front();
    return event;
  }

  OwnService service_;
  PortStates ports_;
  std::deque<Event> events_;
  std::string unreachable_;
};

using Texts = std::vector<std::string>;

TEST_F(DeviceTest, HasAnEidForEachAddress) {
  const Device device("");
  EXPECT_EQ(eids(device), (Texts{"10.99.0.1", "fd99::1", "127.0.0.1", "::1"}));
  EXPECT_EQ(device.attr().dev_cap.max_eid_cnt, 4U);
  ASSERT_EQ(device.attr().port_cnt, 1);
  const auto& port = device.attr().port_attr[0];
  EXPECT_EQ(port.state, URMA_PORT_ACTIVE);
  EXPECT_EQ(port.active_speed, URMA_SP_10G);  // as veth reports
  EXPECT_EQ(port.active_mtu, URMA_MTU_1024);
}

TEST_F(DeviceTest, ConnectsFromTheAddressThatTheRoutesChoose) {
  ip("link add more type veth peer name erom netns " + there_.path());
  ip("addr add 10.98.0.1/24 dev more");
  ip("link set more up");
  const Device device("");
  const auto source = [&](const char* to) { return text_of(source_for(device.eids(), eid(to))); };
  EXPECT_EQ(source("10.99.0.2"), "10.99.0.1");
  EXPECT_EQ(source("10.98.0.2"), "10.98.0.1");
  EXPECT_EQ(source("fd99::2"), "fd99::1");
  EXPECT_EQ(source("10.99.0.1"), "10.99.0.1") << "its own";
  EXPECT_EQ(source("127.0.0.1"), "127.0.0.1");
  // The others still work without the first one.
  ip("addr del 10.99.0.1/24 dev wire");
  EXPECT_EQ(source("10.98.0.2"), "10.98.0.1");
  // It has to be an EID: peers know no other address.
  const urma_eid_t only = eid("10.99.0.1");
  EXPECT_EQ(text_of(source_for({&only, 1}, eid("10.98.0.2"))), "10.99.0.1");
}

// An EID whose address another host has now.
TEST_F(DeviceTest, AnAddressThatHasMovedIsNotConnectedFrom) {
  const Device device("");
  ip("addr del fd99::1/64 dev wire");
  ip("addr add fd98::1/64 dev wire nodad");
  ip("addr del 10.99.0.1/24 dev wire");
  ip("addr add 10.98.0.1/24 dev wire");
  const Device now("");
  ip("route add 10.99.0.0/24 dev wire");
  EXPECT_EQ(text_of(source_for(now.eids(), eid("10.99.0.1"))), "10.98.0.1");
  std::vector<urma_eid_t> both(now.eids().begin(), now.eids().end());
  both.insert(both.begin(), device.eids().begin(), device.eids().end());
  EXPECT_EQ(text_of(source_for(both, eid("10.99.0.1"))), "10.98.0.1");
}

TEST_F(DeviceTest, HasTheConfiguredAddresses) {
  EXPECT_EQ(eids(Device("wire")), (Texts{"10.99.0.1", "fd99::1"}));
  EXPECT_EQ(eids(Device("lo,fd99::1,wire,none")),
            (Texts{"fd99::1", "10.99.0.1", "127.0.0.1", "::1"}));
  EXPECT_EQ(Device("lo").attr().port_cnt, 1);
  EXPECT_THROW(Device("nowhere"), Error);
  EXPECT_TRUE(Device("none").eids().empty());
}

// It does not stand for all interfaces.
TEST_F(DeviceTest, AnEmptyNameInAListIsRefused) {
  for (const char* list : {",", ",wire", "wire,", "wire,,lo"})
    EXPECT_THROW(Device{list}, Error) << list;
}

TEST_F(DeviceTest, OmitsDownInterfacesAndLinkLocalAddresses) {
  ip("link add idle type veth");
  ip("addr add 10.98.0.1/24 dev idle");
  ip("addr add fe80::99/64 dev wire nodad");
  ip("addr add 169.254.1.1/16 dev wire");
  EXPECT_EQ(eids(Device("")).size(), 4U);
}

TEST_F(DeviceTest, ReportsAnAddressThatIsAddedOrRemoved) {
  Device device("");
  watch(device);
  ip("addr del fd99::1/64 dev wire");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 1}));
  ip("addr add fd99::1/64 dev wire nodad");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 1}));
  EXPECT_TRUE(events_.empty());
}

TEST_F(DeviceTest, AChangeIsReportedOnceThereAreDescriptorsToLook) {
  Device device("");
  watch(device);
  ip("addr del fd99::1/64 dev wire");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  service_.take();
  EXPECT_TRUE(events_.empty());
  EXPECT_TRUE(service_.has_timer());
  service_.expire();
  EXPECT_TRUE(service_.has_timer());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  service_.expire();
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 1}));
  EXPECT_FALSE(service_.has_timer());
}

TEST_F(DeviceTest, ANewAddressIsAnEidBehindTheOthers) {
  Device device("");
  watch(device);
  ip("link add more type veth");
  ip("addr add 10.98.0.1/24 dev more");
  ip("link set more up");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 4}));
  EXPECT_EQ(text_of(device.eids()[4]), "10.98.0.1");
  // From now on it comes and goes like the others.
  ip("addr del 10.98.0.1/24 dev more");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 4}));
  ip("addr add 10.98.0.1/24 dev more");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 4}));
  EXPECT_EQ(device.eids().size(), 5U);
}

TEST_F(DeviceTest, OnlyANewAddressThatIsChosenIsAnEid) {
  Device device("wire,10.98.0.2");
  watch(device);
  ip("link add more type veth");
  ip("addr add 10.98.0.1/24 dev more");
  ip("addr add 10.98.0.2/24 dev more");
  ip("addr add 10.97.0.1/24 dev wire");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 2}));
  ip("link set more up");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 3}));
  EXPECT_EQ(eids(device), (Texts{"10.99.0.1", "fd99::1", "10.97.0.1", "10.98.0.2"}));
}

TEST_F(DeviceTest, ANewAddressWhereNobodyCanReachTheProcessIsNone) {
  Device device("wire");
  watch(device);
  unreachable_ = "10.97.0.1";
  ip("addr add 10.97.0.1/24 dev wire");
  ip("addr add 10.97.0.2/24 dev wire");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 2}));
  EXPECT_EQ(text_of(device.eids()[2]), "10.97.0.2");
}

TEST_F(DeviceTest, ReportsALinkThatGoesDownAndUp) {
  Device device("10.99.0.1");
  watch(device);
  const auto set_link = [this](const char* state) {
    there_.enter();
    ip(std::string("link set eriw ") + state);
    here_.enter();
  };
  set_link("down");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_PORT_DOWN, 0}));
  EXPECT_EQ(ports_.states[0], URMA_PORT_DOWN);
  set_link("up");
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_PORT_ACTIVE, 0}));
  EXPECT_EQ(ports_.states[0], URMA_PORT_ACTIVE);
}

TEST_F(DeviceTest, ReportsChangesMadeBeforeItWatches) {
  Device device("");
  ip("addr del 10.99.0.1/24 dev wire");
  watch(device);
  EXPECT_EQ(next_event(), (Event{URMA_EVENT_EID_CHANGE, 0}));
}

TEST_F(DeviceTest, WatchesOnceAndUntilItEnds) {
  {
    Device device("");
    EXPECT_FALSE(service_.watches());
    watch(device);
    watch(device);
    EXPECT_TRUE(service_.watches());
  }
  EXPECT_FALSE(service_.watches());
}

// Of two hosts: each carrier is in its own network.
class TwoHosts : public TwoNetworks {
 protected:
  void make(const char* here, const char* there, uint64_t timeout_ms = kPatienceMs) {
    auto config = config_at({eid(here)});
    config.timeout_ms = timeout_ms;
    a_ = make_socket_carrier(config);
    there_.enter();
    config.addresses = {eid(there)};
    b_ = make_socket_carrier(config);
    here_.enter();
    ends_ = join(*a_, eid(here), *b_, eid(there));
  }

  std::unique_ptr<Carrier> a_, b_;
  Ends ends_;
};

TEST_F(TwoHosts, TalkOverIpv4AndIpv6) {
  make("10.99.0.1", "10.99.0.2");
  send_all(*ends_.begins, "over IPv4");
  EXPECT_EQ(receive(*ends_.answers, 9), "over IPv4");
  make("fd99::1", "fd99::2");
  send_all(*ends_.begins, "over IPv6");
  EXPECT_EQ(receive(*ends_.answers, 9), "over IPv6");
}

// No one is notified of a pulled cable.
TEST_F(TwoHosts, ASilentPeerIsDetected) {
  make("10.99.0.1", "10.99.0.2", 400);
  ip("link set wire down");
  send_all(*ends_.begins, "into the dark");
  EXPECT_EQ(wait_for_end(*ends_.begins), "receiving from it: Connection timed out");
}

TEST_F(TwoHosts, AShortOutageEndsNoConnection) {
  make("10.99.0.1", "10.99.0.2");
  ip("link set wire down");
  send_all(*ends_.begins, "after all");
  ip("link set wire up");
  EXPECT_EQ(receive(*ends_.answers, 9), "after all");
}

TEST_F(TwoHosts, ANewAddressIsListenedAtOnAllPorts) {
  make("10.99.0.1", "10.99.0.2");
  uint16_t further = b_->port();
  while (!b_->listen_also(++further)) continue;
  there_.enter();
  ip("addr add 10.99.0.3/24 dev eriw");
  ASSERT_TRUE(b_->listen_at(eid("10.99.0.3")));
  uint16_t later = further;
  while (!b_->listen_also(++later)) continue;
  here_.enter();
  for (const uint16_t port : {b_->port(), further, later}) {
    join(*a_, eid("10.99.0.1"), *b_, Address{eid("10.99.0.3"), port});
  }
}

// As before, it listens nowhere there, whichever of the ports is not to be had.
TEST_F(TwoHosts, ANewAddressThatIsTakenIsLeftAlone) {
  make("10.99.0.1", "10.99.0.2");
  uint16_t further = b_->port();
  while (!b_->listen_also(++further)) continue;
  there_.enter();
  ip("addr add 10.99.0.3/24 dev eriw");
  for (const uint16_t taken : {b_->port(), further}) {
    auto config = config_at({eid("10.99.0.3")});
    config.first_port = config.last_port = taken;
    const auto other = make_socket_carrier(config);
    EXPECT_FALSE(b_->listen_at(eid("10.99.0.3")));
    config.first_port = config.last_port = taken == further ? b_->port() : further;
    make_socket_carrier(config);
  }
  EXPECT_TRUE(b_->listen_at(eid("10.99.0.3")));
  here_.enter();
  join(*a_, eid("10.99.0.1"), *b_, eid("10.99.0.3"));
}

// A port stays open at an address that is temporarily gone.
TEST_F(TwoHosts, AReaddedAddressIsListenedAtAgain) {
  make("10.99.0.1", "10.99.0.2");
  there_.enter();
  ip("addr del 10.99.0.2/24 dev eriw");
  ip("addr add 10.99.0.2/24 dev eriw");
  here_.enter();
  join(*a_, eid("10.99.0.1"), *b_, eid("10.99.0.2"));
}

}  // namespace
}  // namespace urma::tcp
