// SPDX-License-Identifier: MIT
//
// Two hosts whose network changes under traffic: the cable between them is pulled out, and put in
// again; one gets another address.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/soak.h"
#include "test/tcp/networks.h"

namespace urma_test {
namespace {

constexpr uint32_t kMostLetters = 4096;
constexpr uint32_t kReceives = 64;
constexpr uint32_t kUnderWay = 16;
constexpr uint32_t kRequests = 200;
constexpr milliseconds kLimit{20000};

// What a receiver has seen.
struct Seen {
  std::array<uint8_t, kMostLetters> letters;  // how often each came
  uint32_t out_of_order;
  uint64_t additions;
};

urma_async_event_t wait_for(const urma_context_t* ctx, urma_async_event_type_t type) {
  const auto deadline = Clock::now() + patience(kLimit);
  urma_async_event_t event = {};
  do {
    pollfd raised = {ctx->async_fd, POLLIN, 0};
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw std::runtime_error("no event " + std::to_string(type));
    if (::poll(&raised, 1, static_cast<int>(left)) != 1) continue;
    EXPECT_EQ(urma_get_async_event(const_cast<urma_context_t*>(ctx), &event), URMA_SUCCESS);
    urma_ack_async_event(&event);
  } while (event.event_type != type);
  return event;
}

void wait_for_port(const urma_context_t* ctx, urma_async_event_type_t type) {
  EXPECT_EQ(wait_for(ctx, type).element.port_id, 0U);
}

// Receives letters, and has a counter that the peer adds to.
class Host {
 public:
  Host() : endpoint(config()), room_(2 * kReceives + 2) { begin(); }
  // With a context of another EID.
  void move_to(uint32_t eid_index) {
    endpoint.close_queues();
    ::setenv("URMA_EID_INDEX", std::to_string(eid_index).c_str(), 1);
    endpoint.open_queues();
    begin();
  }
  static Config config() {
    Config config;
    config.receive_depth = kReceives;
    return config;
  }
  Offer offer() const { return offer_of(endpoint, segment); }

  // False if there is none.
  bool receive() {
    urma_cr_t record;
    if (urma_poll_jfc(endpoint.receive_jfc, 1, &record) != 1) return false;
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    const auto letter = static_cast<uint32_t>(room_[record.user_ctx]);
    ++seen_.letters.at(letter);
    if (letter < next_) ++seen_.out_of_order;
    next_ = letter + 1;
    post_receive(static_cast<uint32_t>(record.user_ctx));
    return true;
  }
  const Seen& seen() {
    seen_.additions = room_[kCounter];
    return seen_;
  }
  void* letter(uint32_t slot) { return &room_[kReceives + slot]; }
  void* old_value() { return &room_[kCounter + 1]; }
  static constexpr size_t kCounter = 2 * kReceives;

  Endpoint endpoint;
  urma_target_seg_t* segment;

 private:
  void begin() {
    segment = endpoint.add(room_.data(), room_.size() * sizeof(uint64_t));
    for (uint32_t place = 0; place < kReceives; ++place) post_receive(place);
  }
  void post_receive(uint32_t place) {
    endpoint.post_receive(segment, &room_[place], sizeof(uint64_t), place);
  }

  std::vector<uint64_t> room_;
  Seen seen_ = {};
  uint32_t next_ = 0;
  const Closing closing_{endpoint};
};

// Sends numbered letters to a peer, and adds to its counter, by turns.
class Traffic {
 public:
  Traffic(Host* host, const Offer& peer) : host_(host) {
    queue_ = host->endpoint.import(peer.queue);
    remote_ = host->endpoint.import(peer.segment);
  }

  void post_more(uint32_t requests) {
    for (uint32_t i = 0; i < requests; ++i) post();
  }
  // Ends the oldest request.
  bool end_one() {
    const auto deadline = Clock::now() + patience(kLimit);
    urma_cr_t record;
    while (urma_poll_jfc(host_->endpoint.send_jfc, 1, &record) != 1) {
      host_->receive();
      if (Clock::now() > deadline) throw std::runtime_error("a request did not end");
      ::sched_yield();
    }
    EXPECT_EQ(record.user_ctx, ended_);
    EXPECT_TRUE(record.status == URMA_CR_SUCCESS || record.status == URMA_CR_ACK_TIMEOUT_ERR)
        << record.status;
    const bool done = record.status == URMA_CR_SUCCESS;
    failed_ += done ? 0 : 1;
    if (ended_ % 2 == 0) {
      delivered_.push_back({static_cast<uint32_t>(ended_ / 2), done});
    } else {
      (done ? added_ : maybe_added_) += 1;
    }
    ++ended_;
    return done;
  }
  uint64_t failed() const { return failed_; }
  // The number of those that were done.
  uint64_t end_all() {
    uint64_t done = 0;
    while (ended_ < posted_) done += end_one() ? 1 : 0;
    return done;
  }
  // Leaves requests in flight.
  void run() {
    for (uint32_t i = 0; i < kRequests; ++i) {
      if (posted_ < ended_ + kUnderWay) post_more(kUnderWay);
      ASSERT_TRUE(end_one());
    }
  }
  // Posts until a request reaches the peer.
  void reach() {
    const auto deadline = Clock::now() + patience(kLimit);
    do {
      ASSERT_LT(Clock::now(), deadline);
      post();
    } while (end_all() == 0);
  }

