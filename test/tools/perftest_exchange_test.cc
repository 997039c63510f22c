// SPDX-License-Identifier: MIT
//
// The side channel of urma_perftest.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/perftest/exchange.h"
#include "tools/perftest/run.h"

namespace perftest {
namespace {

using std::chrono::milliseconds;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const RunError& error) {
    return error.what();
  }
}

class PerftestExchange : public testing::Test {
 protected:
  PerftestExchange() : PerftestExchange(Exchange::make_pair()) {}
  ~PerftestExchange() override { interrupted = false; }

  std::optional<Exchange> mine_;
  std::optional<Exchange> peers_;

 private:
  explicit PerftestExchange(std::pair<Exchange, Exchange> ends)
      : mine_(std::move(ends.first)), peers_(std::move(ends.second)) {}
};

TEST_F(PerftestExchange, SwapsLargeDataBothWaysAtOnce) {
  std::vector<uint8_t> ones(8 << 20, 1);
  std::vector<uint8_t> twos(8 << 20, 2);
  std::thread peer([&] { peers_->sync_data(twos.data(), twos.data(), twos.size()); });
  mine_->sync_data(ones.data(), ones.data(), ones.size());
  peer.join();
  EXPECT_EQ(ones, std::vector<uint8_t>(8 << 20, 2));
  EXPECT_EQ(twos, std::vector<uint8_t>(8 << 20, 1));
}

TEST_F(PerftestExchange, SwapsBlobsOfUnequalLength) {
  const std::vector<uint8_t> shorter = {1, 2, 3};
  const std::vector<uint8_t> longer(100, 7);
  std::thread peer([&] { EXPECT_EQ(peers_->sync_blob(longer), shorter); });
  EXPECT_EQ(mine_->sync_blob(shorter), longer);
  peer.join();
}

TEST_F(PerftestExchange, RefusesInvalidLengths) {
  for (const uint32_t length : {0U, Exchange::kMaxBlob + 1, UINT32_MAX}) {
    auto ends = Exchange::make_pair();
    std::thread peer([&] {
      uint32_t answer = 0;
      ends.second.sync_data(&length, &answer, sizeof(answer));
    });
    const std::vector<uint8_t> blob = {1};
    EXPECT_NE(error_of([&] { ends.first.sync_blob(blob); }).find("announces a blob of"),
              std::string::npos);
    peer.join();
  }
}

TEST_F(PerftestExchange, MeetsAtTags) {
  std::thread peer([&] { peers_->sync_time("Start test"); });
  mine_->sync_time("Start test");
  peer.join();
}

TEST_F(PerftestExchange, NamesTheTagThatCameInstead) {
  std::thread peer([&] { EXPECT_NE(error_of([&] { peers_->sync_time("End_ test"); }), ""); });
  EXPECT_EQ(error_of([&] { mine_->sync_time("Start tes"); }),
            "the peer is out of step: it sent 'End_ test' in place of 'Start tes'");
  peer.join();
}

TEST_F(PerftestExchange, NoticesThatThePeerHasGone) {
  EXPECT_TRUE(mine_->peer_alive());
  peers_.reset();
  // It asks the kernel ten times a second.
  while (mine_->peer_alive()) continue;
  EXPECT_NE(error_of([&] { mine_->check_peer(); }).find("vanished"), std::string::npos);
}

TEST_F(PerftestExchange, WaitEndsWhenThePeerGoes) {
  mine_->set_timeout(Exchange::kWhilePeerLives);
  std::thread peer([&] { peers_.reset(); });
  EXPECT_NE(error_of([&] { mine_->sync_time("End test"); }).find("vanished"), std::string::npos);
  peer.join();
}

TEST_F(PerftestExchange, WaitHasALimit) {
  mine_->set_timeout(milliseconds(50));
  EXPECT_EQ(error_of([&] { mine_->sync_time("End test"); }),
            "the peer did not answer within 50 ms");
}

TEST_F(PerftestExchange, WaitEndsAfterAnInterruption) {
  interrupted = true;
  EXPECT_THROW(mine_->sync_time("End test"), Interrupted);
}

TEST_F(PerftestExchange, QuitIsSeenInALoop) {
  EXPECT_FALSE(mine_->quit_seen());
  peers_->notify_quit();
  while (!mine_->quit_seen()) continue;
  std::thread peer([&] { peers_->sync_time("after_write_bw"); });
  mine_->sync_time("after_write_bw");
  peer.join();
}

