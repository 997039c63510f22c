// SPDX-License-Identifier: MIT
//
// One process with hundreds of connections, each to another peer: what a peer costs, and whether
// all get their answers. The peers are one process that speaks the protocol by hand. The long form
// has a thousand.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/footprint.h"
#include "test/process/harness.h"
#include "test/process/soak.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what the peers speak

constexpr uint32_t kReceives = 1024;
constexpr uint32_t kRounds = 3;
constexpr uint32_t kWay = 1;
constexpr uint8_t kForEver = 7;
// Of more than 256 greetings, one that takes long has to make room: on a busy machine, it is one of
// these.
constexpr uint32_t kAtOnce = 200;
// A connection has a buffer of 64 KiB for what comes.
constexpr uint64_t kMostBytes = 100 << 10;

uint32_t peers() { return is_soak() ? 1000 : 200; }

// As many descriptors as this user may have. False if they are too few.
bool raise_descriptors() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= 2 * peers() + 100;
}

// What the peers cost the process that they connect to.
struct Cost {
  size_t descriptors;
  uint64_t bytes;
};

// Receives a number of each peer in each round, and serves the word that they all add to.
class Hub {
 public:
  Hub() : endpoint_(config()), memory_(kReceives + 1), next_(peers()) {
    segment_ = endpoint_.add(memory_.data(), memory_.size() * sizeof(memory_.front()));
    for (uint64_t place = 0; place < kReceives; ++place) post_receive(place);
  }
  static Config config() {
    Config config;
    config.receive_depth = kReceives;
    return config;
  }

  void serve(Channel& channel) {
    const size_t descriptors = count_descriptors();
    const Footprint before = take_footprint();
    channel.send(endpoint_.queue_id());
    channel.send(endpoint_.segment_id(segment_));
    receive_until_told(channel);
    const uint64_t now = take_footprint().resident_bytes;
    const uint64_t grown = now > before.resident_bytes ? now - before.resident_bytes : 0;
    channel.send(Cost{count_descriptors() - descriptors, grown});
    receive_until_told(channel);
    while (receive()) continue;
    EXPECT_EQ(received_, uint64_t{kRounds} * peers());
    EXPECT_EQ(memory_[kReceives], uint64_t{kRounds} * peers());
    channel.sync();
    // The peers have closed their connections.
    const auto deadline = Clock::now() + patience(seconds(20));
    while (count_descriptors() > descriptors) {
      ASSERT_LT(Clock::now(), deadline);
      receive();
    }
    channel.sync();
  }

 private:
  void receive_until_told(Channel& channel) {
    while (!channel.has_message()) {
      if (!receive()) ::sched_yield();
    }
    channel.receive<char>();
  }
  bool receive() {
    urma_cr_t record;
    if (urma_poll_jfc(endpoint_.receive_jfc, 1, &record) != 1) return false;
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    const uint64_t text = memory_[record.user_ctx];
    const uint64_t peer = text % peers();
    EXPECT_EQ(text / peers(), next_[peer]++) << "of peer " << peer;
    ++received_;
    post_receive(record.user_ctx);
    return true;
  }
  void post_receive(uint64_t place) {
    endpoint_.post_receive(segment_, &memory_[place], sizeof(uint64_t), place);
  }

  Endpoint endpoint_;
  std::vector<uint64_t> memory_;
  urma_target_seg_t* segment_;
  std::vector<uint64_t> next_;
  uint64_t received_ = 0;
  const Closing closing_{endpoint_};
};

