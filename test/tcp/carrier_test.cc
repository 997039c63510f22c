// SPDX-License-Identifier: MIT
//
// Streams between two carriers of this process.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "test/tcp/streams.h"
#include "urma/base/error.h"
#include "urma/base/own_fd.h"

namespace urma::tcp {
namespace {

const urma_eid_t kIpv4 = eid("127.0.0.1");
const urma_eid_t kOther = eid("127.0.0.2");
const urma_eid_t kIpv6 = eid("::1");

TEST(Carrier, KnowsItsPeer) {
  const auto a = make_socket_carrier(config_at({kIpv4}));
  const auto b = make_socket_carrier(config_at({kOther}));
  const Ends ends = join(*a, kIpv4, *b, kOther);
  EXPECT_EQ(text_of(ends.begins->peer().listens_at), text_of(Address{kOther, b->port()}));
  EXPECT_EQ(text_of(ends.answers->peer().listens_at), text_of(Address{kIpv4, a->port()}));
  EXPECT_NE(ends.begins->peer().process, ends.answers->peer().process);
}

TEST(Carrier, CarriesPiecesBothWays) {
  const auto a = make_socket_carrier(config_at({kIpv4}));
  const auto b = make_socket_carrier(config_at({kIpv4}));
  const Ends ends = join(*a, kIpv4, *b, kIpv4);
  char first[] = "one, ", second[] = "two";
  const iovec pieces[] = {{first, 5}, {nullptr, 0}, {second, 3}};
  EXPECT_EQ(ends.begins->send(pieces), 8U);
  EXPECT_EQ(receive(*ends.answers, 8), "one, two");
  send_all(*ends.answers, "and back");
  EXPECT_EQ(receive(*ends.begins, 8), "and back");
}

TEST(Carrier, BytesNotAskedForAreNotDelivered) {
  const auto a = make_socket_carrier(config_at({kIpv4}));
  const auto b = make_socket_carrier(config_at({kIpv4}));
  const Ends ends = join(*a, kIpv4, *b, kIpv4);
  const iovec nothing = {nullptr, 0};
  EXPECT_EQ(ends.begins->receive({&nothing, 1}), 0U);
  EXPECT_EQ(ends.begins->receive({}), 0U);
  EXPECT_EQ(ends.begins->send({}), 0U);
  std::string why;
  EXPECT_EQ(ends.begins->progress(&why), StreamState::kOpen) << why;
}

TEST(Carrier, ReportsFreeSendSpace) {
  const auto a = make_socket_carrier(config_at({kIpv4}));
  const auto b = make_socket_carrier(config_at({kIpv4}));
  const Ends ends = join(*a, kIpv4, *b, kIpv4);
  std::string much(1 << 20, 'x');
  const iovec piece = {much.data(), much.size()};
  size_t sent = 0;
  while (const size_t taken = ends.begins->send({&piece, 1})) sent += taken;
  EXPECT_TRUE(ends.begins->wants_room());
  EXPECT_EQ(receive(*ends.answers, sent).size(), sent);
  wait_for(ends.begins->fd(), POLLOUT);
  EXPECT_NE(ends.begins->send({&piece, 1}), 0U);
}

TEST(Carrier, ListensOnOnePortForIpv6AndIpv4) {
  const auto a = make_socket_carrier(config_at({kIpv4, kIpv6}));
  const Ends ipv4 = join(*a, kIpv4, *a, kIpv4);
  const Ends ipv6 = join(*a, kIpv6, *a, kIpv6);
  EXPECT_EQ(text_of(ipv6.answers->peer().listens_at), text_of(Address{kIpv6, a->port()}));
}

TEST(Carrier, ListensOnlyAtItsAddresses) {
  const auto a = make_socket_carrier(config_at({kIpv4}));
  std::string why;
  const auto stream = a->connect(kIpv4, {kOther, a->port()}, &why);
  ASSERT_TRUE(stream == nullptr || finish_greeting(*stream, &why) == StreamState::kLost);
  EXPECT_NE(why.find("refused"), std::string::npos) << why;
}

TEST(Carrier, CannotConnectAcrossFamilies) {
  const auto a = make_socket_carrier(config_at({kIpv4, kIpv6}));
  std::string why;
  EXPECT_EQ(a->connect(kIpv4, {kIpv6, a->port()}, &why), nullptr);
  EXPECT_NE(why, "");
}

TEST(Carrier, TakesAFreePortOfItsRange) {
  auto config = config_at({kIpv4});
  const auto any = make_socket_carrier(config);
  config.first_port = config.last_port = any->port();
  EXPECT_THROW(make_socket_carrier(config), Error);
  config.last_port = static_cast<uint16_t>(config.first_port + 20);
  const auto next = make_socket_carrier(config);
  EXPECT_GT(next->port(), config.first_port);
  EXPECT_LE(next->port(), config.last_port);
}

TEST(Carrier, ListensOnFurtherPortsForAWhile) {
  const auto a = make_socket_carrier(config_at({kIpv4, kIpv6}));
  const auto b = make_socket_carrier(config_at({kIpv4}));
  EXPECT_FALSE(a->listen_also(b->port()));
  uint16_t further = b->port();
  while (!a->listen_also(++further)) {
  }
  EXPECT_TRUE(a->listen_also(further));
  std::string why;
  const auto begins = b->connect(kIpv4, {kIpv4, further}, &why);
  const auto answers = next_stream(*a);
  EXPECT_EQ(greet(*begins, *answers).answers, StreamState::kOpen);
  // The name by which it is known.
  EXPECT_EQ(text_of(begins->peer().listens_at), text_of(Address{kIpv4, a->port()}));
  a->stop_listening(further);
  a->stop_listening(a->port());
  const auto late = b->connect(kIpv4, {kIpv4, further}, &why);
  EXPECT_TRUE(late == nullptr || finish_greeting(*late, &why) == StreamState::kLost);
  join(*b, kIpv4, *a, kIpv4);
}

// A process that restarts while its connections still have the port.
TEST(Carrier, TakesItsPortAgain) {
  auto config = config_at({kIpv4});
  auto a = make_socket_carrier(config);
  const auto b = make_socket_carrier(config_at({kIpv4}));
  config.first_port = config.last_port = a->port();
  Ends ends = join(*b, kIpv4, *a, kIpv4);
  ends.answers.reset();  // closes first, and waits for data in flight
  a.reset();
  EXPECT_EQ(wait_for_end(*ends.begins), "it has closed the connection");
  a = make_socket_carrier(config);
  const Ends again = join(*b, kIpv4, *a, kIpv4);
  EXPECT_NE(again.begins->peer().process, ends.begins->peer().process);
}

// One thread accepts, and opens and closes further ports, while others connect.
TEST(Carrier, AnyThreadConnects) {
  constexpr int kThreads = 4;
  constexpr int kStreams = 25;
  const auto a = make_socket_carrier(config_at({kIpv4}));
  const auto b = make_socket_carrier(config_at({kIpv4, kOther}));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, from = i % 2 == 0 ? kIpv4 : kOther] {
      for (int stream = 0; stream < kStreams; ++stream) {
        std::string why;
        const auto begins = b->connect(from, {kIpv4, a->port()}, &why);
        EXPECT_EQ(finish_greeting(*begins, &why), StreamState::kOpen) << why;
      }
    });
  }
  for (int i = 0; i < kThreads * kStreams; ++i) {
    const auto further = static_cast<uint16_t>(a->port() + 1);
    if (a->listen_also(further)) a->stop_listening(further);
    std::string why;
    // It may be gone as soon as it was greeted.
    finish_greeting(*next_stream(*a), &why);
  }
  for (auto& thread : threads) thread.join();
}

