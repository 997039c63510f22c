// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/line.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "third_party/fmt/format.h"

namespace urma::tcp {
namespace {

// More would hold the lock of the connection for long. Less, such as 64 KiB, halves what a stream
// carries: each call wakes the receiver.
constexpr size_t kMostAtOnce = 1 << 20;
constexpr size_t kMostPieces = 64;

bool later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// The first pieces, cut if there are too many bytes.
class Portion {
 public:
  explicit Portion(std::span<const iovec> pieces) {
    for (const iovec& piece : pieces) {
      if (count_ == kMostPieces || bytes_ == kMostAtOnce) break;
      const size_t length = std::min(piece.iov_len, kMostAtOnce - bytes_);
      pieces_[count_++] = {piece.iov_base, length};
      bytes_ += length;
    }
  }
  size_t bytes() const { return bytes_; }
  // As sendmsg() does. One piece costs less without its list.
  ssize_t send(int fd, int flags) {
    if (count_ == 1) return ::send(fd, pieces_[0].iov_base, bytes_, flags);
    msghdr message = {};
    message.msg_iov = pieces_.data();
    message.msg_iovlen = count_;
    return ::sendmsg(fd, &message, flags);
  }

 private:
  std::array<iovec, kMostPieces> pieces_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

ssize_t receive_into(int fd, std::span<const iovec> pieces) {
  if (pieces.size() == 1) return ::recv(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT);
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = std::min<size_t>(pieces.size(), IOV_MAX);
  return ::recvmsg(fd, &message, MSG_DONTWAIT);
}

}  // namespace

// Sends what MSG_MORE holds back, as a side effect that tcp(7) promises.
void Line::push() {
  const int on = 1;
  ::setsockopt(fd_, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
}

std::optional<size_t> Line::send(std::span<const iovec> pieces, bool ahead, std::string* why) {
  Portion portion(pieces);
  if (portion.bytes() == 0) return 0;
  const ssize_t sent = portion.send(fd_, (ahead ? MSG_MORE : 0) | MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && !later(errno)) {
    *why = urma::format("sending to it: {}", std::strerror(errno));
    return std::nullopt;
  }
  const size_t taken = sent < 0 ? 0 : static_cast<size_t>(sent);
  full_ = taken < portion.bytes();
  return taken;
}

std::optional<size_t> Line::receive(std::span<const iovec> pieces, std::string* why) {
  const ssize_t got = receive_into(fd_, pieces);
  faulted_ = got < 0 && errno == EFAULT;
  if (got > 0) return static_cast<size_t>(got);
  const bool asked = std::any_of(pieces.begin(), pieces.end(),
                                 [](const iovec& piece) { return piece.iov_len != 0; });
  if (!asked || (got < 0 && (later(errno) || faulted_))) return 0;
  *why = got == 0 ? "it has closed the connection"
                  : urma::format("receiving from it: {}", std::strerror(errno));
  return std::nullopt;
}

}  // namespace urma::tcp