TEST_F(PerftestExchange, QuitBeforeATagIsConsumed) {
  peers_->notify_quit();
  std::thread peer([&] { peers_->sync_time("after_write_bw"); });
  mine_->sync_time("after_write_bw");
  peer.join();
  EXPECT_TRUE(mine_->quit_seen());
}

TEST_F(PerftestExchange, StartOfATagIsNotTakenForQuit) {
  std::thread peer([&] { peers_->sync_time("after_write_bw"); });
  EXPECT_FALSE(mine_->quit_seen());
  EXPECT_TRUE(mine_->peer_alive());
  mine_->sync_time("after_write_bw");
  EXPECT_FALSE(mine_->quit_seen());
  peer.join();
}

// Over TCP, on a port that the kernel chooses.
class PerftestTcp : public testing::Test {
 protected:
  ~PerftestTcp() override { interrupted = false; }

  static Config server_config(const std::string& address = "127.0.0.1") {
    Config config;
    config.bind_ip = address;
    config.ipv6 = address.find(':') != std::string::npos;
    config.port = 0;
    return config;
  }

  static Config client_config(const Config& server, uint16_t port) {
    Config config = server;
    config.server = server.bind_ip;
    config.port = port;
    return config;
  }

  static void expect_talk(const Config& config) {
    Listener listener(config);
    std::thread client([&] {
      Exchange exchange = Exchange::connect(client_config(config, listener.port()));
      exchange.sync_time("Start test");
      for (uint32_t pair = 0; pair < config.pair_num; pair++) {
        uint32_t number = pair;
        exchange.sync_data(&number, &number, sizeof(number), pair);
        EXPECT_EQ(number, pair + 100);
      }
    });
    Exchange exchange = listener.accept_clients();
    EXPECT_EQ(exchange.pairs(), config.pair_num);
    exchange.sync_time("Start test");
    for (uint32_t pair = 0; pair < config.pair_num; pair++) {
      uint32_t number = pair + 100;
      exchange.sync_data(&number, &number, sizeof(number), pair);
      EXPECT_EQ(number, pair);
    }
    client.join();
  }
};

TEST_F(PerftestTcp, Connects) { expect_talk(server_config()); }

TEST_F(PerftestTcp, ConnectsOverIpv6) {
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool there =
      probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (probe >= 0) close(probe);
  if (!there) GTEST_SKIP() << "this machine has no IPv6 address";
  expect_talk(server_config("::1"));
}

TEST_F(PerftestTcp, ConnectsEveryPair) {
  Config config = server_config();
  config.pair_num = 5;
  expect_talk(config);
}

TEST_F(PerftestTcp, ServesOneClientAfterTheOther) {
  const Config config = server_config();
  Listener listener(config);
  for (int i = 0; i < 3; i++) {
    std::thread client(
        [&] { Exchange::connect(client_config(config, listener.port())).sync_time("Start test"); });
    listener.accept_clients().sync_time("Start test");
    client.join();
  }
}

TEST_F(PerftestTcp, ClientWithoutServerGivesUp) {
  // Bound but not listening: the port refuses, and no other process can take it.
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(taken, name, size), 0);
  ASSERT_EQ(getsockname(taken, name, &size), 0);
  const Config client = client_config(server_config(), ntohs(address.sin_port));
  const std::string error = error_of([&] { Exchange::connect(client); });
  close(taken);
  EXPECT_NE(error.find("in 5 tries"), std::string::npos) << error;
  EXPECT_NE(error.find("Connection refused"), std::string::npos) << error;
}

TEST_F(PerftestTcp, ServerWithoutClientCanBeInterrupted) {
  Listener listener(server_config());
  std::thread user([] { interrupted = true; });
  EXPECT_THROW(listener.accept_clients(), Interrupted);
  user.join();
}

TEST_F(PerftestTcp, UnknownAddressesAreNamed) {
  Config config = server_config("nowhere.invalid");
  EXPECT_NE(error_of([&] { Listener listener(config); }).find("nowhere.invalid"),
            std::string::npos);
  config.server = "nowhere.invalid";
  EXPECT_NE(error_of([&] { Exchange::connect(config); }).find("nowhere.invalid"),
            std::string::npos);
}

}  // namespace
}  // namespace perftest
