// SPDX-License-Identifier: MIT
//
// A process is killed in the middle of traffic, repeatedly, at random points. Its peers learn of it
// at once, go on with others, and keep nothing of the dead process.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 1 << 20;
constexpr int kRounds = 20;
constexpr uint64_t kInFlight = 8;
constexpr uint64_t kReceives = 48;
// From a death until all know of it. Over a network it may take URMA_VERBS_TIMEOUT_MS of silence,
// and then the device.
milliseconds limit() { return promised(over_shared_memory() ? seconds(1) : seconds(3)); }
// Until all requests to it have ended: over TCP, the kernel of its host says so at once.
milliseconds limit_of_requests() {
  const char* const device = std::getenv("URMA_DEVICE");
  const bool tcp = device != nullptr && std::string(device) == "urma_net0";
  return tcp ? promised(milliseconds(100)) : limit();
}

enum class Traffic { kOneSided, kTwoSided, kBothDirections };

// What the survivor reports per round.
struct Report {
  int64_t first_error;  // time of the first request that failed
  int64_t last_error;   // time of the last request in flight
};

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

bool has_atomics(urma_context_t* ctx) {
  urma_device_attr_t attr = {};
  EXPECT_EQ(urma_query_device(ctx->dev, &attr), URMA_SUCCESS);
  return attr.dev_cap.max_cas_size != 0;
}

// A process with memory, queues and posted receives.
struct Party {
  Party() : endpoint(config()), memory(2 * kSize, 'p') {
    segment = endpoint.add(memory.data(), memory.size());
    for (uint64_t i = 0; i < kReceives; ++i) post_receive();
  }
  static Config config() {
    Config config;
    config.receive_depth = kReceives;
    return config;
  }
  Offer offer() { return offer_of(endpoint, segment); }
  void post_receive() { endpoint.post_receive(segment, memory.data(), kSize); }
  void send(urma_target_jetty_t* queue, size_t size) {
    urma_sge_t here = piece(segment, memory.data() + kSize, size);
    endpoint.post(send_request(queue, &here));
  }
  // Handles what has arrived and posts as many receives again; returns whether `sender` was among
  // the senders.
  bool receive_from(uint32_t sender) {
    urma_cr_t crs[16];
    const int n = urma_poll_jfc(endpoint.receive_jfc, 16, crs);
    EXPECT_GE(n, 0);
    bool found = false;
    for (int i = 0; i < n; ++i) {
      found |= crs[i].status == URMA_CR_SUCCESS && crs[i].remote_id.id == sender;
      post_receive();
    }
    return found;
  }
  void wait_for_message_of(uint32_t sender) {
    const auto deadline = Clock::now() + patience(seconds(30));
    while (!receive_from(sender)) {
      ASSERT_LT(Clock::now(), deadline);
      ::sched_yield();
    }
  }

  Endpoint endpoint;
  std::vector<uint8_t> memory;
  urma_target_seg_t* segment = nullptr;
  const Closing closing{endpoint};
};

// Answers one message of the survivor per round.
void third(Channel& channel) {
  Party party;
  const Offer survivor = channel.swap(party.offer());
  urma_target_jetty_t* queue = party.endpoint.import(survivor.queue);
  for (int round = 0; round < kRounds; ++round) {
    begin_round();
    party.wait_for_message_of(survivor.queue.id);
    party.send(queue, 1000);
    wait_for_success(party.endpoint.send_jfc, 0);
  }
  channel.sync();
}

// Takes part in the traffic until it is killed.
Body victim(Traffic traffic) {
  return [traffic](Channel& channel) {
    Party party;
    const Offer survivor = channel.swap(party.offer());
    urma_target_jetty_t* queue = party.endpoint.import(survivor.queue);
    if (traffic == Traffic::kOneSided) channel.receive<char>();
    for (uint64_t i = 0;; ++i) {
      party.receive_from(survivor.queue.id);
      ::sched_yield();
      if (traffic == Traffic::kBothDirections) {
        party.send(queue, i % 10 == 0 ? kSize : 64);
        while (has_nothing(party.endpoint.send_jfc)) party.receive_from(survivor.queue.id);
      }
    }
  };
}

