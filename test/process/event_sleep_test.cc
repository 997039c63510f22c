// SPDX-License-Identifier: MIT
//
// Programs that sleep in every way that the descriptor of a JFCE allows, and what must wake them:
// messages, their own requests, and the end of a peer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <poll.h>
#include <sys/epoll.h>

#include <string>
#include <tuple>
#include <vector>

#include "test/process/event_party.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr size_t kLarge = 8 << 20;

using SleepTest = ProcessTest;

// Ways to sleep on the descriptor until it is readable.

void sleep_in_poll(int fd) {
  pollfd entry = {fd, POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, static_cast<int>(patience(seconds(10)).count())), 1);
}

class Epoll {
 public:
  Epoll(int fd, uint32_t mode) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event = {};
    event.events = EPOLLIN | mode;
    EXPECT_EQ(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), 0);
  }
  ~Epoll() { ::close(epoll_); }
  void sleep() {
    epoll_event event;
    EXPECT_EQ(::epoll_wait(epoll_, &event, 1, static_cast<int>(patience(seconds(10)).count())), 1);
  }

 private:
  int epoll_;
};

class Uring {
 public:
  Uring() { EXPECT_EQ(::io_uring_queue_init(4, &ring_, 0), 0); }
  ~Uring() { ::io_uring_queue_exit(&ring_); }
  void sleep(int fd) {
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
    ::io_uring_prep_poll_add(sqe, fd, POLLIN);
    ::io_uring_submit(&ring_);
    io_uring_cqe* cqe = nullptr;
    __kernel_timespec limit = {patience(seconds(10)).count() / 1000, 0};
    EXPECT_EQ(::io_uring_wait_cqe_timeout(&ring_, &cqe, &limit), 0);
    EXPECT_NE(cqe->res & POLLIN, 0);
    ::io_uring_cqe_seen(&ring_, cqe);
  }

 private:
  io_uring ring_;
};

enum class Way { kPoll, kLevel, kEdge, kUring };
enum class Then { kWaits, kPolls };
// Whether the message is on its way when the JFC is armed, and may be found by that.
enum class Sent { kAfter, kBefore };

