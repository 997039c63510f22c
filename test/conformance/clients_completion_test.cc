// SPDX-License-Identifier: MIT
//
// What programs rely on in completion records and in completion events.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <tuple>

#include "test/conformance/clients.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

constexpr size_t kLarge = 3 << 20;
constexpr uint64_t kImmediate = 0xfedcba9876543210;

// -------------------------------------------------------------------------------------------------
// 5. Completions
// -------------------------------------------------------------------------------------------------

// A record filled with other bytes, to detect fields that are not set.
urma_cr_t poll_into(urma_jfc_t* jfc, uint8_t fill) {
  const auto deadline = Clock::now() + patience(seconds(10));
  urma_cr_t cr;
  do {
    std::memset(&cr, fill, sizeof(cr));
    if (Clock::now() > deadline) throw std::runtime_error("no completion in time");
  } while (urma_poll_jfc(jfc, 1, &cr) == 0);
  return cr;
}

void expect_sent(const Endpoint& endpoint, uint64_t user_ctx, size_t length, uint8_t fill) {
  const urma_cr_t cr = poll_into(endpoint.send_jfc, fill);
  EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
  EXPECT_EQ(cr.user_ctx, user_ctx);
  EXPECT_EQ(cr.flag.bs.s_r, 0);
  EXPECT_EQ(cr.flag.bs.jetty, endpoint.config.jetty ? 1 : 0);
  EXPECT_EQ(cr.completion_len, length);
  EXPECT_EQ(cr.local_id, endpoint.sender_id());
  // No value of the enum: programs that check it would take the record for a receive.
  EXPECT_TRUE(static_cast<unsigned>(cr.opcode) > URMA_CR_OPC_FLUSH_WRITE) << cr.opcode;
  EXPECT_EQ(cr.user_data, endpoint.jetty != nullptr ? reinterpret_cast<uintptr_t>(endpoint.jetty)
                                                    : reinterpret_cast<uintptr_t>(endpoint.jfs));
}

struct Name {
  urma_jetty_id_t id;
};

void expect_received(const Endpoint& endpoint, urma_cr_opcode_t opcode, uint64_t user_ctx,
                     size_t length, const Name& sender, uint8_t fill) {
  const urma_cr_t cr = poll_into(endpoint.receive_jfc, fill);
  EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
  EXPECT_EQ(cr.user_ctx, user_ctx);
  EXPECT_EQ(cr.opcode, opcode);
  EXPECT_EQ(cr.flag.bs.s_r, 1);
  EXPECT_EQ(cr.completion_len, length);
  EXPECT_EQ(cr.local_id, cr.flag.bs.jetty != 0 ? endpoint.receiver_id() : endpoint.jfr->jfr_id.id);
  EXPECT_TRUE(endpoint.jetty == nullptr || cr.flag.bs.jetty == 1);
  EXPECT_EQ(std::memcmp(&cr.remote_id.eid, &sender.id.eid, sizeof(urma_eid_t)), 0);
  EXPECT_EQ(cr.remote_id.uasid, sender.id.uasid);
  EXPECT_EQ(cr.remote_id.id, sender.id.id);
  if (opcode != URMA_CR_OPC_SEND) {
    EXPECT_EQ(cr.imm_data, kImmediate + user_ctx);
  }
}