  // Each request was executed once if it succeeded, and never twice.
  void check(const Seen& seen) const {
    for (const auto& [letter, done] : delivered_) {
      EXPECT_LE(seen.letters[letter], 1) << letter;
      EXPECT_TRUE(!done || seen.letters[letter] == 1) << letter << " was not received";
    }
    EXPECT_EQ(seen.out_of_order, 0U);
    EXPECT_GE(seen.additions, added_);
    EXPECT_LE(seen.additions, added_ + maybe_added_);
  }

 private:
  struct Delivery {
    uint32_t letter;
    bool done;
  };

  void post() {
    if (posted_ % 2 == 0) {
      const auto letter = static_cast<uint32_t>(posted_ / 2);
      void* const place = host_->letter(letter % kReceives);
      const uint64_t text = letter;
      std::memcpy(place, &text, sizeof(text));
      urma_sge_t local = piece(host_->segment, place, sizeof(text));
      host_->endpoint.post(send_request(queue_, &local, posted_));
    } else {
      urma_sge_t old = piece(host_->segment, host_->old_value(), sizeof(uint64_t));
      urma_sge_t counter = piece(remote_, remote_->seg.ubva.va + Host::kCounter * sizeof(uint64_t),
                                 sizeof(uint64_t));
      host_->endpoint.post(add_request(queue_, &old, &counter, 1, posted_));
    }
    ++posted_;
  }

  Host* const host_;
  urma_target_jetty_t* queue_;
  urma_target_seg_t* remote_;
  uint64_t posted_ = 0;
  uint64_t ended_ = 0;
  uint64_t failed_ = 0;
  std::vector<Delivery> delivered_;
  uint64_t added_ = 0;
  uint64_t maybe_added_ = 0;
};

// Which end of the cable is switched, as seen by the one who sends.
enum class End { kOwn, kOther };

class TwoHosts : public urma::tcp::TwoNetworks {
 protected:
  // Hosts share no folder.
  void be_on(const urma::tcp::Network& network, const char* name) const {
    network.enter();
    ::setenv("URMA_RUNTIME_DIR", (scratch_.path() + "/" + name).c_str(), 1);
  }

 private:
  ScratchDir scratch_;
};

class OutageTest : public TwoHosts, public testing::WithParamInterface<End> {
 protected:
  void set_timeout(const char* ms) { ::setenv("URMA_TCP_TIMEOUT_MS", ms, 1); }
  void set_link(const char* state) const {
    const bool own = GetParam() == End::kOwn;
    (own ? here_ : there_).enter();
    urma::tcp::ip(std::string("link set ") + (own ? "wire " : "eriw ") + state);
    here_.enter();
  }

