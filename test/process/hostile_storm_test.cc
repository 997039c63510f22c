// SPDX-License-Identifier: MIT
//
// A process with queues and segments, an honest peer that uses them, and a hostile one that attacks
// (hostile_program.cc): rings, the control socket, descriptors and memory. URMA_TEST_SEED repeats a
// run; URMA_SOAK=1 runs many.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/hostile_orders.h"
#include "test/process/mapping_party.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr milliseconds kWindow{100};
constexpr int kWindows = 9;  // of each kind
// No peer delays a call for longer, whatever it does; docs/reference/security.md.
constexpr seconds kLongestWait{4};

uint64_t seed_of(int round) {
  const char* given = std::getenv("URMA_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10)
                                         : std::random_device()() + static_cast<uint64_t>(round);
  std::printf("URMA_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// The hostile peer and the victim's thread that answers it keep to one processor, the honest work
// to another: what the storm does to others is measured, not how four threads share processors.
// With only one, all share it.
enum class Side { kHonest, kStorm };

// Those that this process may use when it first asks.
const std::vector<int>& processors() {
  static const std::vector<int> all = [] {
    cpu_set_t set;
    EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
    std::vector<int> found;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) found.push_back(i);
    }
    return found;
  }();
  return all;
}

void keep_to(pid_t thread, Side side) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(side == Side::kHonest ? processors().front() : processors().back(), &one);
  // A thread may have ended meanwhile.
  EXPECT_TRUE(::sched_setaffinity(thread, sizeof(one), &one) == 0 || errno == ESRCH);
}

void keep_other_threads_to(Side side) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(entry.path().filename());
    if (thread != ::gettid()) keep_to(thread, side);
  }
}

int rounds() { return is_soak() ? 40 : 1; }

// Pages between two inaccessible ones: those granted to peers and those that are not.
class Fenced {
 public:
  static constexpr size_t kGranted = 2 * kPage, kOwn = 2 * kPage;

  Fenced() {
    const size_t bytes = kGranted + kOwn + 2 * kPage;
    void* all = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    data_ = static_cast<char*>(all) + kPage;
    EXPECT_EQ(::mprotect(data_, kGranted + kOwn, PROT_READ | PROT_WRITE), 0);
    std::fill_n(own(), kOwn, 'o');
  }
  char* granted() const { return data_; }
  char* own() const { return data_ + kGranted; }
  bool untouched() const {
    return std::all_of(own(), own() + kOwn, [](char byte) { return byte == 'o'; });
  }

 private:
  char* data_;
};

// Receives messages until told to stop.
void be_victim(Channel& channel) {
  Endpoint endpoint;
  const Fenced remote, inbox;
  urma_target_seg_t* offered = endpoint.add(remote.granted(), Fenced::kGranted);
  urma_target_seg_t* segment = endpoint.add(inbox.granted(), Fenced::kGranted);
  keep_to(0, Side::kHonest);
  keep_other_threads_to(Side::kStorm);
  const auto post = [&] { endpoint.post_receive(segment, inbox.granted(), Fenced::kGranted); };
  for (uint32_t i = 0; i < endpoint.config.receive_depth; ++i) post();
  channel.send(offer_of(endpoint, offered));
  Clock::duration longest = {};
  while (!channel.has_message()) {
    for (int turn = 0; turn < 1000; ++turn) {
      urma_cr_t records[16];
      const auto begun = Clock::now();
      const int got = urma_poll_jfc(endpoint.receive_jfc, 16, records);
      longest = std::max(longest, Clock::now() - begun);
      ASSERT_GE(got, 0);
      for (int i = 0; i < got; ++i) post();
      // Else others wait for whole time slices when there are few processors.
      if (got == 0) ::sched_yield();
    }
  }
  channel.sync();
  EXPECT_LT(longest, promised(kLongestWait));
  EXPECT_TRUE(remote.untouched());
  EXPECT_TRUE(inbox.untouched());
  endpoint.close();
}

void expect_done(urma_jfc_t* jfc, uint64_t user_ctx) {
  const auto deadline = Clock::now() + patience(seconds(10));
  urma_cr_t record;
  while (urma_poll_jfc(jfc, 1, &record) == 0) {
    ASSERT_LT(Clock::now(), deadline) << "an honest peer is not served";
    ::sched_yield();
  }
  ASSERT_EQ(record.status, URMA_CR_SUCCESS);
  ASSERT_EQ(record.user_ctx, user_ctx);
}

