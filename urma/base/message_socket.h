// SPDX-License-Identifier: MIT
//
// One control connection, on the service thread.
#ifndef URMA_BASE_MESSAGE_SOCKET_H_
#define URMA_BASE_MESSAGE_SOCKET_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/own_fd.h"

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

  enum class Received { kMessage, kNothing, kClosed, kMalformed };
  // Receives one message of exactly `bytes` bytes and at most kMaxAttached descriptors.
  Received receive(void* message, size_t bytes, Attached* fds);

 private:
  struct Queued {
    std::vector<char> bytes;
    Attached fds;
  };

  Sent send_now(const void* message, size_t bytes, std::span<const int> fds);

  OwnFd socket_;
  std::deque<Queued> queue_;
};

// Sends without waiting and without a queue; for hints that may be lost. From any thread.
void send_hint(int socket, const void* message, size_t bytes);

// A socket bound to, or connected to, `name` in the directory `dir_fd`. Throws Error.
OwnFd listen_at(int dir_fd, const char* name, mode_t mode = 0600);
enum class Connect { kDone, kAgain, kRefused };
Connect connect_to(int dir_fd, const char* name, OwnFd* socket);

}  // namespace urma

#endif  // URMA_BASE_MESSAGE_SOCKET_H_