  // Receives on the other host until told to end; then tells what it has seen. It reaches the
  // sender before the outage, and after it.
  Body receiver() const {
    return [this](Channel& channel) {
      be_on(there_, "there");
      Host host;
      channel.send(host.offer());
      Traffic back(&host, channel.receive<Offer>());
      back.reach();
      channel.sync();
      while (!channel.has_message()) {
        host.receive();
        ::sched_yield();
      }
      channel.receive<char>();
      while (host.receive()) continue;
      channel.send(host.seen());
      back.reach();
      channel.sync();
    };
  }
  // Has the sender meet the receiver, and switches the link when the sender asks for it.
  void run(const Body& sender) {
    Child other("receiver", receiver());
    Child child("sender", sender);
    introduce<Offer>(child, other);
    other.channel().sync();
    for (const char* state : {"down", "up"}) {
      child.channel().sync();
      set_link(state);
      child.channel().sync();
    }
    child.channel().sync();
    other.channel().send('e');
    child.channel().send(other.channel().receive<Seen>());
    other.channel().sync();
    child.channel().sync();
    child.expect_success();
    other.expect_success();
  }
};

// The end of a sender.
void compare(Channel& channel, Host& host, const Traffic& traffic) {
  channel.sync();
  traffic.check(channel.receive<Seen>());
  channel.sync();
  while (host.receive()) continue;
  EXPECT_EQ(host.seen().out_of_order, 0U);
}

TEST_P(OutageTest, AShortOneIsNotNoticed) {
  set_timeout("60000");
  run([this](Channel& channel) {
    be_on(here_, "here");
    Host host;
    Traffic traffic(&host, channel.swap(host.offer()));
    traffic.run();
    channel.sync();
    channel.sync();
    wait_for_port(host.endpoint.ctx, URMA_EVENT_PORT_DOWN);
    // Those from before may have been answered; these were not.
    traffic.post_more(kUnderWay);
    channel.sync();
    channel.sync();
    wait_for_port(host.endpoint.ctx, URMA_EVENT_PORT_ACTIVE);
    traffic.run();
    traffic.end_all();
    EXPECT_EQ(traffic.failed(), 0U);
    compare(channel, host, traffic);
  });
}

TEST_P(OutageTest, ALongOneEndsRequestsInTime) {
  // Long enough for peers that share two processors with others.
  static constexpr milliseconds kTimeout{3000};
  set_timeout("3000");
  run([this](Channel& channel) {
    be_on(here_, "here");
    Host host;
    Traffic traffic(&host, channel.swap(host.offer()));
    traffic.run();
    traffic.end_all();
    EXPECT_EQ(traffic.failed(), 0U);
    channel.sync();
    channel.sync();
    wait_for_port(host.endpoint.ctx, URMA_EVENT_PORT_DOWN);
    const auto posted = Clock::now();
    traffic.post_more(kUnderWay);
    EXPECT_EQ(traffic.end_all(), 0U);
    EXPECT_LT(Clock::now() - posted, promised(2 * kTimeout));
    channel.sync();
    channel.sync();
    wait_for_port(host.endpoint.ctx, URMA_EVENT_PORT_ACTIVE);
    traffic.reach();
    const uint64_t failed = traffic.failed();
    traffic.run();
    traffic.end_all();
    EXPECT_EQ(traffic.failed(), failed);
    compare(channel, host, traffic);
  });
}

std::string name_of(const testing::TestParamInfo<End>& info) {
  return info.param == End::kOwn ? "OwnEnd" : "OtherEnd";
}

std::vector<urma_eid_info_t> eids_of(const urma_context_t* ctx) {
  uint32_t count = 0;
  urma_eid_info_t* const list = urma_get_eid_list(ctx->dev, &count);
  std::vector<urma_eid_info_t> eids(list, list + count);
  urma_free_eid_list(list);
  return eids;
}

// The cable may have been put in just now.
void exchange(Traffic& traffic) {
  traffic.reach();
  const uint64_t failed = traffic.failed();
  traffic.run();
  traffic.end_all();
  EXPECT_EQ(traffic.failed(), failed);
}

void receive_until_both_are_done(Channel& channel, Host& host) {
  channel.send('d');
  while (!channel.has_message()) {
    host.receive();
    ::sched_yield();
  }
  channel.receive<char>();
}

class AddressTest : public TwoHosts {};

// It is an EID like the others: peers reach what is made on it, and it reaches them.
TEST_F(AddressTest, AProgramUsesOneThatCameLater) {
  Child other("there", [this](Channel& channel) {
    be_on(there_, "there");
    Host host;
    const auto before = static_cast<uint32_t>(eids_of(host.endpoint.ctx).size());
    urma::tcp::ip("addr add 10.99.0.3/24 dev eriw");
    const auto event = wait_for(host.endpoint.ctx, URMA_EVENT_EID_CHANGE);
    EXPECT_EQ(event.element.eid_idx, before);
    const auto eids = eids_of(host.endpoint.ctx);
    ASSERT_EQ(eids.size(), before + 1);
    EXPECT_EQ(eids[before].eid_index, before);
    urma_device_attr_t attr = {};
    ASSERT_EQ(urma_query_device(host.endpoint.ctx->dev, &attr), URMA_SUCCESS);
    EXPECT_GE(attr.dev_cap.max_eid_cnt, before + 1);

    host.move_to(before);
    EXPECT_EQ(std::memcmp(&host.endpoint.ctx->eid, &eids[before].eid, sizeof(urma_eid_t)), 0);
    EXPECT_EQ(urma_get_device_by_eid(eids[before].eid, URMA_TRANSPORT_UB), host.endpoint.ctx->dev);
    Traffic back(&host, channel.swap(host.offer()));
    exchange(back);
    receive_until_both_are_done(channel, host);
  });
  Child child("here", [this](Channel& channel) {
    be_on(here_, "here");
    Host host;
    Traffic traffic(&host, channel.swap(host.offer()));
    exchange(traffic);
    receive_until_both_are_done(channel, host);
  });
  introduce<Offer>(child, other);
  for (Child* one : {&child, &other}) one->channel().receive<char>();
  for (Child* one : {&child, &other}) one->channel().send('e');
  child.expect_success();
  other.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Pulled, OutageTest, testing::Values(End::kOwn, End::kOther), name_of);

}  // namespace
}  // namespace urma_test