// Nothing is known of it any more.
TEST(Carrier, IgnoresAConnectionThatWasResetBeforeItWasAccepted) {
  const auto a = make_socket_carrier(config_at({kIpv4}));
  {
    const OwnFd fd(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const SocketAddress there({kIpv4, a->port()});
    ASSERT_EQ(::connect(fd.get(), there.get(), there.size()), 0);
    const linger reset = {1, 0};
    ASSERT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
  }
  wait_for(a->fd(), POLLIN);
  EXPECT_EQ(a->accept(), nullptr);
  const auto b = make_socket_carrier(config_at({kIpv4}));
  join(*b, kIpv4, *a, kIpv4);
}

TEST(Carrier, ReportsAnEnd) {
  const auto a = make_socket_carrier(config_at({kIpv4}));
  const auto b = make_socket_carrier(config_at({kIpv4}));
  Ends ends = join(*a, kIpv4, *b, kIpv4);
  ends.begins.reset();
  EXPECT_EQ(wait_for_end(*ends.answers), "it has closed the connection");
  char byte = 0;
  const iovec piece = {&byte, 1};
  EXPECT_EQ(ends.answers->send({&piece, 1}), 0U);
}

// A surviving child of a fork does not keep a connection of its parent open.
TEST(Carrier, ChildrenInheritNoConnection) {
  const auto b = make_socket_carrier(config_at({kIpv4}));
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto a = make_socket_carrier(config_at({kIpv4}));
    std::string why;
    const auto stream = a->connect(kIpv4, {kIpv4, b->port()}, &why);
    if (finish_greeting(*stream, &why) != StreamState::kOpen) ::_exit(1);
    ::close(hold[1]);
    if (::fork() == 0) {
      char byte;
      ::_exit(::read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::_exit(0);
  }
  const auto stream = next_stream(*b);
  std::string why;
  ASSERT_EQ(finish_greeting(*stream, &why), StreamState::kOpen) << why;
  EXPECT_EQ(wait_for_end(*stream), "it has closed the connection");
  int status = 0;
  EXPECT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_EQ(status, 0);
  ::close(hold[1]);
  ::close(hold[0]);
}

}  // namespace
}  // namespace urma::tcp
