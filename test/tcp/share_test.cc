// SPDX-License-Identifier: MIT
//
// What peers may take of a process: a share of its descriptors and memory. The program keeps the
// rest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "test/process/soak.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

constexpr size_t kMiB = 1 << 20;

void limit(int resource, rlim_t most) {
  const rlimit both = {most, most};
  ASSERT_EQ(::setrlimit(static_cast<__rlimit_resource>(resource), &both), 0);
}

constexpr char kGoOn = 'g', kLook = 'l';

// Serves a queue with one receive, until it is told to look around. What strangers do takes long on
// a busy machine: each kGoOn gives more time.
void serve(Channel& channel, const std::function<void()>& look) {
  OwnedEndpoint endpoint;
  std::vector<char> memory(2 * kMiB);
  endpoint.post_receive(endpoint.add(memory.data(), memory.size()), memory.data(), memory.size());
  channel.send(endpoint.queue_id());
  while (channel.receive<char>() == kGoOn) begin_round();
  look();
}

// Descriptors, until its end.
class Opened {
 public:
  ~Opened() {
    for (const int fd : fds_) ::close(fd);
  }
  bool one_more() {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) fds_.push_back(fd);
    return fd >= 0;
  }

 private:
  std::vector<int> fds_;
};

class ShareTest : public ProcessTest {};

// Once its answer has come, the process has seen what came before.
void ping(Stream& stream) {
  send_all(stream, frame(PingBody{}));
  ASSERT_EQ(receive(stream, sizeof(Head)).size(), sizeof(Head));
}

// Those that find no room wait until there is some.
TEST_F(ShareTest, StreamsLeaveAQuarterOfTheDescriptors) {
  constexpr size_t kFiles = 256;
  Child target("victim", [](Channel& channel) {
    limit(RLIMIT_NOFILE, kFiles);
    serve(channel, [] {
      Opened opened;
      // The library opens some for a moment.
      for (size_t i = 0; i < kFiles / 4 - 8; ++i) ASSERT_TRUE(opened.one_more()) << i;
    });
  });
  Stranger stranger(target.channel().receive<QueueId>());
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < kFiles / 2; ++i) {
    streams.push_back(stranger.connect());
    ASSERT_NE(streams.back(), nullptr) << i;
  }
  for (size_t i = 0; i < kFiles / 2; ++i) streams.push_back(stranger.begin());
  for (int i = 0; i < 2; ++i) ping(*streams.front());
  target.channel().send(kLook);
  target.expect_success();
}

// False if the stream has ended.
bool send_while_open(Stream& stream, std::string_view bytes) {
  std::string why;
  while (!bytes.empty()) {
    if (stream.progress(&why) != StreamState::kOpen) return false;
    const iovec piece = {const_cast<char*>(bytes.data()), bytes.size()};
    bytes.remove_prefix(stream.send({&piece, 1}));
  }
  return true;
}

// Opens a way whose messages wait for receives without end. False if that is refused.
bool open_way(Stranger& stranger, Stream& stream, uint32_t way) {
  OpenWayBody open = way_to(stranger.victim(), way);
  open.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  if (!send_while_open(stream, frame(open))) return false;
  const auto opened = receive_body<WayOpenedBody>(stream);
  return opened.way == way && opened.answer == 0;
}

// Its connection goes on.
TEST_F(ShareTest, AWayTooManyIsRefusedAlone) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take minutes for so many ways";
  Child target("victim", [](Channel& channel) { serve(channel, [] {}); });
  {
    Stranger stranger(target.channel().receive<QueueId>());
    const auto stream = stranger.connect();
    ASSERT_NE(stream, nullptr);
    constexpr uint32_t kAtOnce = 256;
    for (uint32_t way = 0; way < kMostWays; way += kAtOnce) {
      target.channel().send(kGoOn);
      std::string all;
      for (uint32_t i = 0; i < kAtOnce; ++i) all += frame(way_to(stranger.victim(), way + i));
      send_all(*stream, all);
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        ASSERT_EQ(receive_body<WayOpenedBody>(*stream).answer, 0U) << way + i;
      }
    }
    send_all(*stream, frame(way_to(stranger.victim(), kMostWays)));
    EXPECT_EQ(receive_body<WayOpenedBody>(*stream).answer,
              static_cast<uint32_t>(urma::Answer::kNoResources));
    ping(*stream);
  }
  target.channel().send(kLook);
  target.expect_success();
}

bool has_ended(const std::unique_ptr<Stream>& stream) {
  char byte;
  const iovec piece = {&byte, 1};
  std::string why;
  stream->receive({&piece, 1});
  return stream->progress(&why) == StreamState::kLost;
}

// To a process with a thousand descriptors and little memory.
class StreamsTest : public ShareTest {
 protected:
  static constexpr size_t kMost = 128 * kMiB / 4 / (69 << 10);

  void SetUp() override {
    ShareTest::SetUp();
    if (kSanitized) GTEST_SKIP() << "sanitizers need memory of their own";
    target_.emplace("victim", [](Channel& channel) {
      limit(RLIMIT_NOFILE, 1024);
      limit(RLIMIT_DATA, 128 * kMiB);
      serve(channel, [] {});
    });
    victim_ = target_->channel().receive<QueueId>();
  }
  void TearDown() override {
    if (!target_) return;
    target_->channel().send('l');
    target_->expect_success();
  }
  // Until one of them has ended.
  static void expect_an_end(const std::vector<std::unique_ptr<Stream>>& streams) {
    const auto deadline = Clock::now() + milliseconds(kPatienceMs);
    while (std::ranges::none_of(streams, has_ended)) ASSERT_LT(Clock::now(), deadline);
  }

