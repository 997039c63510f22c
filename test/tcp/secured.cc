// SPDX-License-Identifier: MIT
//
// Gives all processes of a test the trust that SECURED_BY names: secret, psk (TLS by a key derived
// from the secret) or certificates.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/tcp/certificates.h"

namespace urma_test {
namespace {

const char* trust() {
  const char* const by = std::getenv("SECURED_BY");
  return by == nullptr ? "" : by;
}

class Trust final : public testing::Environment {
 public:
  void SetUp() override {
    if (std::string(trust()) == "certificates") {
      authority_.emplace("authority");
      ::setenv("URMA_TCP_TLS", authority_->host("host", *authority_).c_str(), 1);
      return;
    }
    folder_.emplace();
    const std::string secret = folder_->path() + "/secret";
    std::ofstream(secret) << "a secret of sixteen bytes, or more\n";
    ASSERT_EQ(::chmod(secret.c_str(), S_IRUSR), 0);
    ::setenv("URMA_TCP_SECRET_FILE", secret.c_str(), 1);
    if (std::string(trust()) == "psk") ::setenv("URMA_TCP_TLS", "psk", 1);
  }
  void TearDown() override {
    folder_.reset();
    authority_.reset();
  }

 private:
  std::optional<ScratchDir> folder_;
  std::optional<urma::tcp::Authority> authority_;
};

[[maybe_unused]] const auto* const kTrust = testing::AddGlobalTestEnvironment(new Trust);

using SecuredTest = ProcessTest;

void forget_trust() {
  ::unsetenv("URMA_TCP_SECRET_FILE");
  ::unsetenv("URMA_TCP_TLS");
}

// Sends one message to a queue that it was told of; it must end with `status`.
Body sender(bool trusted, urma_cr_status_t status) {
  return [=](Channel& channel) {
    if (!trusted) forget_trust();
    std::vector<char> memory(64);
    const LogLines lines;
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
    urma_sge_t local = piece(segment, memory.data(), memory.size());
    endpoint.post(send_request(queue, &local));
    wait_for_status(endpoint.send_jfc, status);
    // A peer with TLS says nothing to one without.
    const bool told = !trusted && std::string(trust()) == "secret";
    EXPECT_EQ(LogLines::count({"no connection to"}) != 0, told) << LogLines::all();
    channel.sync();
  };
}

// All other tests here would pass without any trust.
TEST_F(SecuredTest, OnlyPeersWithTheTrustReachAProcess) {
  Child receiver("receiver", [](Channel& channel) {
    std::vector<char> memory(64);
    const LogLines lines;
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    endpoint.post_receive(segment, memory.data(), memory.size(), 1);
    channel.send(endpoint.queue_id());
    channel.sync();  // the stranger has given up
    EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
    EXPECT_NE(LogLines::count({"no connection to"}), 0u) << LogLines::all();
    channel.sync();
    wait_for_success(endpoint.receive_jfc, 1);
    channel.sync();
  });
  const auto queue = receiver.channel().receive<QueueId>();
  Child stranger("stranger", sender(false, URMA_CR_ACK_TIMEOUT_ERR));
  stranger.channel().send(queue);
  stranger.channel().sync();
  stranger.expect_success();
  receiver.channel().sync();
  receiver.channel().sync();
  Child peer("peer", sender(true, URMA_CR_SUCCESS));
  peer.channel().send(queue);
  peer.channel().sync();
  peer.expect_success();
  receiver.channel().sync();
  receiver.expect_success();
}

}  // namespace
}  // namespace urma_test
