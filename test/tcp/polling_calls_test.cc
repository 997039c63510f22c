// SPDX-License-Identifier: MIT
//
// The calls of the kernel that a request takes between two processes that poll, and those of the
// service thread beside one that posts.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/polling_party.h"
#include "test/tcp/service_thread.h"

namespace {

// Of one thread, while it counts.
struct Calls {
  int packets;  // sent, or pushed
  int ahead;    // left in the kernel for the next packet
  int reads;    // that brought something
  int others;

  bool operator==(const Calls&) const = default;
};
thread_local Calls* counted = nullptr;

// Called by a thread after its next packet that ends so.
constexpr std::string_view kMark = "the end of a packet";
thread_local void (*after_packet)(int fd) = nullptr;
// Of all threads.
std::atomic<uint64_t> waits{0};

}  // namespace

// The provider's calls come here.
#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  const ssize_t sent = ::syscall(SYS_sendto, fd, data, bytes, flags, nullptr, 0);
  if (counted != nullptr) ++((flags & MSG_MORE) != 0 ? counted->ahead : counted->packets);
  const std::string_view packet(static_cast<const char*>(data), bytes);
  if (after_packet != nullptr && packet.ends_with(kMark)) std::exchange(after_packet, nullptr)(fd);
  return sent;
}

VISIBLE ssize_t recv(int fd, void* into, size_t bytes, int flags) {
  const ssize_t got = ::syscall(SYS_recvfrom, fd, into, bytes, flags, nullptr, nullptr);
  if (counted != nullptr && got > 0) ++counted->reads;
  return got;
}

// A message of one piece does without these.
VISIBLE ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (counted != nullptr) ++counted->others;
  return ::syscall(SYS_sendmsg, fd, message, flags);
}

VISIBLE ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (counted != nullptr) ++counted->others;
  return ::syscall(SYS_recvmsg, fd, message, flags);
}

VISIBLE int setsockopt(int fd, int level, int name, const void* value, socklen_t bytes) noexcept {
  if (counted != nullptr) ++counted->packets;
  return static_cast<int>(::syscall(SYS_setsockopt, fd, level, name, value, bytes));
}

VISIBLE int epoll_wait(int epoll, epoll_event* events, int most, int limit_ms) {
  if (counted != nullptr) ++counted->others;
  ++waits;
  return static_cast<int>(::syscall(SYS_epoll_wait, epoll, events, most, limit_ms));
}

VISIBLE ssize_t write(int fd, const void* data, size_t bytes) {
  if (counted != nullptr) ++counted->others;
  return ::syscall(SYS_write, fd, data, bytes);
}

namespace urma_test {
namespace {

constexpr int kBatch = 16;

using PollingTest = ProcessTest;

// Until the other process has said something.
template <typename Work>
void repeat_until_told(const Channel& channel, const Work& work) {
  while (!channel.has_message()) work();
}

// The calls of a batch that nothing disturbs: other work on the machine can stop a process, and its
// service thread then helps.
template <typename Work>
Calls undisturbed_calls(const Calls& expected, const Work& work) {
  const auto deadline = Clock::now() + patience(seconds(20));
  Calls calls;
  do {
    calls = {};
    counted = &calls;
    for (int i = 0; i < kBatch; ++i) work();
    counted = nullptr;
  } while (!(calls == expected) && Clock::now() < deadline);
  return calls;
}

void expect_calls(const Calls& calls, const Calls& expected) {
  EXPECT_TRUE(calls == expected) << calls.packets << " packets, " << calls.ahead << " ahead, "
                                 << calls.reads << " reads, " << calls.others << " others";
}

// The report of a message goes with its answer.
TEST_F(PollingTest, AMessageAndItsAnswerTakeAPacketEach) {
  run_two(
      "asks",
      [](Channel& channel) {
        Party party(channel);
        const Calls expected = {kBatch, kBatch, kBatch, 0};
        expect_calls(undisturbed_calls(expected, [&] { party.ask(); }), expected);
        channel.send('e');
        party.send();
        channel.sync();
      },
      "answers",
      [](Channel& channel) {
        Party party(channel);
        party.answer();
        for (;;) {
          party.receive();
          if (channel.has_message()) break;
          party.send();
          await(party.endpoint.send_jfc);
        }
        channel.receive<char>();
        channel.sync();
      });
}

TEST_F(PollingTest, AWriteTakesAPacketAndAnAnswer) {
  run_two(
      "writes",
      [](Channel& channel) {
        Party party(channel);
        const Calls expected = {kBatch, 0, kBatch, 0};
        expect_calls(undisturbed_calls(expected, [&] { party.write(); }), expected);
        channel.sync();
      },
      "polls",
      [](Channel& channel) {
        Party party(channel);
        repeat_until_told(channel, [&] {
          for (int i = 0; i < 100; ++i) EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
        });
        channel.sync();
      });
}

// A program that sleeps leaves the connection to its service thread.
void write_and_sleep(Party& party) {
  urma_jfc_t* jfc = party.endpoint.send_jfc;
  ASSERT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
  party.post_write();
  uint32_t events = 1;
  ASSERT_EQ(urma_wait_jfc(party.endpoint.jfce, 1, -1, &jfc), 1);
  urma_ack_jfc(&jfc, &events, 1);
  await(jfc);
}

// A post lasts until the service thread has found that its answer has come.
TEST_F(PollingTest, TheServiceThreadSleepsDuringAPost) {
  static constexpr uint64_t kFew = 100;
  const auto writes = [](Channel& channel) {
    Config config;
    config.events = true;
    Party party(channel, config);
    channel.sync();
    write_and_sleep(party);
    std::copy(kMark.begin(), kMark.end(), &party.memory[2 * kSize] - kMark.size());
    const uint64_t before = waits;
    after_packet = [](int fd) {
      pollfd answered = {fd, POLLIN, 0};
      EXPECT_EQ(::poll(&answered, 1, -1), 1);
      const uint64_t limit = waits + kFew;
      while (status_of_service_thread("State:") != "S" && waits <= limit) continue;
    };
    party.post_write();
    EXPECT_EQ(after_packet, nullptr);
    EXPECT_LE(waits - before, kFew);
    await(party.endpoint.send_jfc);
    channel.sync();
  };
  const auto sleeps = [](Channel& channel) {
    const Party party(channel);
    // It asks for nothing from here on.
    channel.sync();
    channel.sync();
  };
  run_two("writes", writes, "sleeps", sleeps);
}

}  // namespace
}  // namespace urma_test
