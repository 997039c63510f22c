// SPDX-License-Identifier: MIT
//
// A process with peers in its own runtime directory and in others, at one queue and one segment.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr size_t kLargest = 1'200'000;
constexpr uint32_t kReceives = 32;

struct Stamp {
  uint32_t sender;
  uint32_t number;
};

constexpr uint32_t kRarity = 500;  // of the largest messages

// Of all kinds: in one slot of a ring, in several, by reference; in parts over the network.
size_t size_of(uint32_t number) {
  constexpr std::array<size_t, 8> kSizes = {8, 8, 40, 400, 8, 3000, 8, 40};
  return number % kRarity == kRarity - 1 ? kLargest : kSizes[number % kSizes.size()];
}

// Posts receives, and posts each again once it is taken: they complete in post order, and messages
// of a sender arrive in the order in which they were sent.
class Receiver {
 public:
  explicit Receiver(const Config& config) : endpoint_(config), memory_(kReceives * kLargest) {
    segment_ = endpoint_.add(memory_.data(), memory_.size());
    for (uint32_t i = 0; i < kReceives; ++i) post(i);
  }

  QueueId id() const { return endpoint_.queue_id(); }
  // Until all messages of the first senders have arrived. Others come and go.
  void take(uint32_t senders, uint32_t messages) {
    std::vector<uint32_t> next(senders, 0);
    uint64_t left = uint64_t{senders} * messages;
    for (uint64_t i = 0; left != 0; ++i) {
      if (endpoint_.config.events) await_event();
      const urma_cr_t cr = wait_for(endpoint_.receive_jfc);
      ASSERT_EQ(cr.status, URMA_CR_SUCCESS);
      ASSERT_EQ(cr.user_ctx, i) << "receives are taken out of their order";
      Stamp stamp;
      std::memcpy(&stamp, place(i), sizeof(stamp));
      if (stamp.sender < senders) {
        ASSERT_EQ(stamp.number, next[stamp.sender]++) << "of sender " << stamp.sender;
        --left;
      }
      ASSERT_EQ(cr.completion_len, size_of(stamp.number));
      const auto last = static_cast<char>(stamp.number);
      if (cr.completion_len > sizeof(stamp)) {
        ASSERT_EQ(place(i)[cr.completion_len - 1], last);
      }
      post(i + kReceives);
    }
  }
  void close() { endpoint_.close(); }

 private:
  char* place(uint64_t number) { return &memory_[number % kReceives * kLargest]; }
  void post(uint64_t number) { endpoint_.post_receive(segment_, place(number), kLargest, number); }
  void await_event() {
    ASSERT_EQ(urma_rearm_jfc(endpoint_.receive_jfc, false), URMA_SUCCESS);
    urma_jfc_t* ready = nullptr;
    ASSERT_EQ(urma_wait_jfc(endpoint_.jfce, 1, 20'000, &ready), 1);
    uint32_t events = 1;
    urma_ack_jfc(&ready, &events, 1);
  }

  Endpoint endpoint_;
  std::vector<char> memory_;
  urma_target_seg_t* segment_;
};

void send(Endpoint* endpoint, const QueueId& to, uint32_t sender, uint32_t messages) {
  constexpr uint32_t kAhead = 16;
  std::vector<char> memory(kAhead * kLargest);
  urma_target_seg_t* segment = endpoint->add(memory.data(), memory.size());
  urma_target_jetty_t* queue = endpoint->import(to);
  for (uint32_t i = 0; i < messages; ++i) {
    if (i >= kAhead) wait_for_success(endpoint->send_jfc, i - kAhead);
    char* const place = &memory[i % kAhead * kLargest];
    const size_t size = size_of(i);
    place[size - 1] = static_cast<char>(i);
    const Stamp stamp = {sender, i};
    std::memcpy(place, &stamp, sizeof(stamp));
    urma_sge_t local = piece(segment, place, size);
    endpoint->post(send_request(queue, &local, i));
  }
  for (uint32_t i = messages - std::min(messages, kAhead); i < messages; ++i) {
    wait_for_success(endpoint->send_jfc, i);
  }
}

// Large messages, until it is killed; or a few.
void send_large(Channel* channel, const QueueId& to, uint32_t sender, bool ends) {
  std::vector<char> memory(kLargest);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_jetty_t* queue = endpoint.import(to);
  const Stamp stamp = {sender, kRarity - 1};
  std::memcpy(memory.data(), &stamp, sizeof(stamp));
  memory.back() = static_cast<char>(stamp.number);
  urma_sge_t local = piece(segment, memory.data(), memory.size());
  for (uint64_t i = 0; !ends || i < 3; ++i) {
    endpoint.post(send_request(queue, &local, i));
    wait_for_success(endpoint.send_jfc, i);
    if (i == 0) channel->sync();
  }
}

// Of all TCP connections of this process.
uint64_t bytes_acknowledged() {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info = {};
    socklen_t size = sizeof(info);
    const int fd = std::stoi(entry.path().filename());
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) bytes += info.tcpi_bytes_acked;
  }
  return bytes;
}

