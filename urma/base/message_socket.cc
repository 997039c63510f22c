// SPDX-License-Identifier: MIT
#include "urma/base/message_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "urma/base/error.h"

namespace urma {
namespace {

constexpr int kBacklog = 1024;
// A peer with this much queued does not read at all.
constexpr size_t kMaxQueued = 65536;
// How long the kernel is given to find what it lacks: memory, or room among the descriptors in
// flight of this user.
constexpr uint64_t kRetryNs = 10'000'000;

// sun_path holds 107 bytes and the path of a runtime directory may be longer; /proc/self/fd is
// short.
sockaddr_un address_in(int dir_fd, const char* name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = urma::format("/proc/self/fd/{}/{}", dir_fd, name);
  if (path.size() >= sizeof(address.sun_path)) fail(URMA_FAIL, "socket path {} is too long", path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// URMA_ENOMEM if this process lacks something, as errno says.
int status_of_errno() {
  constexpr int kLacks[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS};
  return std::ranges::find(kLacks, errno) != std::end(kLacks) ? URMA_ENOMEM : URMA_FAIL;
}

OwnFd new_socket() {
  OwnFd socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (!socket.valid()) fail_errno(status_of_errno(), "making a control socket");
  return socket;
}

}  // namespace

PeerCredentials MessageSocket::credentials() const {
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return {0, static_cast<uid_t>(-1)};
  }
  return {credentials.pid, credentials.uid};
}

Fd MessageSocket::open_peer() const {
  const pid_t pid = credentials().pid;
  if (pid == 0) return Fd();
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  // EPERM may also come from a seccomp filter.
  if (!process.valid() && errno != ENOSYS && errno != EPERM) {
    fail_errno(status_of_errno(), urma::format("opening process {}", pid));
  }
  pollfd other_end = {fd(), 0, 0};
  if (::poll(&other_end, 1, 0) != 0) fail(URMA_FAIL, "process {} has gone", pid);
  return process;
}

MessageSocket::Sent MessageSocket::send_now(const void* message, size_t bytes,
                                            std::span<const int> fds) {
  iovec part = {const_cast<void*>(message), bytes};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxAttached * sizeof(int))] = {};
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* attached = CMSG_FIRSTHDR(&header);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(attached), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::kAll;
  kernel_lacks_ = errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM;
  return kernel_lacks_ || errno == EAGAIN || errno == EINTR ? Sent::kQueued : Sent::kClosed;
}

MessageSocket::Sent MessageSocket::send(const void* message, size_t bytes,
                                        std::span<const int> fds) {
  if (queue_.empty()) {
    const Sent sent = send_now(message, bytes, fds);
    if (sent != Sent::kQueued) return sent;
  }
  if (queue_.size() >= kMaxQueued) return Sent::kClosed;
  Attached copies;
  for (const int fd : fds) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copies.back().valid()) return Sent::kClosed;
  }
  const char* first = static_cast<const char*>(message);
  queue_.push_back({std::vector<char>(first, first + bytes), std::move(copies)});
  return Sent::kQueued;
}

MessageSocket::Sent MessageSocket::flush() {
  while (!queue_.empty()) {
    const Queued& next = queue_.front();
    std::vector<int> fds;
    for (const Fd& fd : next.fds) fds.push_back(fd.get());
    const Sent sent = send_now(next.bytes.data(), next.bytes.size(), fds);
    if (sent != Sent::kAll) return sent;
    queue_.pop_front();
  }
  return Sent::kAll;
}

void MessageSocket::await_flush(Service* service, uint32_t events) {
  const auto watch = [service, fd = fd(), events] { service->rewatch(fd, events | EPOLLOUT); };
  // One that is due remains due, however often messages follow.
  if (kernel_lacks_ && retry_ != nullptr && retry_->timer != 0) return;
  retry_.reset();
  if (!kernel_lacks_) return watch();
  try {
    retry_ = std::make_unique<Retry>(service);
    retry_->timer = service->after(kRetryNs, [retry = retry_.get(), watch] {
      retry->timer = 0;
      watch();
    });
  } catch (const std::exception&) {
    return watch();
  }
  service->rewatch(fd(), events);
}

MessageSocket::Received MessageSocket::receive(void* message, size_t bytes, Attached* fds) {
  iovec part = {message, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxAttached * sizeof(int))];
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  // Exact size: with padding the kernel could return one descriptor more.
  header.msg_controllen = CMSG_LEN(kMaxAttached * sizeof(int));
  fds->clear();
  const ssize_t got = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    return errno == EAGAIN || errno == EINTR ? Received::kNothing : Received::kClosed;
  }
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int received;
      std::memcpy(&received, CMSG_DATA(part) + i * sizeof(int), sizeof(received));
      fds->emplace_back(received);
    }
  }
  // As the kernel does if none is left: none behind the first that is missing.
  fds->erase(std::ranges::find_if(*fds, [](const Fd& fd) { return !fd.valid(); }), fds->end());
  if (got == 0) return Received::kClosed;
  // Truncated with all places taken: there were more. Otherwise this process has no descriptors
  // left, and the handler of the message finds one missing.
  const bool too_many = (header.msg_flags & MSG_CTRUNC) != 0 && fds->size() == kMaxAttached;
  const bool whole = static_cast<size_t>(got) == bytes && (header.msg_flags & MSG_TRUNC) == 0;
  return whole && !too_many ? Received::kMessage : Received::kMalformed;
}

void send_hint(int socket, const void* message, size_t bytes) {
  // A full queue means that the peer has enough hints; a closed one is noticed elsewhere.
  [[maybe_unused]] ssize_t sent = ::send(socket, message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

OwnFd listen_at(int dir_fd, const char* name, mode_t mode) {
  OwnFd socket = new_socket();
  const sockaddr_un address = address_in(dir_fd, name);
  ::unlinkat(dir_fd, name, 0);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == ENOENT && ::access("/proc/self/fd", F_OK) != 0) {
      fail(URMA_FAIL, "binding control socket {}: there is no /proc/self/fd; mount /proc", name);
    }
    fail_errno(URMA_FAIL, urma::format("binding control socket {}", name));
  }
  // The directory already keeps other users out; the socket's own mode is a second barrier.
  if (::fchmodat(dir_fd, name, mode, 0) != 0) {
    fail_errno(URMA_FAIL, urma::format("setting the mode of control socket {}", name));
  }
  if (::listen(socket.get(), kBacklog) != 0) {
    fail_errno(URMA_FAIL, urma::format("listening on control socket {}", name));
  }
  return socket;
}

Connect connect_to(int dir_fd, const char* name, OwnFd* socket) {
  *socket = new_socket();
  const sockaddr_un address = address_in(dir_fd, name);
  if (::connect(socket->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return Connect::kDone;
  }
  return errno == EAGAIN || errno == EINTR ? Connect::kAgain : Connect::kRefused;
}

}  // namespace urma