// As many messages and reads as time allows, repeatedly.
void be_honest(Channel& channel) {
  const auto offer = channel.receive<Offer>();
  keep_to(0, Side::kHonest);
  std::vector<char> memory(4096, 'h');
  OwnedEndpoint endpoint;
  urma_target_seg_t* local = endpoint.add(memory.data(), memory.size());
  urma_target_jetty_t* queue = endpoint.import(offer.queue);
  urma_target_seg_t* remote = endpoint.import(offer.segment);
  urma_sge_t here = piece(local, memory.data(), 8);
  urma_sge_t there = piece(remote, offer.segment.va, 8);
  for (;;) {
    const auto window = channel.receive<milliseconds>();
    if (window == milliseconds(0)) break;
    uint32_t done = 0;
    for (const auto end = Clock::now() + window; Clock::now() < end; ++done) {
      endpoint.post(send_request(queue, &here, 1));
      expect_done(endpoint.send_jfc, 1);
      endpoint.post(read_request(queue, &here, &there, 2));
      expect_done(endpoint.send_jfc, 2);
    }
    channel.send(done);
  }
}

class Hostile {
 public:
  explicit Hostile(const HostileAim& aim) {
    auto [mine, its] = Channel::pair();
    EXPECT_EQ(::fcntl(its.fd(), F_SETFD, 0), 0);
    channel_ = std::move(mine);
    child_ = std::make_unique<Child>(
        "hostile",
        std::vector<std::string>{std::getenv("HOSTILE_PROGRAM"), std::to_string(its.fd())});
    keep_to(child_->pid(), Side::kStorm);
    channel_.send(aim);
  }
  // Returns when it begins.
  void order(HostileOrder what) { channel_.swap(what); }
  HostileReport end() {
    channel_.send(HostileOrder::kEnd);
    const auto report = channel_.receive<HostileReport>();
    child_->expect_success();
    return report;
  }

 private:
  Channel channel_;
  std::unique_ptr<Child> child_;
};

uint32_t median(std::vector<uint32_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class HostileStormTest : public ProcessTest {
 protected:
  // Windows with and without the attack alternate, so that other load on the machine affects both.
  // In those without it, the hostile peer keeps a processor just as busy. True if the honest peer
  // keeps at least `percent` of its speed.
  bool compare(Hostile* hostile, Child* honest, HostileOrder attack, const char* name,
               uint32_t percent) {
    std::vector<uint32_t> calm, stormy;
    const auto window = [&](HostileOrder order, std::vector<uint32_t>* done) {
      hostile->order(order);
      honest->channel().send(kWindow);
      done->push_back(honest->channel().receive<uint32_t>());
    };
    for (int i = 0; i < kWindows; ++i) {
      window(HostileOrder::kBurn, &calm);
      window(attack, &stormy);
    }
    std::printf("%s: %u rounds of the honest peer in %d ms, %u beside a busy process\n", name,
                median(stormy), static_cast<int>(kWindow.count()), median(calm));
    return kSanitized || 100 * median(stormy) >= percent * median(calm);
  }
  // Other load on the machine can spoil a comparison or two.
  void expect_fair(Hostile* hostile, Child* honest, HostileOrder attack, const char* name,
                   uint32_t percent) {
    bool fair = false;
    for (int attempt = 0; attempt < 3 && !fair; ++attempt) {
      fair = compare(hostile, honest, attack, name, percent);
    }
    EXPECT_TRUE(fair) << name << ": the honest peer has less than " << percent << "% of its speed";
  }

  void storm(uint64_t seed) {
    SCOPED_TRACE("URMA_TEST_SEED=" + std::to_string(seed));
    Child victim("victim", be_victim);
    const auto offer = victim.channel().receive<Offer>();
    Child honest("honest", be_honest);
    honest.channel().send(offer);
    Hostile hostile({offer.queue.eid, offer.queue.id, offer.segment.token_id, offer.segment.va,
                     offer.segment.len, seed});
    expect_fair(&hostile, &honest, HostileOrder::kAttack, "attack", 50);
    // A single processor is the storm's too.
    expect_fair(&hostile, &honest, HostileOrder::kFlood, "flood",
                processors().size() > 1 ? 75 : 50);
    hostile.order(HostileOrder::kRest);
    honest.channel().send(milliseconds(0));
    honest.expect_success();
    victim.channel().sync();
    victim.expect_success();
    const HostileReport report = hostile.end();
    std::printf("%llu attacks, %llu requests accepted, %llu refused\n",
                static_cast<unsigned long long>(report.attacks),
                static_cast<unsigned long long>(report.accepted),
                static_cast<unsigned long long>(report.refused));
    EXPECT_GT(report.accepted, 0U);
    EXPECT_GT(report.refused, 0U);
  }
};

TEST_F(HostileStormTest, VictimLivesAndServesTheHonest) {
  for (int round = 0; round < rounds() && !HasFailure(); ++round) storm(seed_of(round));
}

}  // namespace
}  // namespace urma_test
