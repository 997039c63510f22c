// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/line.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "third_party/fmt/format.h"

namespace urma::tcp {
namespace {

bool later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

size_t total(std::span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

msghdr message_of(std::span<const iovec> pieces) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = std::min<size_t>(pieces.size(), IOV_MAX);
  return message;
}

// One piece costs less without its list.
ssize_t send_from(int fd, std::span<const iovec> pieces, int flags) {
  if (pieces.size() == 1) return ::send(fd, pieces[0].iov_base, pieces[0].iov_len, flags);
  const msghdr message = message_of(pieces);
  return ::sendmsg(fd, &message, flags);
}

ssize_t receive_into(int fd, std::span<const iovec> pieces) {
  if (pieces.size() == 1) return ::recv(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT);
  msghdr message = message_of(pieces);
  return ::recvmsg(fd, &message, MSG_DONTWAIT);
}

}  // namespace

// Sends what MSG_MORE holds back, as a side effect that tcp(7) promises.
void Line::push() {
  const int on = 1;
  ::setsockopt(fd_, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
}

std::optional<size_t> Line::send(std::span<const iovec> pieces, bool ahead, std::string* why) {
  const size_t bytes = total(pieces);
  if (bytes == 0) return 0;
  const ssize_t sent = send_from(fd_, pieces, (ahead ? MSG_MORE : 0) | MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && !later(errno)) {
    *why = urma::format("sending to it: {}", std::strerror(errno));
    return std::nullopt;
  }
  const size_t taken = sent < 0 ? 0 : static_cast<size_t>(sent);
  full_ = taken < bytes;
  return taken;
}

std::optional<size_t> Line::receive(std::span<const iovec> pieces, std::string* why) {
  const ssize_t got = receive_into(fd_, pieces);
  faulted_ = got < 0 && errno == EFAULT;
  if (got > 0) return static_cast<size_t>(got);
  if (total(pieces) == 0 || (got < 0 && (later(errno) || faulted_))) return 0;
  *why = got == 0 ? "it has closed the connection"
                  : urma::format("receiving from it: {}", std::strerror(errno));
  return std::nullopt;
}

}  // namespace urma::tcp