Body talker(const Config& config, bool sends) {
  return [=](Channel& channel) {
    Speaker speaker(config);
    Endpoint& endpoint = speaker.endpoint;
    const bool immediates = traits_of(endpoint.ctx).immediates;
    for (uint64_t i = 0; i < 4; ++i) speaker.post_receive(i);
    speaker.meet(channel);
    const Name mine = {endpoint.jetty != nullptr ? endpoint.jetty->jetty_id : endpoint.jfs->jfs_id};
    const auto theirs = channel.swap(mine);
    if (sends) {
      urma_sge_t here = piece(speaker.out_segment, speaker.out.data(), 100);
      urma_sge_t there = piece(speaker.remote, speaker.remote->seg.ubva.va, 100);
      endpoint.post(send_request(speaker.peer, &here, 0));
      endpoint.post(immediates
                        ? send_imm_request(speaker.peer, &here, kImmediate + 1, 0xffffffffffffffff)
                        : send_request(speaker.peer, &here, 0xffffffffffffffff));
      expect_sent(endpoint, 0, 100, 0x00);
      expect_sent(endpoint, 0xffffffffffffffff, 100, 0xff);
      if (config.mode != URMA_TM_UM && immediates) {
        endpoint.post(write_imm_request(speaker.peer, &here, &there, kImmediate + 2, 3));
        expect_sent(endpoint, 3, 100, 0x00);
      }
      endpoint.post(send_request(speaker.peer, &here, 4));
      expect_sent(endpoint, 4, 100, 0xff);
    } else {
      uint64_t next = 0;
      expect_received(endpoint, URMA_CR_OPC_SEND, next++, 100, theirs, 0x00);
      expect_received(endpoint, immediates ? URMA_CR_OPC_SEND_WITH_IMM : URMA_CR_OPC_SEND, next++,
                      100, theirs, 0xff);
      if (config.mode != URMA_TM_UM && immediates) {
        expect_received(endpoint, URMA_CR_OPC_WRITE_WITH_IMM, next++, 100, theirs, 0x00);
      }
      expect_received(endpoint, URMA_CR_OPC_SEND, next++, 100, theirs, 0xff);
    }
    channel.sync();
    endpoint.close();
  };
}

TEST_F(Clients, C5_01_FieldsOnBothSides) {
  for (const auto mode : {URMA_TM_RM, URMA_TM_RC, URMA_TM_UM}) {
    for (const bool jetty : {true, false}) {
      if ((mode == URMA_TM_RC && !jetty) || !device_traits().has_mode(mode)) continue;
      SCOPED_TRACE(std::to_string(mode) + (jetty ? " jetty" : " JFS and JFR"));
      const Config config = config_of(mode, jetty);
      run_two("sender", talker(config, true), "receiver", talker(config, false));
    }
  }
}

// Requests of all sizes and paths, whose completions must not overtake each other: user_ctx counts
// from 0.
TEST_F(Clients, C5_02_FirstInFirstOut) {
  for (const auto mode : {URMA_TM_RM, URMA_TM_RC}) {
    constexpr uint64_t kRounds = 40;
    run_two(
        "sender",
        [mode](Channel& channel) {
          Speaker speaker(config_of(mode), kLarge);
          speaker.meet(channel);
          Endpoint& endpoint = speaker.endpoint;
          uint64_t posted = 0, completed = 0;
          for (uint64_t round = 0; round < kRounds; ++round) {
            const size_t size = round % 5 == 0 ? kLarge : 1 + round * 37;
            speaker.send(size, posted++);
            speaker.write(round % 3 == 0 ? kLarge : 8, posted++);
            urma_sge_t here = piece(speaker.out_segment, speaker.out.data(), 64);
            urma_sge_t there = piece(speaker.remote, speaker.remote->seg.ubva.va, 64);
            endpoint.post(read_request(speaker.peer, &here, &there, posted++));
            while (posted - completed > 32) wait_for_success(endpoint.send_jfc, completed++);
          }
          while (completed < posted) wait_for_success(endpoint.send_jfc, completed++);
          channel.sync();
          endpoint.close();
        },
        "receiver",
        [mode](Channel& channel) {
          Speaker speaker(config_of(mode), kLarge);
          for (uint64_t i = 0; i < kRounds; ++i) speaker.post_receive(i);
          speaker.meet(channel);
          for (uint64_t i = 0; i < kRounds; ++i) {
            const urma_cr_t cr = wait_for_success(speaker.endpoint.receive_jfc, i);
            EXPECT_EQ(cr.completion_len, i % 5 == 0 ? kLarge : 1 + i * 37);
          }
          channel.sync();
          speaker.endpoint.close();
        });
  }
}

