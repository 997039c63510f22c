// SPDX-License-Identifier: MIT
//
// The bonded device between network namespaces: hosts with a cable between them, and processes that
// share a runtime directory but no network.
#include "test/tcp/networks.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/inspect_reader.h"
#include "urma/base/ip.h"
#include "urma_ext.h"
#include "urma_ubagg.h"

namespace urma_test {
namespace {

using urma::tcp::ip;

// As QUERY_PORT says: all ports, and those in use.
bondp_query_port_out_t ports_of(const Endpoint& endpoint) {
  bondp_query_port_in_t asked = {};
  asked.jfr = endpoint.jfr;
  bondp_query_port_out_t ports = {};
  urma_user_ctl_in_t in = {};
  in.opcode = BONDP_USER_CTL_QUERY_PORT;
  in.addr = reinterpret_cast<uint64_t>(&asked);
  in.len = sizeof(asked);
  urma_user_ctl_out_t out = {};
  out.addr = reinterpret_cast<uint64_t>(&ports);
  out.len = sizeof(ports);
  EXPECT_EQ(urma_user_ctl(endpoint.ctx, &in, &out), 0);
  return ports;
}

void wait_for_port(const urma_context_t* ctx, urma_async_event_type_t type, uint32_t port) {
  pollfd raised = {ctx->async_fd, POLLIN, 0};
  const auto limit = static_cast<int>(patience(seconds(10)).count());
  ASSERT_EQ(::poll(&raised, 1, limit), 1) << "no event " << type;
  urma_async_event_t event = {};
  ASSERT_EQ(urma_get_async_event(const_cast<urma_context_t*>(ctx), &event), URMA_SUCCESS);
  urma_ack_async_event(&event);
  EXPECT_EQ(event.event_type, type);
  EXPECT_EQ(event.element.port_id, port);
}

class Owner {
 public:
  explicit Owner(Channel& channel) : memory_(4096) {
    segment_ = endpoint_.add(memory_.data(), memory_.size());
    channel.send(offer_of(endpoint_, segment_));
  }
  void receive() {
    endpoint_.post_receive(segment_, memory_.data(), memory_.size());
    EXPECT_EQ(wait_for(endpoint_.receive_jfc).status, URMA_CR_SUCCESS);
  }

 private:
  std::vector<char> memory_;
  OwnedEndpoint endpoint_;
  urma_target_seg_t* segment_;
};

class User {
 public:
  explicit User(const Config& config = {}) : endpoint_(config), memory_(4096) {
    segment_ = endpoint_.add(memory_.data(), memory_.size());
  }
  ~User() {
    if (endpoint_.wants_closing()) endpoint_.close();
  }
  urma_cr_status_t send(urma_target_jetty_t* queue) {
    urma_sge_t local = piece(segment_, memory_.data(), 8);
    endpoint_.post(send_request(queue, &local));
    return wait_for(endpoint_.send_jfc).status;
  }
  urma_cr_status_t add(const Offer& offer, urma_target_jetty_t* queue) {
    urma_target_seg_t* remote = endpoint_.import(offer.segment);
    urma_sge_t old = piece(segment_, memory_.data(), 8);
    urma_sge_t there = piece(remote, offer.segment.va, 8);
    endpoint_.post(add_request(queue, &old, &there, 1));
    return wait_for(endpoint_.send_jfc).status;
  }
  Endpoint& endpoint() { return endpoint_; }