class Survivor {
 public:
  Survivor(Channel& channel, Traffic traffic) : channel_(channel), traffic_(traffic) {}

  void run() {
    const Offer friendly = channel_.swap(party_.offer());
    urma_target_jetty_t* friend_queue = party_.endpoint.import(friendly.queue);
    for (int round = 0; round < kRounds; ++round) {
      begin_round();
      outlive_one();
      party_.send(friend_queue, 1000);
      wait_for_success(party_.endpoint.send_jfc, 0);
      party_.wait_for_message_of(friendly.queue.id);
    }
    channel_.sync();
    party_.endpoint.close();
  }

 private:
  // Tells the parent when to kill the victim, and goes on until requests fail.
  void outlive_one() {
    channel_.send(party_.offer());
    const Offer offer = channel_.receive<Offer>();
    const uint64_t requests = channel_.receive<uint64_t>();
    queue_ = party_.endpoint.import(offer.queue);
    remote_ = party_.endpoint.import(offer.segment);

    urma_cr_status_t status = URMA_CR_SUCCESS;
    uint64_t posted = 0, done = 0;
    for (; status == URMA_CR_SUCCESS; ++done) {
      while (posted < done + kInFlight) post(posted++);
      if (done == requests) channel_.send('k');
      status = next_status();
    }
    Report report = {now_ns(), 0};
    EXPECT_EQ(status, URMA_CR_ACK_TIMEOUT_ERR);
    post(posted++);
    for (; done < posted; ++done) EXPECT_EQ(next_status(), URMA_CR_ACK_TIMEOUT_ERR);
    report.last_error = now_ns();
    EXPECT_TRUE(has_nothing(party_.endpoint.send_jfc));
    party_.endpoint.unimport(queue_);
    party_.endpoint.unimport(remote_);
    channel_.send(report);
    channel_.sync();
  }

  void post(uint64_t i) {
    const size_t size = i % 10 == 0 ? kSize : 64;
    if (traffic_ != Traffic::kOneSided) return party_.send(queue_, size);
    urma_sge_t here = piece(party_.segment, party_.memory.data() + kSize, size);
    urma_sge_t there = piece(remote_, remote_->seg.ubva.va, size);
    if (i % 3 == 0) return party_.endpoint.post(write_request(queue_, &here, &there));
    if (i % 3 == 1) return party_.endpoint.post(read_request(queue_, &here, &there));
    if (!has_atomics_) return party_.endpoint.post(write_request(queue_, &here, &there));
    here.len = there.len = 8;
    party_.endpoint.post(add_request(queue_, &here, &there, 1));
  }

  urma_cr_status_t next_status() {
    const auto deadline = Clock::now() + patience(seconds(10));
    urma_cr_t cr = {};
    while (urma_poll_jfc(party_.endpoint.send_jfc, 1, &cr) == 0) {
      if (traffic_ == Traffic::kBothDirections) party_.receive_from(0);
      if (Clock::now() > deadline) throw std::runtime_error("a request did not complete");
      ::sched_yield();
    }
    return cr.status;
  }

  Channel& channel_;
  Traffic traffic_;
  Party party_;
  const bool has_atomics_ = has_atomics(party_.endpoint.ctx);
  urma_target_jetty_t* queue_ = nullptr;
  urma_target_seg_t* remote_ = nullptr;
};

using DeadPeerTest = ProcessTest;

urma_status_t enter(urma_jetty_t* jetty, urma_jetty_state_t state) {
  urma_jetty_attr_t attr = {JETTY_STATE, 0, state};
  return urma_modify_jetty(jetty, &attr);
}