// A peer with a stream of its own.
class Peer {
 public:
  explicit Peer(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  StreamState greet(std::string* why) { return finish_greeting(*stream_, why); }
  void ask(const QueueId& queue, const SegmentId& segment) {
    const AskGrantBody grant = {1,           segment.token_id, segment.token, URMA_ACCESS_ATOMIC,
                                segment.eid, segment.va,       segment.len};
    OpenWayBody way = way_to(queue, kWay);
    way.rnr_retry = kForEver;
    send_all(*stream_, frame(HelloBody{}) + frame(way) + frame(grant));
  }
  // Its two answers come in any order.
  void hear() {
    for (int i = 0; i < 2; ++i) {
      if (next_kind() == FrameKind::kAnswer) {
        const auto granted = body<AnswerBody>();
        EXPECT_EQ(granted.answer, 0U);
        ref_ = granted.ref;
      } else {
        EXPECT_EQ(head_.kind, FrameKind::kWayOpened);
        EXPECT_EQ(body<WayOpenedBody>().answer, 0U);
      }
    }
  }
  void send(uint64_t text, uint64_t counter) {
    const MessageBody message = {
        kWay, sizeof(text), 0, static_cast<uint8_t>(urma::MessageKind::kSend), urma::kWantsAnswer,
        {}};
    const AccessBody access = {
        ref_, counter, sizeof(text), URMA_OPC_FADD, static_cast<uint8_t>(urma::OpKind::kAtomic), 0};
    const uint64_t operands[4] = {1, 0, 0, 0};
    send_all(*stream_,
             frame(message, {reinterpret_cast<const char*>(&text), sizeof(text)}) +
                 frame(access, {reinterpret_cast<const char*>(operands), sizeof(operands)}));
  }
  // The two answers to that.
  void expect_answers() {
    for (int i = 0; i < 2; ++i) {
      if (next_kind() == FrameKind::kDone) {
        EXPECT_EQ(body<DoneBody>().status, 0U);
        receive(*stream_, sizeof(uint64_t));
      } else {
        EXPECT_EQ(head_.kind, FrameKind::kReceived);
        const auto received = body<ReceivedBody>();
        EXPECT_EQ(received.count, 1U);
        EXPECT_EQ(received.status, 0U);
      }
    }
  }

 private:
  // Skips what agrees to this stream, or asks whether this process lives.
  FrameKind next_kind() {
    do {
      const std::string bytes = receive(*stream_, sizeof(head_));
      if (bytes.size() < sizeof(head_)) throw std::runtime_error("a connection has ended");
      std::memcpy(&head_, bytes.data(), sizeof(head_));
      if (head_.kind == FrameKind::kPing) send_all(*stream_, frame(PongBody{}));
    } while (head_.kind == FrameKind::kPing || head_.kind == FrameKind::kHello);
    return head_.kind;
  }
  template <typename Body>
  Body body() {
    Body body = {};
    const std::string bytes = receive(*stream_, sizeof(body));
    if (bytes.size() == sizeof(body)) std::memcpy(&body, bytes.data(), sizeof(body));
    return body;
  }

  std::unique_ptr<Stream> stream_;
  Head head_ = {};
  urma::SegmentRef ref_ = {};
};

int64_t ms_since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count();
}

TEST(ManyPeers, AllGetTheirAnswers) {
  const ScratchDir scratch;
  ::setenv("URMA_RUNTIME_DIR", scratch.path().c_str(), 1);
  if (!raise_descriptors()) GTEST_SKIP() << "too few descriptors: raise ulimit -n";
  Child hub("hub", [](Channel& channel) { Hub().serve(channel); });
  const auto queue = hub.channel().receive<QueueId>();
  const auto segment = hub.channel().receive<SegmentId>();
  Stranger stranger(queue);

  const auto begin = Clock::now();
  std::vector<Peer> all;
  while (all.size() < peers()) {
    const size_t first = all.size();
    for (uint32_t i = 0; i < kAtOnce; ++i) all.emplace_back(stranger.begin());
    for (size_t i = first; i < all.size(); ++i) {
      std::string why;
      ASSERT_EQ(all[i].greet(&why), StreamState::kOpen) << why;
      all[i].ask(queue, segment);
    }
  }
  for (Peer& peer : all) peer.hear();
  const int64_t connected = ms_since(begin);
  const auto first = Clock::now();
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < peers(); ++i) {
      all[i].send(round * peers() + i, segment.va + kReceives * sizeof(uint64_t));
    }
    for (Peer& peer : all) peer.expect_answers();
  }
  const int64_t answered = ms_since(first);
  hub.channel().send('m');
  const auto cost = hub.channel().receive<Cost>();
  std::printf(
      "%u peers: connected in %lld ms, %u requests answered in %lld ms; each takes %.2f "
      "descriptors and %llu bytes\n",
      peers(), static_cast<long long>(connected), 2 * kRounds * peers(),
      static_cast<long long>(answered), static_cast<double>(cost.descriptors) / peers(),
      static_cast<unsigned long long>(cost.bytes / peers()));
  EXPECT_EQ(cost.descriptors, peers());
  EXPECT_LE(cost.bytes / peers(), kMostBytes);
  hub.channel().send('e');
  hub.channel().sync();
  all.clear();
  hub.channel().sync();
  hub.expect_success();
}

}  // namespace
}  // namespace urma_test