 private:
  Endpoint endpoint_;
  std::vector<char> memory_;
  urma_target_seg_t* segment_;
};

// The processes of these directories of a test use loopback alone, or a list that begins with IPv6.
constexpr char kAlone[] = "alone", kIpv6First[] = "IPv6 first";

void live(const urma::tcp::Network& network, const std::string& directory) {
  network.enter();
  live_in(directory);
  if (directory == kAlone) ::setenv("URMA_TCP_DEVICES", "lo", 1);
  if (directory == kIpv6First) ::setenv("URMA_TCP_DEVICES", "fd99::1,10.99.0.1", 1);
}

// A runtime directory of the test.
struct Directory {
  Directory() { ::setenv("URMA_RUNTIME_DIR", scratch.path().c_str(), 1); }
  ~Directory() { ::unsetenv("URMA_RUNTIME_DIR"); }
  ScratchDir scratch;
};

class NetworksTest : public urma::tcp::TwoNetworks {
 protected:
  void meet(const std::string& one, const std::string& other, uint32_t streams) {
    meet(one, there_, other, streams);
  }
  void meet(const std::string& one, const urma::tcp::Network& there, const std::string& other,
            uint32_t streams) {
    Child owner("owner", [&](Channel& channel) {
      live(here_, one);
      Owner owning(channel);
      owning.receive();
      channel.sync();
    });
    const auto offer = owner.channel().receive<Offer>();
    Child user("user", [&](Channel&) {
      live(there, other);
      User here;
      urma_target_jetty_t* queue = here.endpoint().import(offer.queue);
      EXPECT_EQ(here.send(queue), URMA_CR_SUCCESS);
      EXPECT_EQ(here.add(offer, queue), URMA_CR_SUCCESS);
      EXPECT_EQ(connections(0).size(), streams);
    });
    user.expect_success();
    owner.channel().sync();
    owner.expect_success();
  }

  // Of the device in this directory.
  std::string eid_in(const std::string& directory) {
    Child asker("asker", [&](Channel& channel) {
      live(here_, directory);
      const OwnedEndpoint endpoint;
      channel.send(endpoint.ctx->eid);
    });
    const auto eid = asker.channel().receive<urma_eid_t>();
    asker.expect_success();
    return urma::text_of(eid);
  }

