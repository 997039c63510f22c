// SPDX-License-Identifier: MIT
//
// One control connection, on the service thread.
#ifndef URMA_BASE_MESSAGE_SOCKET_H_
#define URMA_BASE_MESSAGE_SOCKET_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/own_fd.h"
#include "urma/base/service.h"

namespace urma {

// The process at the other end, from the kernel.
struct PeerCredentials {
  pid_t pid;  // 0: a process of another pid namespace
  uid_t uid;
};

// Descriptors that come along with one message.
inline constexpr size_t kMaxAttached = 8;
using Attached = std::vector<Fd>;

// A non-blocking SOCK_SEQPACKET socket and what could not be sent yet.
class MessageSocket {
 public:
  explicit MessageSocket(OwnFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  OwnFd release() { return std::move(socket_); }
  PeerCredentials credentials() const;
  // Opens the process at the other end. Throws Error if that fails, or if the peer has ended, since
  // its pid may then be another process; invalid if the kernel gives no pidfd.
  Fd open_peer() const;

  enum class Sent { kAll, kQueued, kClosed };
  // Attaches up to kMaxAttached descriptors; a queued message keeps duplicates of them.
  Sent send(const void* message, size_t bytes, std::span<const int> fds = {});
  Sent flush();
  bool backlog() const { return !queue_.empty(); }
  // With a backlog: watches for `events`, and for EPOLLOUT once flush() may get further. That is
  // when the peer has read something or, if the kernel lacks something, after a while: then the
  // socket is ready to be written to all the time. The descriptor is watched already.
  void await_flush(Service* service, uint32_t events);
  // The descriptor is watched no more.
  void end_await() { retry_.reset(); }

  enum class Received { kMessage, kNothing, kClosed, kMalformed };
  // Receives one message of exactly `bytes` bytes and at most kMaxAttached descriptors.
  Received receive(void* message, size_t bytes, Attached* fds);

 private:
  struct Queued {
    std::vector<char> bytes;
    Attached fds;
  };

  struct Retry {
    explicit Retry(Service* with) : service(with) {}
    Retry(const Retry&) = delete;
    ~Retry() { service->cancel(timer); }
    Service* const service;
    Service::TimerId timer = 0;
  };

  Sent send_now(const void* message, size_t bytes, std::span<const int> fds);

  OwnFd socket_;
  std::deque<Queued> queue_;
  bool kernel_lacks_ = false;  // why the first message of the queue was not sent
  std::unique_ptr<Retry> retry_;
};

// Sends without waiting and without a queue; for hints that may be lost. From any thread.
void send_hint(int socket, const void* message, size_t bytes);

// A socket bound to, or connected to, `name` in the directory `dir_fd`. Throws Error.
OwnFd listen_at(int dir_fd, const char* name, mode_t mode = 0600);
enum class Connect { kDone, kAgain, kRefused };
Connect connect_to(int dir_fd, const char* name, OwnFd* socket);

}  // namespace urma

#endif  // URMA_BASE_MESSAGE_SOCKET_H_
