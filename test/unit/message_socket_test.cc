// SPDX-License-Identifier: MIT
//
// A control connection whose messages cannot be sent at once.
#include "urma/base/message_socket.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "test/process/refusal.h"

namespace urma {
namespace {

// What the socket watches for, and its timer.
class Watch : public Service {
 public:
  void post(Task) override {}
  void run(const Task&) override {}
  bool on_thread() const override { return true; }
  void watch(int, uint32_t, Ready) override {}
  void rewatch(int, uint32_t watched) override { events = watched; }
  void unwatch(int) override {}
  TimerId after(uint64_t, Task task) override {
    timer = std::move(task);
    return 1;
  }
  void cancel(TimerId) override { timer = nullptr; }

  uint32_t events = 0;
  Task timer;
};

OwnFd unconnected() { return OwnFd(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

// The socket itself is ready to be written to, and would be reported again and again.
TEST(MessageSocket, TriesAgainByATimerIfTheKernelLacksSomething) {
  SKIP_UNLESS_CALLS_CAN_BE_REFUSED();
  for (const int error : {ETOOMANYREFS, ENOBUFS}) {
    Watch service;
    {
      MessageSocket socket(unconnected());
      std::thread([&] {
        urma_test::refuse(SYS_sendmsg, error);
        EXPECT_EQ(socket.send("x", 1), MessageSocket::Sent::kQueued);
        for (int round = 0; round < 3; ++round) {
          socket.await_flush(&service, EPOLLIN);
          EXPECT_EQ(service.events, EPOLLIN);
          ASSERT_NE(service.timer, nullptr);
          std::exchange(service.timer, nullptr)();
          EXPECT_EQ(service.events, EPOLLIN | EPOLLOUT);
          EXPECT_EQ(socket.flush(), MessageSocket::Sent::kQueued);
        }
        socket.await_flush(&service, EPOLLIN);
      }).join();
      EXPECT_NE(service.timer, nullptr);
    }
    EXPECT_EQ(service.timer, nullptr);
  }
}

TEST(MessageSocket, WaitsForThePeerOtherwise) {
  SKIP_UNLESS_CALLS_CAN_BE_REFUSED();
  Watch service;
  MessageSocket socket(unconnected());
  std::thread([&] {
    urma_test::refuse(SYS_sendmsg, EAGAIN);
    EXPECT_EQ(socket.send("x", 1), MessageSocket::Sent::kQueued);
  }).join();
  socket.await_flush(&service, 0);
  EXPECT_EQ(service.events, uint32_t{EPOLLOUT});
  EXPECT_EQ(service.timer, nullptr);
}

}  // namespace
}  // namespace urma