  const Directory directory_;
};

TEST_F(NetworksTest, TwoHostsMeetByTheNetwork) { meet("one", "other", 1); }

TEST_F(NetworksTest, ADirectoryIsEnoughAndFaster) { meet("one", "one", 0); }

// Both even listen at the same ports.
TEST_F(NetworksTest, ProcessesWithoutACommonNetworkMeetByMemory) {
  ip("link del wire");
  meet("one", "one", 0);
}

// Its address is that of every host, so the EID is the one that a directory has without a network.
TEST_F(NetworksTest, LoopbackIsAWayAndNoIdentity) {
  ip("link del wire");
  ::unsetenv("URMA_BOND");
  const std::string without = eid_in("one");
  ::setenv("URMA_BOND", "net0", 1);
  EXPECT_EQ(eid_in("one"), without);
  // Those of containers of one host may have one EID, or two.
  meet("one", here_, "other", 1);
  const std::string third = directory_.scratch.path() + "/third";
  std::filesystem::create_directory(third);
  std::ofstream(third + "/eids") << "fd00::1\nfd00::2\n";
  EXPECT_NE(eid_in("third"), without);
  meet("one", here_, "third", 1);
  meet("third", here_, "one", 1);
  meet("third", here_, "third", 0);
}

TEST_F(NetworksTest, AProcessOnLoopbackAndOneOfTheNetworkMeetOnTheirHost) {
  meet(kAlone, here_, "other", 1);
  meet("other", here_, kAlone, 1);
  meet(kAlone, here_, kIpv6First, 1);
  meet(kIpv6First, here_, kAlone, 1);
  meet(kAlone, here_, kAlone, 0);
}

// Without any address there is one device all the same.
TEST_F(NetworksTest, ProcessesWithoutANetworkMeetByMemory) {
  ip("link del wire");
  ip("link set lo down");
  meet("one", "one", 0);
}

TEST_F(NetworksTest, ALostNetworkIsALostPortAndNothingElseForNearPeers) {
  const auto own = [this](const urma::tcp::Network& network, const char* name, int messages) {
    return [&network, name, messages](Channel& channel) {
      network.enter();
      live_in(name);
      Owner owning(channel);
      for (int i = 0; i < messages; ++i) owning.receive();
      channel.sync();
    };
  };
  Child near("near", own(here_, "one", 3));
  Child far("far", own(there_, "other", 2));
  const auto near_offer = near.channel().receive<Offer>();
  const auto far_offer = far.channel().receive<Offer>();
  Child user("user", [&](Channel& channel) {
    here_.enter();
    live_in("one");
    Config config;
    config.jetty = false;
    User here(config);
    Endpoint& endpoint = here.endpoint();
    urma_target_jetty_t* near_queue = endpoint.import(near_offer.queue);
    urma_target_jetty_t* far_queue = endpoint.import(far_offer.queue);
    EXPECT_EQ(here.send(near_queue), URMA_CR_SUCCESS);
    EXPECT_EQ(here.send(far_queue), URMA_CR_SUCCESS);
    EXPECT_EQ(ports_of(endpoint).enabled_count, 2U);
    EXPECT_EQ(ports_of(endpoint).active_count, 2U);
    channel.sync();
    channel.sync();
    wait_for_port(endpoint.ctx, URMA_EVENT_PORT_DOWN, 1);
    const bondp_query_port_out_t ports = ports_of(endpoint);
    EXPECT_EQ(ports.enabled_count, 2U);
    ASSERT_EQ(ports.active_count, 1U);
    EXPECT_EQ(ports.active_indices[0], 0U);
    EXPECT_EQ(here.send(near_queue), URMA_CR_SUCCESS);
    EXPECT_EQ(here.send(far_queue), URMA_CR_ACK_TIMEOUT_ERR);
    channel.sync();
    channel.sync();
    wait_for_port(endpoint.ctx, URMA_EVENT_PORT_ACTIVE, 1);
    EXPECT_EQ(here.send(near_queue), URMA_CR_SUCCESS);
    const auto deadline = Clock::now() + patience(seconds(20));
    while (here.send(far_queue) != URMA_CR_SUCCESS) ASSERT_LT(Clock::now(), deadline);
    channel.sync();
  });
  user.channel().sync();
  ip("link set wire down");
  user.channel().sync();
  user.channel().sync();
  ip("link set wire up");
  user.channel().sync();
  user.channel().sync();
  user.expect_success();
  for (Child* child : {&near, &far}) {
    child->channel().sync();
    child->expect_success();
  }
}

// Wherever descriptors run out, the device can be opened later, and what it then tells goes to that
// context alone.
TEST_F(NetworksTest, AContextThatWasNotMadeHearsOfNothing) {
  Child user("user", [&](Channel& channel) {
    here_.enter();
    live_in("one");
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_device_t* device = find_device();
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    urma_context_t* ctx = nullptr;
    int failures = -1;
    for (rlim_t most = 4; ctx == nullptr && most < 200; ++most, ++failures) {
      const rlimit few = {most, before.rlim_max};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
      ctx = urma_create_context(device, 0);
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_NE(ctx, nullptr);
    EXPECT_GT(failures, 5);
    channel.sync();
    wait_for_port(ctx, URMA_EVENT_PORT_DOWN, 1);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
  user.channel().sync();
  ip("link set wire down");
  user.expect_success();
}

// Shared memory is port 0, so the eighth interface would be port 8.
TEST_F(NetworksTest, APortWithoutRoomRaisesNoEvent) {
  for (int i = 2; i <= MAX_PORT_CNT; ++i) {
    const std::string number = std::to_string(i);
    ip("link add more" + number + " type veth peer name erom" + number);
    ip("addr add 10.98." + number + ".1/24 dev more" + number);
    ip("link set more" + number + " up");
    ip("link set erom" + number + " up");
  }
  Child user("user", [&](Channel& channel) {
    here_.enter();
    live_in("one");
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_context_t* ctx = urma_create_context(find_device(), 0);
    ASSERT_NE(ctx, nullptr);
    channel.sync();
    wait_for_port(ctx, URMA_EVENT_PORT_DOWN, 7);
    channel.sync();
    wait_for_port(ctx, URMA_EVENT_PORT_ACTIVE, 7);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
  user.channel().sync();
  // Reported in the order of the interfaces, at once or one after the other.
  ip("link set more8 down");
  ip("link set more7 down");
  user.channel().sync();
  ip("link set more8 up");
  ip("link set more7 up");
  user.expect_success();
}

}  // namespace
}  // namespace urma_test