TEST_F(Clients, C5_03_AnEmptyMessageWithoutPieces) {
  for (const auto mode : {URMA_TM_RM, URMA_TM_RC, URMA_TM_UM}) {
    if (!device_traits().has_mode(mode)) continue;
    SCOPED_TRACE(mode);
    run_one([mode](Channel&) {
      Self self(config_of(mode));
      Endpoint& endpoint = self.endpoint;
      const bool immediates = traits_of(endpoint.ctx).immediates;
      endpoint.post_receive(self.segment, self.in(), 64, 1);
      urma_jfs_wr_t wr = send_imm_request(self.queue, nullptr, kImmediate, 2);
      if (!immediates) wr.opcode = URMA_OPC_SEND;
      wr.send.src = {nullptr, 0};
      endpoint.post(wr);
      EXPECT_EQ(wait_for_success(endpoint.send_jfc, 2).completion_len, 0u);
      const urma_cr_t cr = wait_for_success(endpoint.receive_jfc, 1);
      EXPECT_EQ(cr.completion_len, 0u);
      EXPECT_EQ(cr.opcode, immediates ? URMA_CR_OPC_SEND_WITH_IMM : URMA_CR_OPC_SEND);
      EXPECT_EQ(cr.imm_data, immediates ? kImmediate : 0u);
    });
  }
}

TEST_F(Clients, C5_04_BadWrIsWrittenOnlyOnFailure) {
  run_one([](Channel&) {
    for (const bool jetty : {true, false}) {
      Self self(config_of(URMA_TM_RM, jetty));
      Endpoint& endpoint = self.endpoint;
      urma_sge_t into = piece(self.segment, self.in(), 64);
      urma_jfr_wr_t untouched_receive, *bad_receive = &untouched_receive;
      urma_jfr_wr_t receives[2] = {{{&into, 1}, 1, &receives[1]}, {{&into, 1}, 2, nullptr}};
      EXPECT_EQ(endpoint.post_receive(receives, &bad_receive), URMA_SUCCESS);
      EXPECT_EQ(bad_receive, &untouched_receive);

      urma_sge_t here = piece(self.segment, self.out(), 8);
      urma_jfs_wr_t untouched, *bad = &untouched;
      urma_jfs_wr_t sends[2] = {send_request(self.queue, &here, 1),
                                send_request(self.queue, &here, 2)};
      sends[0].next = &sends[1];
      EXPECT_EQ(endpoint.post(sends, &bad), URMA_SUCCESS);
      EXPECT_EQ(bad, &untouched);
      for (uint64_t i = 1; i <= 2; ++i) wait_for_success(endpoint.send_jfc, i);
      for (uint64_t i = 1; i <= 2; ++i) wait_for_success(endpoint.receive_jfc, i);
      sends[1].opcode = URMA_OPC_LAST;
      EXPECT_EQ(endpoint.post(&sends[1], &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &sends[1]);
    }
  });
}

TEST_F(Clients, C5_04_InlineNeedsNoSegment) {
  run_one([](Channel&) {
    Self self;
    Endpoint& endpoint = self.endpoint;
    endpoint.post_receive(self.segment, self.in(), 64, 1);
    char text[32] = "from anywhere";
    urma_sge_t here = piece(nullptr, text, sizeof(text));
    urma_jfs_wr_t wr = send_request(self.queue, &here, 2);
    wr.flag.bs.inline_flag = URMA_INLINE_ENABLE;
    endpoint.post(wr);
    std::memset(text, 0, sizeof(text));  // ours again
    wait_for_success(endpoint.send_jfc, 2);
    EXPECT_EQ(wait_for_success(endpoint.receive_jfc, 1).completion_len, sizeof(text));
    EXPECT_STREQ(self.in(), "from anywhere");
  });
}

TEST_F(Clients, C5_04_PollNeverGivesMoreThanAsked) {
  run_one([](Channel&) {
    constexpr int kRecords = 40;
    Self self;
    Endpoint& endpoint = self.endpoint;
    urma_sge_t here = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    for (int i = 0; i < kRecords; ++i) endpoint.post(write_request(self.queue, &here, &there));
    int left = kRecords;
    const auto deadline = Clock::now() + patience(seconds(10));
    for (int turn = 0; left > 0; ++turn) {
      ASSERT_LT(Clock::now(), deadline);
      const int asked = std::array{0, 1, 3, 7, 16}[turn % 5];
      std::vector<urma_cr_t> records(2 * kRecords);
      std::memset(records.data(), 0x5a, records.size() * sizeof(urma_cr_t));
      const std::vector<urma_cr_t> before = records;
      const int n = urma_poll_jfc(endpoint.send_jfc, asked, records.data());
      ASSERT_GE(n, 0);
      ASSERT_LE(n, asked);
      EXPECT_EQ(std::memcmp(records.data() + n, before.data() + n,
                            (records.size() - n) * sizeof(urma_cr_t)),
                0);
      left -= n;
    }
    EXPECT_EQ(left, 0);
    EXPECT_TRUE(has_nothing(endpoint.send_jfc));
  });
}

// -------------------------------------------------------------------------------------------------
// 6. Events
// -------------------------------------------------------------------------------------------------

Config with_events() {
  Config config;
  config.events = true;
  return config;
}

void arm(urma_jfc_t* jfc) { EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS); }
void ack(urma_jfc_t* jfc) {
  uint32_t one = 1;
  urma_ack_jfc(&jfc, &one, 1);
}

