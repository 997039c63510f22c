// SPDX-License-Identifier: MIT
//
// What peers may take of a process: a share of its descriptors and memory. The program keeps the
// rest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

constexpr size_t kMiB = 1 << 20;

void limit(int resource, rlim_t most) {
  const rlimit both = {most, most};
  ASSERT_EQ(::setrlimit(static_cast<__rlimit_resource>(resource), &both), 0);
}

// Serves a queue without receives, until it is told to look around.
void serve(Channel& channel, const std::function<void()>& look) {
  OwnedEndpoint endpoint;
  channel.send(endpoint.queue_id());
  channel.receive<char>();
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

TEST_F(ShareTest, StreamsLeaveAQuarterOfTheDescriptors) {
  constexpr size_t kFiles = 256;
  Child target("victim", [](Channel& channel) {
    limit(RLIMIT_NOFILE, kFiles);
    serve(channel, [] {
      Opened opened;
      // The library has some, too.
      for (size_t i = 0; i < kFiles / 16; ++i) ASSERT_TRUE(opened.one_more()) << i;
    });
  });
  Stranger stranger(target.channel().receive<QueueId>());
  std::vector<std::unique_ptr<Stream>> streams;
  while (streams.size() < kFiles) {
    auto stream = stranger.connect();
    if (stream == nullptr) break;
    streams.push_back(std::move(stream));
  }
  EXPECT_GT(streams.size(), kFiles / 2);
  EXPECT_LE(streams.size(), kFiles / 4 * 3);
  target.channel().send('l');
  target.expect_success();
}

// Opens a way whose messages wait for receives without end. False if that is refused.
bool open_way(Stranger& stranger, Stream& stream, uint32_t way) {
  OpenWayBody open = way_to(stranger.victim(), way);
  open.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  send_all(stream, frame(open));
  const auto opened = receive_body<WayOpenedBody>(stream);
  return opened.way == way && opened.answer == 0;
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

// A quarter of what this process may have, 64 MiB, and then a share for each of the two
// connections.
TEST_F(ShareTest, MessagesWithoutReceivesFillABoundedPartOfTheMemory) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need memory of their own";
  Child target("victim", [](Channel& channel) {
    limit(RLIMIT_DATA, 256 * kMiB);
    serve(channel, [] {});
  });
  Stranger stranger(target.channel().receive<QueueId>());
  const auto modest = stranger.connect();
  ASSERT_NE(modest, nullptr);
  const std::string payload(kMiB, 'x');
  const auto message = [&](uint32_t way) {
    return frame(MessageBody{way, kMiB, 0, 1, 0, {}}, payload);
  };
  ASSERT_TRUE(open_way(stranger, *modest, 1));
  send_all(*modest, message(1));
  const auto greedy = stranger.connect();
  ASSERT_NE(greedy, nullptr);
  uint32_t ways = 0;
  for (; ways < 128; ++ways) {
    if (!open_way(stranger, *greedy, ways + 1)) break;
    if (!send_while_open(*greedy, message(ways + 1))) break;
  }
  EXPECT_GT(ways, 60U);
  EXPECT_LT(ways, 70U);
  send_all(*modest, frame(PingBody{}));
  EXPECT_EQ(receive(*modest, sizeof(Head)).size(), sizeof(Head)) << "it kept to its share";
  target.channel().send('l');
  target.expect_success();
}

}  // namespace
}  // namespace urma_test
