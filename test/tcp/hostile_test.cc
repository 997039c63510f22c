// SPDX-License-Identifier: MIT
//
// What strangers send to the port: each is rejected, and no one else is affected.
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <random>

#include "test/tcp/streams.h"
#include "urma/base/own_fd.h"
#include "urma/providers/tcp/settings.h"

namespace urma::tcp {
namespace {

const urma_eid_t kHere = eid("127.0.0.1");

std::string text(const void* bytes, size_t count) {
  return std::string(static_cast<const char*>(bytes), count);
}

OwnFd call(const Carrier& carrier) {
  OwnFd fd(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketAddress address({kHere, carrier.port()});
  EXPECT_EQ(::connect(fd.get(), address.get(), address.size()), 0);
  return fd;
}

// As much as the other side takes.
void tell(const OwnFd& fd, const std::string& bytes) {
  (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

Hello right_hello(const Carrier& target) {
  Hello hello = {};
  hello.called = target.port();
  hello.magic = kGreetingMagic;
  hello.version = kGreetingVersion;
  hello.port = 20000;
  hello.from = hello.to = kHere;
  return hello;
}

// Not a greeting, or only a part of one.
std::vector<std::string> nonsense(const Carrier& target, uint16_t flags) {
  std::mt19937 random(29);
  std::vector<std::string> all = {"", "GET / HTTP/1.1\r\nHost: there\r\n\r\n",
                                  "\x16\x03\x01\x02\x00\x01", std::string(1 << 20, '\0'),
                                  "SSH-2.0-OpenSSH_9.2\r\n"};
  Hello right = right_hello(target);
  right.flags = flags;
  const std::string hello = text(&right, sizeof(right));
  for (size_t length = 1; length < hello.size(); ++length) all.push_back(hello.substr(0, length));
  // Except for the process and the nonce, which anyone may choose, and the port.
  for (size_t at = 0; at < hello.size(); ++at) {
    const bool chosen = at >= offsetof(Hello, process) && at < offsetof(Hello, from);
    const bool port = at >= offsetof(Hello, port) && at < offsetof(Hello, called);
    if (chosen || port) continue;
    for (const int change : {0x01, 0x80}) {
      all.push_back(hello);
      all.back()[at] = static_cast<char>(all.back()[at] ^ change);
    }
  }
  right.port = 0;
  all.push_back(text(&right, sizeof(right)));
  for (int i = 0; i < 50; ++i) {
    std::string bytes(1 + random() % 5000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    all.push_back(bytes);
  }
  // Data after a valid greeting, in place of a proof.
  for (int i = 0; flags != 0 && i < 50; ++i) {
    std::string proof(1 + random() % sizeof(Digest), '\0');
    for (char& byte : proof) byte = static_cast<char>(random() % (i % 3 + 1));
    all.push_back(hello + proof);
  }
  return all;
}

class Hostile : public testing::Test {
 protected:
  void open(std::shared_ptr<const Secret> secret, std::shared_ptr<const Tls> tls) {
    auto config = config_at({kHere});
    config.secret = std::move(secret);
    config.tls = std::move(tls);
    target_ = make_socket_carrier(config);
    friend_ = make_socket_carrier(config);
    innocent_ = join(*friend_, kHere, *target_, kHere);
  }

  void turn_away(const std::string& bytes) {
    OwnFd stranger = call(*target_);
    tell(stranger, bytes);
    ::shutdown(stranger.get(), SHUT_WR);
    const auto stream = next_stream(*target_);
    std::string why;
    EXPECT_EQ(finish_greeting(*stream, &why), StreamState::kLost)
        << bytes.size() << " bytes: " << bytes.substr(0, 100);
    EXPECT_NE(why, "");
    send_all(*innocent_.begins, "as ever");
    EXPECT_EQ(receive(*innocent_.answers, 7), "as ever");
  }

  void turn_all_away(uint16_t flags) {
    const auto all = nonsense(*target_, flags);
    EXPECT_GE(all.size(), 200U);
    for (const auto& bytes : all) turn_away(bytes);
    join(*friend_, kHere, *target_, kHere);
  }

  std::unique_ptr<Carrier> target_, friend_;
  Ends innocent_;
};

const auto kSecret = make_secret("a secret of sixteen bytes, or more");

TEST_F(Hostile, MalformedGreetingsAreRefused) {
  open(nullptr, nullptr);
  turn_all_away(0);
}

TEST_F(Hostile, MalformedGreetingsAreRefusedWithASecret) {
  open(kSecret, nullptr);
  turn_all_away(kHasSecret);
}

TEST_F(Hostile, MalformedGreetingsAreRefusedWithTls) {
  open(kSecret, tls_by_secret(*kSecret));
  turn_all_away(kHasSecret);
}

// A connection that is reset before it is looked at, while others are not.
TEST_F(Hostile, APeerThatDisconnectsAtOnceDelaysNoOther) {
  open(nullptr, nullptr);
  for (int i = 0; i < 100; ++i) {
    OwnFd stranger = call(*target_);
    const linger reset = {1, 0};
    ::setsockopt(stranger.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  std::string why;
  const auto begins = friend_->connect(kHere, {kHere, target_->port()}, &why);
  StreamState state = StreamState::kLost;
  while (state != StreamState::kOpen) {
    const auto stream = next_stream(*target_);
    do {
      ASSERT_NE(begins->progress(&why), StreamState::kLost) << why;
      state = stream->progress(&why);
    } while (state == StreamState::kGreeting);
  }
}

TEST_F(Hostile, ASilentPeerIsDisconnected) {
  auto config = config_at({kHere});
  config.timeout_ms = 100;
  target_ = make_socket_carrier(config);
  const OwnFd stranger = call(*target_);
  const auto stream = next_stream(*target_);
  std::string why;
  while (stream->progress(&why) != StreamState::kLost) {
    wait_for(target_->fd(), POLLIN);
    EXPECT_EQ(target_->accept(), nullptr);
  }
  EXPECT_EQ(why, "its greeting took too long");
}

// The same for a host that accepts connections and never answers.
TEST_F(Hostile, APeerThatDoesNotAnswerTimesOut) {
  auto config = config_at({kHere});
  config.timeout_ms = 100;
  target_ = make_socket_carrier(config);
  const OwnFd silent(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketAddress any({kHere, 0});
  ASSERT_EQ(::bind(silent.get(), any.get(), any.size()), 0);
  ASSERT_EQ(::listen(silent.get(), 1), 0);
  std::string why;
  const auto stream = target_->connect(kHere, SocketAddress::local_of(silent.get()), &why);
  while (stream->progress(&why) != StreamState::kLost) {
    wait_for(target_->fd(), POLLIN);
    EXPECT_EQ(target_->accept(), nullptr);
  }
  EXPECT_EQ(why, "its greeting took too long");
}

TEST_F(Hostile, ManySilentPeersDoNotBlockOthers) {
  open(nullptr, nullptr);
  std::vector<OwnFd> strangers;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 300; ++i) strangers.push_back(call(*target_));
  std::string why;
  const auto begins = friend_->connect(kHere, {kHere, target_->port()}, &why);
  while (begins->progress(&why) == StreamState::kGreeting) {
    wait_for(target_->fd(), POLLIN);
    auto stream = target_->accept();
    if (stream != nullptr) streams.push_back(std::move(stream));
    std::string unheard;
    std::erase_if(streams,
                  [&](auto& one) { return one->progress(&unheard) == StreamState::kLost; });
    EXPECT_LE(streams.size(), 258U);
  }
  EXPECT_EQ(begins->progress(&why), StreamState::kOpen) << why;
}

TEST_F(Hostile, ContinuesWhenDescriptorsAreFreeAgain) {
  open(nullptr, nullptr);
  std::string why;
  const auto begins = friend_->connect(kHere, {kHere, target_->port()}, &why);
  wait_for(target_->fd(), POLLIN);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(target_->accept(), nullptr);
  EXPECT_EQ(target_->accept(), nullptr);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  const auto answers = next_stream(*target_);
  EXPECT_EQ(greet(*begins, *answers).answers, StreamState::kOpen);
}

}  // namespace
}  // namespace urma::tcp
