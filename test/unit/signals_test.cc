// SPDX-License-Identifier: MIT
//
// A program whose signal handlers run all the time, as under a profiler. Without SA_RESTART, each
// may interrupt a system call, even one that does not wait.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "test/process/kernel.h"
#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"
#include "urma/providers/shm/peer.h"

namespace urma::shm {
namespace {

std::atomic<uint64_t> handled{0};

// Interrupts the thread that made it during its lifetime.
class Interrupter {
 public:
  Interrupter() {
    struct sigaction action = {};
    action.sa_handler = [](int) { handled.fetch_add(1, std::memory_order_relaxed); };
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
    thread_ = std::thread([this, target = ::pthread_self()] {
      while (!stop_.load(std::memory_order_relaxed)) {
        ::pthread_kill(target, SIGUSR1);
        std::this_thread::yield();
      }
    });
  }
  ~Interrupter() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
    ::sigaction(SIGUSR1, &before_, nullptr);
  }
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

 private:
  std::atomic<bool> stop_{false};
  struct sigaction before_;
  std::thread thread_;
};

TEST(Signals, AnInterruptedCopyDoesNotTakeThePeerForGone) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  PeerProcess peer;
  peer.pid = ::getpid();
  peer.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!peer.pidfd.valid()) GTEST_SKIP() << "no pidfd_open: " << std::strerror(errno);
  char from[64] = {}, into[64];
  const iovec remote = {from, sizeof(from)}, local = {into, sizeof(into)};
  const Interrupter interrupter;
  const uint64_t until = handled.load(std::memory_order_relaxed) + 20'000;
  while (handled.load(std::memory_order_relaxed) < until) {
    uint64_t moved = 0;
    ASSERT_EQ(copy_by_kernel(Direction::kRead, peer, {&local, 1}, {&remote, 1}, &moved),
              URMA_CR_SUCCESS);
    ASSERT_EQ(moved, sizeof(from));
  }
}

// The fuzzers, which have a timer, ask their owner with it.
TEST(Signals, ARawPeerWaitsForItsAnswer) {
  const OwnFd listener(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  // The kernel chooses a name.
  sockaddr_un address = {AF_UNIX, {}};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof(sa_family_t);
  ASSERT_EQ(::bind(listener.get(), any, bytes), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  bytes = sizeof(address);
  ASSERT_EQ(::getsockname(listener.get(), any, &bytes), 0);
  OwnFd connected(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(connected.get(), any, bytes), 0);
  RawSocket peer{std::move(connected)}, owner{OwnFd::accept(listener.get())};
  const Interrupter interrupter;
  const uint64_t until = handled.load(std::memory_order_relaxed) + 100;
  std::thread answerer([&] {
    while (handled.load(std::memory_order_relaxed) < until) std::this_thread::yield();
    EXPECT_TRUE(owner.send("answer", 6));
  });
  char answer[6];
  bool received = false;
  EXPECT_NO_THROW(received = peer.receive(answer, sizeof(answer)));
  answerer.join();
  EXPECT_TRUE(received);
}

}  // namespace
}  // namespace urma::shm
