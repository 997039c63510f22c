// SPDX-License-Identifier: MIT
//
// A server is killed and restarted with the same id: its client keeps its import of the queue, and
// goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr uint32_t kServerId = 4711;
constexpr size_t kSize = 4096;
constexpr uint64_t kReceives = 4;
constexpr uint64_t kTooMany = 6;  // this many messages find no receive
constexpr int kRounds = 4;
// A silent peer is given up after one second; a device without an answer gives up after five.
constexpr milliseconds kLimit{20000};

using RestartTest = ProcessTest;

std::set<int> open_descriptors() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    found.insert(std::stoi(entry.path().filename()));
  }
  return found;
}

Config config_in(urma_transport_mode_t mode) {
  Config config;
  config.mode = mode;
  return config;
}

// Receives as many messages as it has receives for, then waits to be killed.
void serve(Channel& channel, urma_transport_mode_t mode) {
  Config config = config_in(mode);
  config.id = kServerId;
  Endpoint endpoint(config);
  std::vector<char> memory(kSize);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  for (uint64_t i = 0; i < kReceives; ++i) {
    endpoint.post_receive(segment, memory.data(), kSize / 2, i);
  }
  channel.send(offer_of(endpoint, segment));
  for (uint64_t i = 0; i < kReceives; ++i) wait_for_success(endpoint.receive_jfc, i);
  channel.send('r');
  channel.receive<char>();
}

void server(Channel& channel) { serve(channel, URMA_TM_RM); }

class Client {
 public:
  explicit Client(Channel& channel, urma_transport_mode_t mode = URMA_TM_RM)
      : endpoint(config_in(mode)), channel_(channel) {
    segment_ = endpoint.add(memory_.data(), memory_.size());
  }

  void send(uint64_t user_ctx) {
    urma_sge_t local = piece(segment_, memory_.data(), 64);
    endpoint.post(send_request(queue_, &local, user_ctx));
  }
  // Its queue was imported once; the descriptor of its memory is new each time.
  void meet_server() {
    const auto offer = channel_.receive<Offer>();
    if (queue_ == nullptr) queue_ = endpoint.import(offer.queue);
    remote_ = endpoint.import(offer.segment);
  }
  void write(uint64_t user_ctx) {
    urma_sge_t local = piece(segment_, memory_.data(), 64);
    urma_sge_t there = piece(remote_, remote_->seg.ubva.va + kSize / 2, 64);
    endpoint.post(write_request(queue_, &local, &there, user_ctx));
    wait_for_success(endpoint.send_jfc, user_ctx);
  }
  void forget_memory() { endpoint.unimport(remote_); }

  Endpoint endpoint;

 private:
  Channel& channel_;
  std::vector<char> memory_ = std::vector<char>(kSize);
  urma_target_seg_t* segment_;
  urma_target_jetty_t* queue_ = nullptr;
  urma_target_seg_t* remote_ = nullptr;
  const Closing closing_{endpoint};
};

// Kills the server whenever the client says so, and starts the next one.
void restart_server(Child* client) {
  for (int round = 0; round < kRounds; ++round) {
    Child next("server", server);
    client->channel().send(next.channel().receive<Offer>());
    next.channel().receive<char>();
    client->channel().sync();
    next.kill();
  }
  client->expect_success();
}