bool all_ended(const std::vector<std::unique_ptr<Child>>& children) {
  return std::all_of(children.begin(), children.end(),
                     [](const auto& child) { return child->channel().has_message(); });
}

struct MixedTest : ProcessTest {
  // Even senders live in the directory of the receiver.
  static void mix(uint32_t senders, uint32_t messages, const Config& config, uint32_t guests = 0) {
    Child receiver("receiver", [=](Channel& channel) {
      live_in("one");
      Receiver here(config);
      channel.send(here.id());
      here.take(senders, messages);
      channel.sync();
      here.close();
    });
    const auto to = receiver.channel().receive<QueueId>();
    std::vector<std::unique_ptr<Child>> children;
    for (uint32_t i = 0; i < senders; ++i) {
      children.push_back(std::make_unique<Child>("sender", [=](Channel&) {
        live_in(i % 2 == 0 ? "one" : "other");
        OwnedEndpoint endpoint;
        send(&endpoint, to, i, messages);
      }));
    }
    for (uint32_t i = 0; i < guests || (guests != 0 && !all_ended(children)); ++i) {
      // Of four in turn: near and far, killed and not.
      const bool ends = i % 4 >= 2;
      Child guest("guest", [=](Channel& channel) {
        live_in(i % 2 == 0 ? "one" : "other");
        send_large(&channel, to, senders + i, ends);
      });
      guest.channel().sync();
      ends ? guest.expect_success() : guest.kill();
    }
    for (const auto& child : children) child->expect_success();
    receiver.channel().sync();
    receiver.expect_success();
  }
};