  std::optional<Child> target_;
  QueueId victim_;
};

TEST_F(StreamsTest, ThoseThatCarryNothingCount) {
  Stranger other(victim_, "127.0.0.2"), stranger(victim_);
  const auto modest = other.connect();
  std::vector<std::unique_ptr<Stream>> streams;
  while (streams.size() < kMost + 100) {
    target_->channel().send(kGoOn);
    streams.push_back(stranger.connect());
    ASSERT_NE(streams.back(), nullptr);
  }
  expect_an_end(streams);
  ping(*modest);
}

// Each tells of all registrations that it could have had.
TEST_F(StreamsTest, TheEndsOfRegistrationsCount) {
  Stranger other(victim_, "127.0.0.2"), stranger(victim_);
  const auto modest = other.connect();
  std::string all;
  for (uint32_t i = 0; i < urma::kMaxSegments; ++i) all += frame(EndedBody{{i, 1}});
  std::vector<std::unique_ptr<Stream>> streams;
  // 3 MiB each.
  for (int i = 0; i < 20; ++i) {
    streams.push_back(stranger.connect());
    ASSERT_NE(streams.back(), nullptr);
  }
  for (const auto& stream : streams) {
    target_->channel().send(kGoOn);
    send_while_open(*stream, all);
  }
  expect_an_end(streams);
  ping(*modest);
}

std::string message_of(uint32_t way, size_t bytes) {
  const MessageBody body = {way, static_cast<uint32_t>(bytes), 0, 1, 0, {}};
  return frame(body, std::string(bytes, 'x'));
}

// Peers may hold a quarter of what this process may have: 64 MiB.
class HoarderTest : public ShareTest {
 protected:
  void SetUp() override {
    ShareTest::SetUp();
    if (kSanitized) GTEST_SKIP() << "sanitizers need memory of their own";
    target_.emplace("victim", [](Channel& channel) {
      limit(RLIMIT_DATA, 256 * kMiB);
      serve(channel, [] {});
    });
    stranger_.emplace(target_->channel().receive<QueueId>());
    // A message that never comes whole holds the only receive: all others wait.
    holder_ = stranger_->connect();
    ASSERT_NE(holder_, nullptr);
    ASSERT_TRUE(open_way(*stranger_, *holder_, 1));
    send_all(*holder_, frame(MessageBody{1, 2 * kMiB, 0, 1, urma::kByReference, {}}));
    ASSERT_EQ(receive_body<PullBody>(*holder_).way, 1U);
  }
  void TearDown() override {
    if (holder_ == nullptr) return;
    ping(*holder_);
    target_->channel().send(kLook);
    target_->expect_success();
  }

  // Messages of a MiB, each by a way of its own, until the stream ends. Returns their number.
  uint32_t send_many(Stranger& stranger, Stream& stream, uint32_t most) {
    uint32_t ways = 0;
    while (ways < most && open_way(stranger, stream, ways + 1) &&
           send_while_open(stream, message_of(ways + 1, kMiB))) {
      target_->channel().send(kGoOn);
      ++ways;
    }
    return ways;
  }

  std::optional<Child> target_;
  std::optional<Stranger> stranger_;
  std::unique_ptr<Stream> holder_;
};

TEST_F(HoarderTest, ThePeerThatHoldsMostIsEnded) {
  const auto modest = stranger_->connect();
  ASSERT_NE(modest, nullptr);
  ASSERT_EQ(send_many(*stranger_, *modest, 25), 25U);
  const auto greedy = stranger_->connect();
  ASSERT_NE(greedy, nullptr);
  const uint32_t sent = send_many(*stranger_, *greedy, 128);
  EXPECT_GT(sent, 35U);
  EXPECT_LT(sent, 60U);
  ping(*modest);
  ASSERT_TRUE(open_way(*stranger_, *modest, 1000));
  send_all(*modest, message_of(1000, 8));
  ping(*modest);
}

// A stream that has sent much, and is silent now, is ended for one that sends.
TEST_F(HoarderTest, ASilentPeerMakesRoom) {
  const auto silent = stranger_->connect();
  ASSERT_NE(silent, nullptr);
  ASSERT_EQ(send_many(*stranger_, *silent, 60), 60U);
  const auto other = stranger_->connect();
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(send_many(*stranger_, *other, 20), 20U);
  wait_for_end(*silent);
}

// The host of many streams is ended before that of one, however little each of them holds.
TEST_F(HoarderTest, ManyStreamsOfAHostAreOnePeer) {
  Stranger other(stranger_->victim(), "127.0.0.2");
  const auto modest = other.connect();
  ASSERT_NE(modest, nullptr);
  ASSERT_EQ(send_many(other, *modest, 20), 20U);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 20; ++i) {
    streams.push_back(stranger_->connect());
    ASSERT_NE(streams.back(), nullptr);
    send_many(*stranger_, *streams.back(), 5);
  }
  ping(*modest);
  ASSERT_TRUE(open_way(other, *modest, 1000));
}

// What lost peers have left counts, until the program takes it.
TEST_F(HoarderTest, PeersThatComeAgainFillNoMore) {
  uint32_t sent = 0;
  // A peer that comes to a full process has sent one message before it learns of that.
  for (int round = 0; round < 8; ++round) {
    const auto stream = stranger_->connect();
    ASSERT_NE(stream, nullptr);
    sent += send_many(*stranger_, *stream, 30);
  }
  EXPECT_GT(sent, 100U);
  EXPECT_LT(sent, 140U);
}

}  // namespace
}  // namespace urma_test