// Sleeps in its own way, then asks the library, or only polls. Readiness without an event is
// allowed; an event without readiness is not.
void sleep_on_fd(Channel& channel, Way way, Then then, Sent sent) {
  Party party(channel);
  urma_jfc_t* const jfc = party.endpoint.receive_jfc;
  const int fd = party.endpoint.jfce->fd;
  EXPECT_EQ(::fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  Epoll level(fd, 0), edge(fd, EPOLLET);
  Uring uring;
  uint32_t events = 0;
  for (int i = 0; i < 50; ++i) {
    party.post_receive();
    if (sent == Sent::kBefore) order(channel, 64);
    party.arm(jfc);
    if (sent == Sent::kAfter) order(channel, 64);
    int got = 0;
    while (got == 0) {
      if (way == Way::kPoll) sleep_in_poll(fd);
      if (way == Way::kLevel) level.sleep();
      if (way == Way::kEdge) edge.sleep();
      if (way == Way::kUring) uring.sleep(fd);
      if (then == Then::kWaits) {
        while (party.wait(0) != nullptr) ++events;
      }
      got = drain(jfc);
    }
    EXPECT_EQ(got, 1);
    channel.receive<char>();
  }
  if (then == Then::kPolls) {
    while (party.wait(0) != nullptr) ++events;
  }
  party.ack(jfc, events);
  dismiss(channel);
}

using FdCase = std::tuple<Way, Then, Sent>;
class FdTest : public ProcessTest, public testing::WithParamInterface<FdCase> {};

TEST_P(FdTest, IsReadableWheneverAnEventWaits) {
  const auto [way, then, sent] = GetParam();
  // Long enough for most messages that were ordered before.
  if (sent == Sent::kBefore) ::setenv("URMA_BUSY_POLL_US", "1000", 1);
  run_two(
      "sleeper", [=](Channel& channel) { sleep_on_fd(channel, way, then, sent); }, "peer",
      [](Channel& channel) { obey(channel); });
}

std::string name_of(const testing::TestParamInfo<FdCase>& info) {
  const char* const ways[] = {"Poll", "Level", "Edge", "Uring"};
  return std::string(ways[static_cast<int>(std::get<0>(info.param))]) +
         (std::get<1>(info.param) == Then::kWaits ? "Waits" : "Polls") +
         (std::get<2>(info.param) == Sent::kBefore ? "SentBefore" : "");
}

INSTANTIATE_TEST_SUITE_P(Ways, FdTest,
                         testing::Combine(testing::Values(Way::kPoll, Way::kLevel, Way::kEdge,
                                                          Way::kUring),
                                          testing::Values(Then::kWaits, Then::kPolls),
                                          testing::Values(Sent::kAfter, Sent::kBefore)),
                         name_of);

// Both ends sleep: one until its message arrives, the other until it is delivered.
void both_asleep(size_t bytes) {
  run_two(
      "receiver",
      [=](Channel& channel) {
        Party party(channel, with_events(), bytes);
        for (int i = 0; i < 20; ++i) {
          party.post_receive();
          party.arm(party.endpoint.receive_jfc);
          channel.sync();
          party.expect_event(party.endpoint.receive_jfc);
          EXPECT_EQ(drain(party.endpoint.receive_jfc), 1);
        }
        channel.sync();
      },
      "sender",
      [=](Channel& channel) {
        Party party(channel, with_events(), bytes);
        for (int i = 0; i < 20; ++i) {
          party.arm(party.endpoint.send_jfc);
          channel.sync();
          party.send(bytes);
          party.expect_event(party.endpoint.send_jfc);
          EXPECT_EQ(drain(party.endpoint.send_jfc), 1);
        }
        channel.sync();
      });
}

TEST_F(SleepTest, SenderAndReceiverSleep) { both_asleep(64); }
TEST_F(SleepTest, SenderAndReceiverSleepOverALargeMessage) { both_asleep(kLarge); }

// Posts three messages at once, of which one may be solicited.
void post_three(Party& party, size_t solicited) {
  urma_sge_t here = piece(party.segment, party.memory.data() + party.size, 8);
  std::vector<urma_jfs_wr_t> wrs(3, send_request(party.peer, &here, 0));
  for (size_t i = 0; i < wrs.size(); ++i) {
    wrs[i].flag.bs.solicited_enable = i == solicited ? 1 : 0;
    wrs[i].next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
  }
  party.endpoint.post(wrs[0]);
}

TEST_F(SleepTest, AChainWakesForTheSolicitedMessageInIt) {
  // The first chain finds no way to the receiver yet.
  static constexpr size_t kNone = 3;
  static constexpr size_t kSolicited[] = {kNone, 0, 1, 2, kNone};
  run_two(
      "sleeper",
      [](Channel& channel) {
        Party party(channel);
        urma_jfc_t* const jfc = party.endpoint.receive_jfc;
        for (const size_t solicited : kSolicited) {
          for (int i = 0; i < 3; ++i) party.post_receive();
          party.arm(jfc, true);
          channel.sync();
          if (solicited != kNone) {
            urma_jfc_t* woken = nullptr;
            while (woken == nullptr && !testing::Test::HasFailure()) {
              sleep_in_poll(party.endpoint.jfce->fd);
              woken = party.wait(0);
            }
            EXPECT_EQ(woken, jfc);
            party.ack(jfc);
          }
          channel.sync();
          channel.sync();
          EXPECT_EQ(party.wait(0), nullptr);
          EXPECT_EQ(drain(jfc), 3);
        }
      },
      "peer",
      [](Channel& channel) {
        Party party(channel, Config());
        for (const size_t solicited : kSolicited) {
          channel.sync();
          post_three(party, solicited);
          channel.sync();
          // Not before: a sender whose polls stay empty wakes its receiver at last.
          for (int done = 0; done < 3;) done += drain(party.endpoint.send_jfc);
          channel.sync();
        }
      });
}

TEST_F(SleepTest, ALargeMessageReachesAReceiverThatPollsOnlyAfterAnEvent) {
  run_two(
      "sleeper",
      [](Channel& channel) {
        Party party(channel, with_events(), kLarge);
        party.post_receive();
        party.arm(party.endpoint.receive_jfc);
        order(channel, kLarge);
        while (drain(party.endpoint.receive_jfc) == 0) {
          sleep_in_poll(party.endpoint.jfce->fd);
          // Like a program that takes its events later: only the descriptor is emptied.
          epoll_event events[8];
          ::epoll_wait(party.endpoint.jfce->fd, events, 8, 0);
        }
        party.expect_event(party.endpoint.receive_jfc);
        channel.receive<char>();
        dismiss(channel);
      },
      "peer", [](Channel& channel) { obey(channel, Config(), kLarge); });
}

// The library of the sleeping process completes one-sided requests.
TEST_F(SleepTest, ALargeWriteCompletesWhileItsProgramSleeps) {
  run_two(
      "owner",
      [](Channel& channel) {
        std::vector<char> memory(kLarge);
        OwnedEndpoint endpoint;
        urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
        channel.send(endpoint.queue_id());
        channel.send(endpoint.segment_id(segment));
        channel.sync();
        EXPECT_EQ(memory.back(), 'w');
      },
      "sleeper",
      [](Channel& channel) {
        std::vector<char> memory(kLarge, 'w');
        OwnedEndpoint endpoint(with_events());
        urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
        urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
        urma_target_seg_t* remote = endpoint.import(channel.receive<SegmentId>());
        urma_sge_t here = piece(segment, memory.data(), kLarge);
        urma_sge_t there = piece(remote, remote->seg.ubva.va, kLarge);
        for (int i = 0; i < 5; ++i) {
          EXPECT_EQ(urma_rearm_jfc(endpoint.send_jfc, false), URMA_SUCCESS);
          endpoint.post(write_request(queue, &here, &there));
          sleep_in_poll(endpoint.jfce->fd);
          urma_jfc_t* jfc = nullptr;
          EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 1, kForEver, &jfc), 1);
          Party::ack(jfc);
          EXPECT_EQ(drain(endpoint.send_jfc), 1);
        }
        channel.sync();
      });
}