TEST_F(Clients, C6_01_ArmingWithCompletionsPresentFiresAtOnce) {
  run_one([](Channel&) {
    Self self(with_events());
    Endpoint& endpoint = self.endpoint;
    urma_jfc_t* fired[4] = {};
    EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 4, 0, fired), 0);
    urma_sge_t here = piece(self.segment, self.out(), 8);
    endpoint.post_receive(self.segment, self.in(), 64, 1);
    endpoint.post(send_request(self.queue, &here, 2));
    wait_for_success(endpoint.send_jfc, 2);
    EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 4, 0, fired), 0);  // not armed
    arm(endpoint.receive_jfc);
    pollfd readable = {endpoint.jfce->fd, POLLIN, 0};
    EXPECT_EQ(::poll(&readable, 1, 0), 1);
    EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 4, 0, fired), 1);
    EXPECT_EQ(fired[0], endpoint.receive_jfc);  // the very pointer that was created
    // Dry: a program that asks until nothing is left is done.
    EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 4, 0, fired), 0);
    ack(endpoint.receive_jfc);
    EXPECT_EQ(endpoint.receive_jfc->comp_events_acked, 1u);
    wait_for_success(endpoint.receive_jfc, 1);
  });
}

TEST_F(Clients, C6_01_AJfcWithoutAJfceIsPolled) {
  run_one([](Channel&) {
    Self self;
    Endpoint& endpoint = self.endpoint;
    EXPECT_EQ(endpoint.send_jfc->jfc_cfg.jfce, nullptr);
    urma_sge_t here = piece(self.segment, self.out(), 8);
    endpoint.post_receive(self.segment, self.in(), 64, 1);
    endpoint.post(send_request(self.queue, &here, 2));
    wait_for_success(endpoint.send_jfc, 2);
    wait_for_success(endpoint.receive_jfc, 1);
  });
}

enum class Order { kWaitAckArmPoll, kWaitPollAckArm };
enum class Sleep { kWaitJfc, kEdgeEpoll, kPoll };

// Sleeps on the descriptor, or in the library.
class Sleeper {
 public:
  Sleeper(urma_jfce_t* jfce, Sleep how) : jfce_(jfce), how_(how) {
    if (how == Sleep::kWaitJfc) return;
    const int flags = ::fcntl(jfce->fd, F_GETFL);
    EXPECT_EQ(::fcntl(jfce->fd, F_SETFL, flags | O_NONBLOCK), 0);
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLET;
    EXPECT_EQ(::epoll_ctl(epoll_, EPOLL_CTL_ADD, jfce->fd, &event), 0);
  }
  ~Sleeper() { ::close(epoll_); }

