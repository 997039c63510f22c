// SPDX-License-Identifier: MIT
//
// Completion events between processes: a sleeper is woken exactly once, by what it armed for, no
// matter how it sleeps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "test/process/configs.h"
#include "test/process/event_party.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr int kRounds = 200;

enum class Order { kWaitPollAckArm, kWaitAckArmPoll };

// One message each way per round; both sleep in between.
Body ping_pong(Order order, bool first, bool lock_free) {
  return [=](Channel& channel) {
    Party party(channel, with_events(lock_free));
    urma_jfc_t* const jfc = party.endpoint.receive_jfc;
    party.arm(jfc);
    channel.sync();
    int received = 0;
    for (int round = 0; round < kRounds; ++round) {
      party.post_receive();
      if (first) party.send(8);
      while (received <= round) {
        ASSERT_EQ(party.wait(), jfc);
        if (order == Order::kWaitPollAckArm) {
          received += drain(jfc);
          party.ack(jfc);
          party.arm(jfc);
        } else {
          party.ack(jfc);
          party.arm(jfc);
          received += drain(jfc);
        }
      }
      if (!first) party.send(8);
      while (drain(party.endpoint.send_jfc) == 0) {
      }
    }
    EXPECT_EQ(received, kRounds);
    channel.sync();
  };
}

using EventTest = ProcessTest;
class EventOrderTest : public ProcessTest,
                       public testing::WithParamInterface<std::tuple<Order, bool>> {};

TEST_P(EventOrderTest, LosesNoWakeUp) {
  const auto [order, lock_free] = GetParam();
  run_two("first", ping_pong(order, true, lock_free), "second", ping_pong(order, false, lock_free));
}

INSTANTIATE_TEST_SUITE_P(Orders, EventOrderTest,
                         testing::Combine(testing::Values(Order::kWaitPollAckArm,
                                                          Order::kWaitAckArmPoll),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Order::kWaitPollAckArm
                                                  ? "PollFirst"
                                                  : "PollLast") +
                                  (std::get<1>(info.param) ? "LockFree" : "Locked");
                         });

TEST_F(EventTest, ArmingWithCompletionsPresentFiresAtOnce) {
  run_two(
      "sleeper",
      [](Channel& channel) {
        Party party(channel);
        urma_jfc_t* const jfc = party.endpoint.receive_jfc;
        for (int i = 0; i < 3; ++i) party.post_receive();
        EXPECT_EQ(party.wait(0), nullptr);
        // Delivered, as the sender knows, but not armed.
        order(channel, 8);
        while (has_nothing(party.endpoint.receive_jfc)) {
        }
        channel.receive<char>();
        order(channel, 8);
        channel.receive<char>();
        EXPECT_EQ(party.wait(0), nullptr);
        party.arm(jfc);
        EXPECT_EQ(party.wait(0), jfc);
        party.ack(jfc);
        // Disarmed now; check again.
        EXPECT_EQ(party.wait(0), nullptr);
        party.arm(jfc);
        EXPECT_EQ(party.wait(0), jfc);
        party.ack(jfc);
        EXPECT_EQ(drain(jfc), 1);
        party.arm(jfc);
        EXPECT_EQ(party.wait(0), nullptr);
        dismiss(channel);
      },
      "peer", [](Channel& channel) { obey(channel); });
}

// Whether the message lies in the ring, or is copied from where it is.
TEST_F(EventTest, SolicitedOnlyWaitsForASolicitedCompletion) {
  run_two(
      "sleeper",
      [](Channel& channel) {
        Party party(channel);
        urma_jfc_t* const jfc = party.endpoint.receive_jfc;
        for (const int bytes : {8, 4096}) {
          SCOPED_TRACE(bytes);
          for (int i = 0; i < 2; ++i) party.post_receive();
          party.arm(jfc, true);
          order(channel, bytes);
          channel.receive<char>();
          EXPECT_EQ(party.wait(0), nullptr);
          order(channel, bytes, true);
          EXPECT_EQ(party.wait(), jfc);
          party.ack(jfc);
          channel.receive<char>();
          // Still unpolled.
          party.arm(jfc, true);
          EXPECT_EQ(party.wait(0), jfc);
          party.ack(jfc);
          EXPECT_EQ(drain(jfc), 2);
          // A failed request counts too.
          party.arm(jfc, true);
          party.endpoint.post_receive(party.segment, party.memory.data(), 4);
          order(channel, bytes);
          party.expect_event(jfc);
          wait_for_status(jfc, URMA_CR_LOC_LEN_ERR);
          EXPECT_EQ(channel.receive<char>(), URMA_CR_REM_RESP_LEN_ERR);
        }
        dismiss(channel);
      },
      "peer", [](Channel& channel) { obey(channel); });
}