TEST_F(MixedTest, MessagesOfNearAndFarSendersAreTakenInOrder) {
  Config config;
  config.rnr_retry = 7;
  mix(/*senders=*/2, /*messages=*/10'000, config);
}

TEST_F(MixedTest, MessagesOfManySendersAreTakenInOrder) { mix(6, 1000, {}); }

TEST_F(MixedTest, SendersThatComeAndGoOrAreKilledDisturbNoOther) {
  mix(/*senders=*/2, /*messages=*/20'000, {}, /*guests=*/12);
}

// The far sender is stopped in the middle of its message, as a network that goes away stops it.
TEST_F(MixedTest, AFarMessageThatStopsHalfWayHoldsUpNoNearOne) {
  static constexpr size_t kBytes = 64 << 20;
  static constexpr uint32_t kNearMessages = 1000;
  Child receiver("receiver", [](Channel& channel) {
    live_in("one");
    std::vector<char> memory(kBytes);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    for (uint32_t i = 0; i < kReceives; ++i) {
      endpoint.post_receive(segment, memory.data(), memory.size());
    }
    channel.send(endpoint.queue_id());
    for (uint32_t i = 0; i < kNearMessages; ++i) {
      const urma_cr_t cr = wait_for(endpoint.receive_jfc);
      ASSERT_EQ(cr.status, URMA_CR_SUCCESS);
      ASSERT_EQ(cr.completion_len, 8U);
      endpoint.post_receive(segment, memory.data(), memory.size());
    }
    const urma_cr_t cr = wait_for(endpoint.receive_jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.completion_len, kBytes);
    EXPECT_EQ(memory.front(), 'f');
    EXPECT_EQ(memory.back(), 'r');
    channel.sync();
  });
  const auto to = receiver.channel().receive<QueueId>();
  Child far("far", [=](Channel&) {
    live_in("other");
    std::vector<char> memory(kBytes);
    memory.front() = 'f';
    memory.back() = 'r';
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_sge_t local = piece(segment, memory.data(), memory.size());
    endpoint.post(send_request(endpoint.import(to), &local));
    const auto deadline = Clock::now() + patience(seconds(10));
    while (bytes_acknowledged() < 4 << 20) ASSERT_LT(Clock::now(), deadline);
    ::raise(SIGSTOP);
    wait_for_success(endpoint.send_jfc, 0);
  });
  siginfo_t stopped = {};
  ASSERT_EQ(::waitid(P_PID, far.pid(), &stopped, WSTOPPED | WEXITED | WNOWAIT), 0);
  ASSERT_EQ(stopped.si_code, CLD_STOPPED);
  Child near("near", [=](Channel&) {
    live_in("one");
    OwnedEndpoint endpoint;
    std::array<char, 8> memory = {};
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* queue = endpoint.import(to);
    urma_sge_t local = piece(segment, memory.data(), memory.size());
    for (uint64_t i = 0; i < kNearMessages; ++i) {
      endpoint.post(send_request(queue, &local, i));
      wait_for_success(endpoint.send_jfc, i);
    }
  });
  near.expect_success();
  ASSERT_EQ(::kill(far.pid(), SIGCONT), 0);
  far.expect_success();
  receiver.channel().sync();
  receiver.expect_success();
}

TEST_F(MixedTest, AReceiverThatSleepsTakesBothKinds) {
  Config config;
  config.events = true;
  mix(2, 500, config);
}

// One list of requests to both: completions come in post order.
TEST_F(MixedTest, AListReachesNearAndFarTargets) {
  const auto own = [](const char* directory) {
    return [=](Channel& channel) {
      live_in(directory);
      std::array<uint64_t, 64> words = {};
      Endpoint endpoint;
      const Closing closing(endpoint);
      urma_target_seg_t* segment = endpoint.add(words.data(), sizeof(words));
      endpoint.post_receive(segment, &words[63], 8);
      channel.send(offer_of(endpoint, segment));
      EXPECT_EQ(wait_for(endpoint.receive_jfc).status, URMA_CR_SUCCESS);
      for (uint64_t i = 0; i < 32; ++i) EXPECT_EQ(words[i], i + 1);
      channel.sync();
    };
  };
  Child near("near", own("one"));
  Child far("far", own("other"));
  const std::array<Offer, 2> offers = {near.channel().receive<Offer>(),
                                       far.channel().receive<Offer>()};
  Child user("user", [&](Channel&) {
    live_in("one");
    std::array<uint64_t, 64> words = {};
    Endpoint endpoint;
    const Closing closing(endpoint);
    urma_target_seg_t* segment = endpoint.add(words.data(), sizeof(words));
    std::array<urma_target_jetty_t*, 2> queues;
    std::array<urma_target_seg_t*, 2> remotes;
    for (int i = 0; i < 2; ++i) {
      queues[i] = endpoint.import(offers[i].queue);
      remotes[i] = endpoint.import(offers[i].segment);
    }
    std::array<urma_sge_t, 64> local;
    std::array<urma_sge_t, 64> there;
    std::array<urma_jfs_wr_t, 64> list;
    for (uint64_t i = 0; i < 64; ++i) {
      const uint64_t to = i % 2;
      words[i] = i / 2 + 1;
      local[i] = piece(segment, &words[i], 8);
      there[i] = piece(remotes[to], offers[to].segment.va + i / 2 * 8, 8);
      list[i] = write_request(queues[to], &local[i], &there[i], i);
      if (i != 0) list[i - 1].next = &list[i];
    }
    urma_jfs_wr_t* bad = nullptr;
    ASSERT_EQ(endpoint.post(list.data(), &bad), URMA_SUCCESS);
    for (uint64_t i = 0; i < 64; ++i) wait_for_success(endpoint.send_jfc, i);
    // What was written before is there.
    for (urma_target_jetty_t* queue : queues) {
      endpoint.post(send_request(queue, local.data(), 64));
      wait_for_success(endpoint.send_jfc, 64);
    }
  });
  user.expect_success();
  for (Child* child : {&near, &far}) {
    child->channel().sync();
    child->expect_success();
  }
}

}  // namespace
}  // namespace urma_test