  // Some of the fired JFCs; NULL: ask again.
  urma_jfc_t* next() {
    urma_jfc_t* fired = nullptr;
    const int limit = static_cast<int>(patience(seconds(10)).count());
    if (how_ == Sleep::kWaitJfc) {
      EXPECT_EQ(urma_wait_jfc(jfce_, 1, limit, &fired), 1);
      return fired;
    }
    // An edge is reported once, so no one may sleep before the library reports that it is dry.
    if (urma_wait_jfc(jfce_, 1, 0, &fired) == 1) return fired;
    epoll_event event;
    pollfd entry = {jfce_->fd, POLLIN, 0};
    EXPECT_EQ(
        how_ == Sleep::kPoll ? ::poll(&entry, 1, limit) : ::epoll_wait(epoll_, &event, 1, limit),
        1);
    return nullptr;
  }

 private:
  urma_jfce_t* jfce_;
  Sleep how_;
  int epoll_ = -1;
};

Body ball_player(Order order, Sleep sleep, bool serves) {
  return [=](Channel& channel) {
    constexpr uint32_t kRounds = kSanitized ? 100 : 1000;
    Config config = with_events();
    config.send_depth = kRounds;  // a whole game may pass before the sends are polled
    Speaker speaker(config);
    Endpoint& endpoint = speaker.endpoint;
    speaker.post_receive(0);
    speaker.meet(channel);
    Sleeper sleeper(endpoint.jfce, sleep);
    arm(endpoint.receive_jfc);
    arm(endpoint.send_jfc);
    channel.sync();
    uint64_t sent = 0, done = 0, received = 0;
    const auto drain = [&](urma_jfc_t* jfc) {
      urma_cr_t cr;
      while (urma_poll_jfc(jfc, 1, &cr) == 1) {
        EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
        EXPECT_EQ(cr.user_ctx, jfc == endpoint.send_jfc ? done : received);
        if (jfc == endpoint.send_jfc) {
          ++done;
          continue;
        }
        speaker.post_receive(++received);
        if (sent < kRounds) speaker.send(8, sent++);
      }
    };
    if (serves) speaker.send(8, sent++);
    while (received < kRounds || done < kRounds) {
      urma_jfc_t* jfc = sleeper.next();
      if (jfc == nullptr) continue;
      EXPECT_TRUE(jfc == endpoint.send_jfc || jfc == endpoint.receive_jfc);
      if (order == Order::kWaitPollAckArm) drain(jfc);
      ack(jfc);
      arm(jfc);
      if (order == Order::kWaitAckArmPoll) drain(jfc);
    }
    channel.sync();
    endpoint.close();
  };
}

class ClientsOrder : public ProcessTest,
                     public testing::WithParamInterface<std::tuple<Order, Sleep>> {};

TEST_P(ClientsOrder, C6_01_LosesNoWakeUp) {
  const auto [order, sleep] = GetParam();
  run_two("first", ball_player(order, sleep, true), "second", ball_player(order, sleep, false));
}

std::string name_of(const testing::TestParamInfo<std::tuple<Order, Sleep>>& info) {
  const char* const ways[] = {"WaitJfc", "EdgeEpoll", "Poll"};
  const auto [order, sleep] = info.param;
  return std::string(order == Order::kWaitAckArmPoll ? "PollLast" : "PollFirst") +
         ways[static_cast<int>(sleep)];
}

INSTANTIATE_TEST_SUITE_P(
    All, ClientsOrder,
    testing::Combine(testing::Values(Order::kWaitAckArmPoll, Order::kWaitPollAckArm),
                     testing::Values(Sleep::kWaitJfc, Sleep::kEdgeEpoll, Sleep::kPoll)),
    name_of);

TEST_F(Clients, C6_02_NoAsyncEventWithoutWaiting) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    ASSERT_GE(endpoint.ctx->async_fd, 0);
    const int flags = ::fcntl(endpoint.ctx->async_fd, F_GETFL);
    EXPECT_EQ(::fcntl(endpoint.ctx->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
    pollfd entry = {endpoint.ctx->async_fd, POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    urma_async_event_t event;
    EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_FAIL);
  });
}

}  // namespace
}  // namespace urma_test
