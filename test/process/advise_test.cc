// SPDX-License-Identifier: MIT
//
// A program advises the library which peers it will send to.
#include <gtest/gtest.h>

#include <cstdlib>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

using AdviseTest = ProcessTest;

// Sends to a peer that was advised, and to one that no longer is.
void advise_and_send(Channel& channel, bool jetty, bool as_infiniband) {
  if (as_infiniband) ::setenv("URMA_VERBS_TYPE", "ib", 1);
  Config config;
  config.jetty = jetty;
  OwnedEndpoint endpoint(config);
  // Empty messages: a device of type IB needs a token id of the program for any memory.
  for (uint64_t i = 0; i < 2; ++i) {
    urma_jfr_wr_t receive = {};
    receive.user_ctx = i;
    urma_jfr_wr_t* bad = nullptr;
    EXPECT_EQ(endpoint.post_receive(&receive, &bad), URMA_SUCCESS);
  }
  urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
  const auto advise = [&] {
    return jetty ? urma_advise_jetty(endpoint.jetty, peer) : urma_advise_jfr(endpoint.jfs, peer);
  };
  const auto unadvise = [&] {
    return jetty ? urma_unadvise_jetty(endpoint.jetty, peer)
                 : urma_unadvise_jfr(endpoint.jfs, peer);
  };
  for (uint64_t round = 0; round < 2; ++round) {
    EXPECT_EQ(advise(), URMA_SUCCESS);
    // Only a device with connections can report one.
    EXPECT_EQ(advise(), as_infiniband ? URMA_EEXIST : URMA_SUCCESS);
    if (round == 1) {
      EXPECT_EQ(unadvise(), URMA_SUCCESS);
    }
    urma_jfs_wr_t wr = send_request(peer, nullptr, round);
    wr.send.src = {};
    endpoint.post(wr);
    wait_for_success(endpoint.send_jfc, round);
    wait_for_success(endpoint.receive_jfc, round);
    EXPECT_EQ(unadvise(), URMA_SUCCESS);
    channel.sync();
  }
}

TEST_F(AdviseTest, IsAHintToAUbDevice) {
  for (const bool jetty : {true, false}) {
    const auto side = [=](Channel& channel) { advise_and_send(channel, jetty, false); };
    run_two("first", side, "second", side);
  }
}

TEST_F(AdviseTest, ConnectsOnAnIbDevice) {
  if (over_shared_memory()) GTEST_SKIP() << "needs a device of type IB; set URMA_DEVICE to one";
  for (const bool jetty : {true, false}) {
    const auto side = [=](Channel& channel) { advise_and_send(channel, jetty, true); };
    run_two("first", side, "second", side);
  }
}

}  // namespace
}  // namespace urma_test