TEST_F(EventTest, TimeoutsAreKept) {
  run_one([](Channel&) {
    Config config = with_events();
    OwnedEndpoint endpoint(config);
    EXPECT_EQ(urma_rearm_jfc(endpoint.receive_jfc, false), URMA_SUCCESS);
    for (const int flags : {0, O_NONBLOCK}) {
      EXPECT_EQ(::fcntl(endpoint.jfce->fd, F_SETFL, flags), 0);
      urma_jfc_t* jfcs[4];
      for (const int ms : {0, 1, 37, 100}) {
        const auto start = Clock::now();
        EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 4, ms, jfcs), 0);
        const auto took = Clock::now() - start;
        EXPECT_GE(took, milliseconds(ms));
        if (is_soak()) {
          EXPECT_LT(took, patience(milliseconds(ms + 200)));
        }
      }
    }
  });
}

TEST_F(EventTest, ASignalEndsAWait) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint(with_events());
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;  // as signal() sets
    EXPECT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
    std::atomic<bool> over{false};
    std::thread interrupter([&over, waiter = ::pthread_self()] {
      while (!over) ::pthread_kill(waiter, SIGUSR1);
    });
    urma_jfc_t* jfc;
    errno = 0;
    EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 1, kForEver, &jfc), -1);
    EXPECT_EQ(errno, EINTR);
    over = true;
    interrupter.join();
  });
}

// A JFC, and a JFR and a JFS on it that reach each other.
struct Queues {
  urma_jfc_t* jfc;
  urma_jfr_t* jfr;
};

TEST_F(EventTest, ManyJfcsOfOneJfceAreDistinguished) {
  run_two(
      "sleeper",
      [](Channel& channel) {
        constexpr int kJfcs = 40;
        Party party(channel);
        std::vector<Queues> queues;
        for (int i = 0; i < kJfcs; ++i) {
          urma_jfc_cfg_t cfg = jfc_config(16, party.endpoint.jfce);
          urma_jfc_t* jfc = urma_create_jfc(party.endpoint.ctx, &cfg);
          urma_jfr_cfg_t jfr_cfg = jfr_config(jfc, 16);
          queues.push_back({jfc, urma_create_jfr(party.endpoint.ctx, &jfr_cfg)});
          ASSERT_NE(queues.back().jfr, nullptr);
          urma_sge_t into = piece(party.segment, party.memory.data(), 64);
          urma_jfr_wr_t wr = {{&into, 1}, 0, nullptr};
          urma_jfr_wr_t* bad;
          EXPECT_EQ(urma_post_jfr_wr(queues.back().jfr, &wr, &bad), URMA_SUCCESS);
          party.arm(jfc);
          channel.send(QueueId{queues.back().jfr->jfr_id.eid, queues.back().jfr->jfr_id.id,
                               kNoToken, false});
        }
        // Never more than 16 at once; in the end all, each once.
        std::vector<urma_jfc_t*> fired;
        while (fired.size() < kJfcs) {
          urma_jfc_t* some[kJfcs];
          const int n = urma_wait_jfc(party.endpoint.jfce, kJfcs, kForEver, some);
          ASSERT_GT(n, 0);
          ASSERT_LE(n, 16);
          std::vector<uint32_t> once(static_cast<size_t>(n), 1);
          urma_ack_jfc(some, once.data(), static_cast<uint32_t>(n));
          fired.insert(fired.end(), some, some + n);
        }
        std::sort(fired.begin(), fired.end());
        EXPECT_EQ(std::unique(fired.begin(), fired.end()), fired.end());
        EXPECT_EQ(party.wait(0), nullptr);
        channel.sync();
        for (const Queues& both : queues) {
          EXPECT_EQ(drain(both.jfc), 1);
          EXPECT_EQ(urma_delete_jfr(both.jfr), URMA_SUCCESS);
          EXPECT_EQ(urma_delete_jfc(both.jfc), URMA_SUCCESS);
        }
      },
      "peer",
      [](Channel& channel) {
        Party party(channel, Config());
        for (int i = 0; i < 40; ++i) {
          urma_target_jetty_t* to = party.endpoint.import(channel.receive<QueueId>());
          urma_sge_t here = piece(party.segment, party.memory.data(), 8);
          party.endpoint.post(send_request(to, &here));
        }
        for (int i = 0; i < 40; ++i) wait_for_success(party.endpoint.send_jfc, 0);
        channel.sync();
      });
}