// A message that needs a new ring because the old one is closed: its sender makes no further call,
// and the receiver sleeps.
TEST_F(SleepTest, AMessageAfterALostRingWakesTheReceiver) {
  SKIP_WITHOUT(device_traits().reconnects, "requests that outlive their connection");
  run_two(
      "sleeper",
      [](Channel& channel) {
        Party party(channel);
        urma_jfc_t* const jfc = party.endpoint.receive_jfc;
        for (int i = 0; i < 20; ++i) {
          // Its own JFR keeps posted receives.
          for (const urma_jetty_state_t state : {URMA_JETTY_STATE_RESET, URMA_JETTY_STATE_READY}) {
            urma_jetty_attr_t attr = {};
            attr.mask = JETTY_STATE;
            attr.state = state;
            EXPECT_EQ(urma_modify_jetty(party.endpoint.jetty, &attr), URMA_SUCCESS);
          }
          party.post_receive();
          party.arm(jfc);
          channel.sync();
          const auto limit = static_cast<int>(patience(seconds(20)).count());
          EXPECT_EQ(party.wait(limit), jfc) << i;
          party.ack(jfc);
          EXPECT_EQ(drain(jfc), 1);
          channel.sync();
          channel.sync();
        }
      },
      "peer",
      [](Channel& channel) {
        Party party(channel, Config());
        for (int i = 0; i < 20; ++i) {
          channel.sync();
          urma_sge_t here = piece(party.segment, party.memory.data(), 8);
          urma_jfs_wr_t wr = send_request(party.peer, &here, 0);
          // Looks at the ring first, like every waiter.
          wr.flag.bs.fence = 1;
          party.endpoint.post(wr);
          channel.sync();
          wait_for_success(party.endpoint.send_jfc, 0);
          channel.sync();
        }
      });
}

// If processes map each other's memory, the message itself wakes the receiver, and the receive
// finds it at once. A device refuses the message until there is a receive, and its sender retries.
TEST_F(SleepTest, AReceivePostedAfterItsMessageRaisesTheEvent) {
  constexpr int kRounds = 20;
  const bool maps = device_traits().maps;
  run_two(
      "sleeper",
      [maps](Channel& channel) {
        Party party(channel);
        urma_jfc_t* const jfc = party.endpoint.receive_jfc;
        for (int i = 0; i < kRounds; ++i) {
          party.arm(jfc);
          EXPECT_EQ(party.wait(0), nullptr);
          channel.send('s');
          if (maps) sleep_in_poll(party.endpoint.jfce->fd);
          channel.receive<char>();  // posted
          EXPECT_EQ(party.wait(0), nullptr);
          party.post_receive();
          EXPECT_EQ(party.wait(maps ? 0 : kForEver), jfc);
          party.ack(jfc);
          EXPECT_EQ(drain(jfc), 1);
          channel.receive<char>();
        }
      },
      "peer",
      [](Channel& channel) {
        Party party(channel, Config());
        for (int i = 0; i < kRounds; ++i) {
          channel.receive<char>();
          party.send(8);
          channel.send('p');
          wait_for_success(party.endpoint.send_jfc, 0);
          channel.send('d');
        }
      });
}