// Nobody has tried to send it.
TEST_F(DeadPeerTest, WhatASuspendedQueueIsGivenAfterwardsIsFlushed) {
  Child victim("victim", [](Channel& channel) {
    Endpoint endpoint;
    std::vector<char> memory(kSize);
    endpoint.post_receive(endpoint.add(memory.data(), kSize), memory.data(), kSize);
    channel.send(endpoint.queue_id());
    channel.receive<char>();
  });
  Child survivor("survivor", [](Channel& channel) {
    Party party;
    Endpoint& endpoint = party.endpoint;
    urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
    for (int i = 0; i < 2; ++i) party.send(queue, 64);
    wait_for_success(endpoint.send_jfc, 0);
    channel.sync();
    wait_for_status(endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
    EXPECT_EQ(enter(endpoint.jetty, URMA_JETTY_STATE_SUSPENDED), URMA_SUCCESS);
    wait_for_status(endpoint.send_jfc, URMA_CR_WR_SUSPEND_DONE);
    party.send(queue, 64);
    EXPECT_EQ(enter(endpoint.jetty, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
    wait_for_status(endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR);
    wait_for_status(endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR_DONE);
    endpoint.unimport(queue);
  });
  survivor.channel().send(victim.channel().receive<QueueId>());
  // The second message is in flight: it has no receive.
  survivor.channel().sync();
  victim.kill();
  survivor.expect_success();
}

class KillTest : public ProcessTest, public ::testing::WithParamInterface<Traffic> {
 protected:
  KillTest() { wait_long_for_answers(); }

  void kill_one(Child& survivor, std::mt19937& random) {
    const std::vector<std::string> others = runtime_entries();
    Child dying("victim", victim(GetParam()));
    const Offer offer = dying.channel().receive<Offer>();
    const std::vector<std::string> before = runtime_entries();
    dying.channel().send(survivor.channel().receive<Offer>());
    survivor.channel().send(offer);
    survivor.channel().send<uint64_t>(random() % 200);

    survivor.channel().receive<char>();
    const auto moment = Clock::now() + std::chrono::microseconds(random() % 2000);
    while (Clock::now() < moment) continue;
    const int64_t killed = now_ns();
    dying.kill();
    expect_gone(before, others);
    const auto report = survivor.channel().receive<Report>();
    const int64_t most = std::chrono::nanoseconds(limit_of_requests()).count();
    EXPECT_LT(report.first_error - killed, most);
    EXPECT_LT(report.last_error - killed, most);
    survivor.channel().sync();
  }

  // Nothing that came with the dead process may remain.
  void expect_gone(const std::vector<std::string>& before, const std::vector<std::string>& others) {
    std::vector<std::string> its;
    std::set_difference(before.begin(), before.end(), others.begin(), others.end(),
                        std::back_inserter(its));
    EXPECT_FALSE(its.empty());
    const auto deadline = Clock::now() + limit();
    for (const std::string& name : its) {
      while (true) {
        const std::vector<std::string> entries = runtime_entries();
        if (!std::binary_search(entries.begin(), entries.end(), name)) break;
        ASSERT_LT(Clock::now(), deadline) << name << " is still there";
        ::sched_yield();
      }
    }
  }
};

TEST_P(KillTest, SurvivorContinues) {
  std::mt19937 random(12345 + static_cast<uint32_t>(GetParam()));
  Child survivor("survivor", [](Channel& channel) { Survivor(channel, GetParam()).run(); });
  Child bystander("third", third);
  introduce<Offer>(survivor, bystander);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    kill_one(survivor, random);
  }
  if (!HasFailure()) {
    survivor.channel().sync();
    bystander.channel().sync();
  }
  survivor.expect_success();
  bystander.expect_success();
}

std::string name_of(const ::testing::TestParamInfo<Traffic>& info) {
  const char* const names[] = {"OneSided", "TwoSided", "BothDirections"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, KillTest,
                         ::testing::Values(Traffic::kOneSided, Traffic::kTwoSided,
                                           Traffic::kBothDirections),
                         name_of);

}  // namespace
}  // namespace urma_test