TEST_F(EventTest, DeletingAJfcWaitsForItsAcknowledgements) {
  run_one([](Channel&) {
    for (const bool non_blocking : {false, true}) {
      Config config = with_events();
      config.non_blocking = non_blocking;
      Endpoint endpoint(config);
      std::vector<char> memory(4096);
      urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
      urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
      endpoint.post_receive(segment, memory.data(), 64);
      EXPECT_EQ(urma_rearm_jfc(endpoint.receive_jfc, false), URMA_SUCCESS);
      urma_sge_t here = piece(segment, memory.data() + 64, 8);
      endpoint.post(send_request(self, &here));
      urma_jfc_t* jfc = nullptr;
      ASSERT_EQ(urma_wait_jfc(endpoint.jfce, 1, kForEver, &jfc), 1);
      EXPECT_EQ(jfc, endpoint.receive_jfc);
      wait_for_success(endpoint.send_jfc, 0);
      EXPECT_EQ(urma_delete_jfce(endpoint.jfce), URMA_FAIL);
      EXPECT_EQ(urma_delete_jfc(jfc), URMA_EAGAIN);  // its queues still exist
      endpoint.unimport(self);
      EXPECT_EQ(urma_delete_jetty(endpoint.jetty), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jfr(endpoint.jfr), URMA_SUCCESS);
      if (non_blocking) {
        EXPECT_EQ(urma_delete_jfc(jfc), URMA_EAGAIN);
        EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
        Party::ack(jfc);
        EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
      } else {
        std::atomic<bool> gone{false};
        std::thread deleter([&] {
          EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
          gone = true;
        });
        // It may not have started yet; then this proves less but never fails wrongly.
        for (int i = 0; i < 100; ++i) {
          EXPECT_FALSE(gone);
          std::this_thread::yield();
        }
        Party::ack(jfc);
        deleter.join();
      }
      EXPECT_EQ(urma_delete_jfc(endpoint.send_jfc), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jfce(endpoint.jfce), URMA_SUCCESS);
      EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_context(endpoint.ctx), URMA_SUCCESS);
      EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    }
  });
}

TEST_F(EventTest, ModerationHoldsEventsBack) {
  run_two(
      "sleeper",
      [](Channel& channel) {
        Party party(channel);
        urma_jfc_t* const jfc = party.endpoint.receive_jfc;
        for (int i = 0; i < 20; ++i) party.post_receive();
        const auto modify = [&](uint32_t mask, uint16_t count, uint16_t period) {
          urma_jfc_attr_t attr = {mask, count, period};
          return urma_modify_jfc(jfc, &attr);
        };
        EXPECT_EQ(modify(0, 1, 4), URMA_EINVAL);
        EXPECT_EQ(modify(JFC_MODERATE_PERIOD, 0, 5), URMA_EINVAL);
        EXPECT_EQ(modify(JFC_MODERATE_COUNT, 0xFFFF, 0), URMA_EINVAL);
        EXPECT_EQ(modify(JFC_MODERATE_COUNT, 4, 0), URMA_SUCCESS);
        party.arm(jfc);
        for (int i = 0; i < 4; ++i) {
          EXPECT_EQ(party.wait(0), nullptr) << i;
          order(channel, 8);
          channel.receive<char>();
        }
        EXPECT_EQ(party.wait(), jfc);
        party.ack(jfc);
        EXPECT_EQ(drain(jfc), 4);
        // Existing records count.
        EXPECT_EQ(modify(JFC_MODERATE_COUNT, 2, 0), URMA_SUCCESS);
        for (int i = 0; i < 2; ++i) {
          order(channel, 8);
          channel.receive<char>();
        }
        party.arm(jfc);
        EXPECT_EQ(party.wait(), jfc);
        party.ack(jfc);
        EXPECT_EQ(drain(jfc), 2);
        // The period ends the wait for more.
        EXPECT_EQ(modify(JFC_MODERATE_COUNT | JFC_MODERATE_PERIOD, 100, 16384), URMA_SUCCESS);
        party.arm(jfc);
        const auto start = Clock::now();
        order(channel, 8);
        EXPECT_EQ(party.wait(), jfc);
        EXPECT_GE(Clock::now() - start, milliseconds(16));
        party.ack(jfc);
        channel.receive<char>();
        EXPECT_EQ(drain(jfc), 1);
        dismiss(channel);
      },
      "peer", [](Channel& channel) { obey(channel); });
}

TEST_F(EventTest, WithoutAJfceArmingDoesNothing) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    EXPECT_EQ(urma_rearm_jfc(endpoint.receive_jfc, false), URMA_SUCCESS);
  });
}

TEST_F(EventTest, SeveralThreadsWaitOnOneJfce) {
  run_two(
      "sleepers",
      [](Channel& channel) {
        constexpr int kMessages = 300;
        Party party(channel);
        urma_jfc_t* const jfc = party.endpoint.receive_jfc;
        for (int i = 0; i < 32; ++i) party.post_receive();
        party.arm(jfc);
        std::atomic<int> received{0};
        const auto sleeper = [&] {
          while (received < kMessages) {
            if (party.wait(20) == nullptr) continue;
            party.ack(jfc);
            party.arm(jfc);
            const int got = drain(jfc);
            for (int i = 0; i < got; ++i) party.post_receive();
            received += got;
          }
        };
        channel.send(kMessages);
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i) threads.emplace_back(sleeper);
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(received, kMessages);
        channel.sync();
        while (party.wait(0) != nullptr) party.ack(jfc);
      },
      "peer",
      [](Channel& channel) {
        Party party(channel, Config());
        const int messages = channel.receive<int>();
        for (int i = 0; i < messages; ++i) {
          party.send(8);
          wait_for_success(party.endpoint.send_jfc, 0);
        }
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