TEST_F(SleepTest, TheDeathOfAPeerWakesItsSleepingSender) {
  wait_long_for_answers();
  Child victim("victim", [](Channel& channel) {
    Endpoint endpoint;
    channel.send(endpoint.queue_id());
    channel.receive<char>();
  });
  Child sleeper("sleeper", [](Channel& channel) {
    std::vector<char> memory(4096);
    OwnedEndpoint endpoint(with_events());
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
    EXPECT_EQ(urma_rearm_jfc(endpoint.send_jfc, false), URMA_SUCCESS);
    urma_sge_t here = piece(segment, memory.data(), 8);
    for (int i = 0; i < 4; ++i) endpoint.post(send_request(queue, &here));
    EXPECT_TRUE(has_nothing(endpoint.send_jfc));
    channel.send('r');
    channel.receive<char>();
    urma_jfc_t* jfc = nullptr;
    EXPECT_EQ(
        urma_wait_jfc(endpoint.jfce, 1, static_cast<int>(patience(seconds(20)).count()), &jfc), 1);
    EXPECT_EQ(jfc, endpoint.send_jfc);
    Party::ack(jfc);
    for (int i = 0; i < 4; ++i) wait_for_status(endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
  });
  sleeper.channel().send(victim.channel().receive<QueueId>());
  sleeper.channel().receive<char>();
  victim.kill();
  sleeper.channel().send('k');
  sleeper.expect_success();
}

urma_status_t enter(urma_jetty_t* jetty, urma_jetty_state_t state) {
  urma_jetty_attr_t attr = {JETTY_STATE, 0, state};
  return urma_modify_jetty(jetty, &attr);
}

// Leaves a marker that has no record any more, and arms the JFC where it lies.
void stop_go_on_and_arm(Endpoint& endpoint, urma_jetty_state_t stopped) {
  EXPECT_EQ(enter(endpoint.jetty, stopped), URMA_SUCCESS);
  EXPECT_EQ(enter(endpoint.jetty, URMA_JETTY_STATE_READY), URMA_SUCCESS);
  EXPECT_EQ(urma_rearm_jfc(endpoint.send_jfc, false), URMA_SUCCESS);
}

void expect_marker_event(Endpoint& endpoint) {
  urma_jfc_t* jfc = nullptr;
  const auto limit = static_cast<int>(patience(seconds(10)).count());
  ASSERT_EQ(urma_wait_jfc(endpoint.jfce, 1, limit, &jfc), 1);
  EXPECT_EQ(jfc, endpoint.send_jfc);
  Party::ack(jfc);
  wait_for_status(jfc, URMA_CR_WR_FLUSH_ERR_DONE);
}

TEST_F(SleepTest, AMarkerInThePlaceOfAnotherWakes) {
  for (const auto stopped : {URMA_JETTY_STATE_ERROR, URMA_JETTY_STATE_SUSPENDED}) {
    run_one([stopped](Channel&) {
      OwnedEndpoint endpoint(with_events());
      stop_go_on_and_arm(endpoint, stopped);
      urma_jfc_t* jfc = nullptr;
      EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 1, 0, &jfc), 0);
      EXPECT_EQ(enter(endpoint.jetty, URMA_JETTY_STATE_ERROR), URMA_SUCCESS);
      expect_marker_event(endpoint);
    });
  }
}

// The same where the death of the peer stops the queue.
TEST_F(SleepTest, TheMarkerOfADeadPeerInThePlaceOfAnotherWakes) {
  Config config = with_events();
  config.mode = URMA_TM_RC;
  Child victim("victim", [config](Channel& channel) {
    Party party(channel, config);
    party.endpoint.bind(party.peer);
    channel.sync();
    channel.receive<char>();
  });
  Child sleeper("sleeper", [config](Channel& channel) {
    Party party(channel, config);
    party.endpoint.bind(party.peer);
    stop_go_on_and_arm(party.endpoint, URMA_JETTY_STATE_SUSPENDED);
    channel.sync();
    expect_marker_event(party.endpoint);
  });
  introduce<QueueId>(victim, sleeper);
  victim.channel().sync();
  sleeper.channel().sync();
  victim.kill();
  sleeper.expect_success();
}

// What a peer sent before this side bound waits for the bind, and so does the sleeper.
TEST_F(SleepTest, BindWakesForMessagesSentBefore) {
  Config config = with_events();
  config.jetty = true;
  config.mode = URMA_TM_RC;
  run_two(
      "sleeper",
      [config](Channel& channel) {
        Party party(channel, config);
        party.post_receive(7);
        party.arm(party.endpoint.receive_jfc);
        channel.sync();  // sent
        EXPECT_EQ(party.wait(100), nullptr);
        party.endpoint.bind(party.peer);
        party.expect_event(party.endpoint.receive_jfc);
        EXPECT_EQ(drain(party.endpoint.receive_jfc), 1);
        channel.sync();
      },
      "sender",
      [config](Channel& channel) {
        Party party(channel, config);
        party.endpoint.bind(party.peer);
        party.send(8);
        channel.sync();  // sent
        // Makes no call until the message has arrived.
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