// Requests in flight end with the server; requests posted to the next server reach it.
TEST_F(RestartTest, ClientContinuesWithTheNextServer) {
  Child client("client", [](Channel& channel) {
    Client self(channel);
    for (int round = 0; round < kRounds; ++round) {
      self.meet_server();
      self.write(100);
      for (uint64_t i = 0; i < kReceives + kTooMany; ++i) self.send(i);
      for (uint64_t i = 0; i < kReceives; ++i) wait_for_success(self.endpoint.send_jfc, i);
      channel.sync();  // and it is killed
      for (uint64_t i = 0; i < kTooMany; ++i) {
        wait_for_status(self.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
      }
      self.forget_memory();
      channel.sync();
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    Child next("server", server);
    client.channel().send(next.channel().receive<Offer>());
    next.channel().receive<char>();
    next.kill();
    client.channel().sync();
    client.channel().sync();
  }
  client.expect_success();
}

// In mode UM no request tells the client that a server is gone.
TEST_F(RestartTest, DatagramsFindTheNextServer) {
  SKIP_WITHOUT(device_traits().has_mode(URMA_TM_UM), "mode UM");
  Child client("client", [](Channel& channel) {
    Client self(channel, URMA_TM_UM);
    for (int round = 0; round < kRounds; ++round) {
      self.meet_server();
      const auto begin = Clock::now();
      while (!channel.has_message()) {
        self.send(5);
        wait_for_success(self.endpoint.send_jfc, 5);
        ASSERT_LT(Clock::now() - begin, patience(kLimit));
      }
      channel.sync();
      self.forget_memory();
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    Child next("server", [](Channel& channel) { serve(channel, URMA_TM_UM); });
    client.channel().send(next.channel().receive<Offer>());
    next.channel().receive<char>();
    client.channel().sync();
    next.kill();
  }
  client.expect_success();
}

// A child program inherits no open file of the library.
TEST_F(RestartTest, NoDescriptorOutlivesAnExec) {
  run_one([](Channel&) {
    const std::set<int> before = open_descriptors();
    Config config;
    config.events = true;
    std::vector<char> memory(4 * kSize);
    OwnedEndpoint endpoint(config);
    urma_target_seg_t* const segment = endpoint.add(memory.data(), memory.size());
    endpoint.post_receive(segment, memory.data(), kSize);
    urma_sge_t local = piece(segment, memory.data() + kSize, 64);
    endpoint.post(send_request(endpoint.import(endpoint.queue_id()), &local, 1));
    endpoint.import(endpoint.segment_id(segment), true);
    wait_for_success(endpoint.send_jfc, 1);
    int own = 0;
    for (const int fd : open_descriptors()) {
      if (before.count(fd) != 0) continue;
      const int flags = ::fcntl(fd, F_GETFD);
      if (flags < 0) continue;  // the descriptor of the listing itself
      EXPECT_NE(flags & FD_CLOEXEC, 0) << "descriptor " << fd;
      ++own;
    }
    EXPECT_GT(own, 5);
  });
}

// The next server runs before the client knows that the old one is gone.
TEST_F(RestartTest, ServerCanRestartAtOnce) {
  Child client("client", [](Channel& channel) {
    Client self(channel);
    for (int round = 0; round < kRounds; ++round) {
      self.meet_server();
      const auto begin = Clock::now();
      uint64_t reached = 0;
      while (reached < kReceives) {
        self.send(reached);
        const urma_cr_t record = wait_for(self.endpoint.send_jfc);
        EXPECT_TRUE(record.status == URMA_CR_SUCCESS || record.status == URMA_CR_ACK_TIMEOUT_ERR)
            << record.status;
        if (record.status == URMA_CR_SUCCESS) ++reached;
        ASSERT_LT(Clock::now() - begin, patience(kLimit));
      }
      self.write(100);
      self.forget_memory();
      channel.sync();
    }
  });
  restart_server(&client);
}

// What nobody has tried to send does not end with a server that is gone meanwhile.
TEST_F(RestartTest, ASuspendedQueueReachesTheNextServer) {
  SKIP_WITHOUT(device_traits().reconnects, "requests that outlive a connection");
  const auto set_state = [](Client* client, urma_jetty_state_t state) {
    urma_jetty_attr_t attr = {JETTY_STATE, 0, state};
    ASSERT_EQ(urma_modify_jetty(client->endpoint.jetty, &attr), URMA_SUCCESS);
  };
  Child client("client", [&](Channel& channel) {
    Client self(channel);
    urma_jfc_t* done = self.endpoint.send_jfc;
    for (int round = 0; round < kRounds; ++round) {
      self.meet_server();
      if (round != 0) set_state(&self, URMA_JETTY_STATE_READY);
      for (uint64_t i = 0; i < kReceives; ++i) {
        if (round == 0) self.send(i);
        wait_for_success(done, i);
      }
      set_state(&self, URMA_JETTY_STATE_SUSPENDED);
      wait_for_status(done, URMA_CR_WR_SUSPEND_DONE);
      for (uint64_t i = 0; i < kReceives; ++i) self.send(i);
      channel.sync();  // and it is killed
      while (round + 1 < kRounds && !channel.has_message()) EXPECT_TRUE(has_nothing(done));
      self.forget_memory();
    }
  });
  restart_server(&client);
}

}  // namespace
}  // namespace urma_test
