// SPDX-License-Identifier: MIT
//
// A network that takes and delivers what it likes: all sockets of TCP in these processes move one
// byte, a few, many or none at a time, in an order that only depends on the number of calls.
// The functions exported here replace those of the C library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace urma_test {
namespace {

// How many bytes the next call may move.
size_t next_portion() {
  // Of sixteen calls in a row; none: the caller must come back.
  static constexpr std::array<size_t, 16> kPortions = {1,  0, 3,    7,     1,  1, 4096, 65536,
                                                       13, 0, 1000, 65536, 96, 2, 0,    65536};
  static std::atomic<uint32_t> calls{0};
  const uint32_t call = calls.fetch_add(1);
  // Not the same sixteen all over: both directions, and all threads, take from them.
  return kPortions[(call + call / kPortions.size()) % kPortions.size()];
}

bool is_tcp(int fd) {
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) return false;
  size = sizeof(domain);
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_INET || domain == AF_INET6;
}

// The message, cut to the next portion.
class Cut {
 public:
  explicit Cut(const msghdr& whole) : message_(whole) {
    size_t left = next_portion();
    none_ = left == 0;
    size_t count = 0;
    for (size_t i = 0; i < whole.msg_iovlen && count < pieces_.size() && left != 0; ++i) {
      const iovec& piece = whole.msg_iov[i];
      if (piece.iov_len == 0) continue;
      pieces_[count] = {piece.iov_base, std::min(piece.iov_len, left)};
      left -= pieces_[count++].iov_len;
    }
    message_.msg_iov = pieces_.data();
    message_.msg_iovlen = count;
  }
  // Without any bytes.
  bool none() const { return none_; }
  msghdr* message() { return &message_; }

 private:
  std::array<iovec, 64> pieces_;
  msghdr message_;
  bool none_;
};

ssize_t later() {
  errno = EAGAIN;
  return -1;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace urma_test

#define PIECES_EXPORT extern "C" __attribute__((visibility("default")))

PIECES_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const next = urma_test::real<decltype(recvmsg)>("recvmsg");
  if (!urma_test::is_tcp(fd)) return next(fd, message, flags);
  urma_test::Cut cut(*message);
  return cut.none() ? urma_test::later() : next(fd, cut.message(), flags);
}

PIECES_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const next = urma_test::real<decltype(sendmsg)>("sendmsg");
  if (!urma_test::is_tcp(fd)) return next(fd, message, flags);
  urma_test::Cut cut(*message);
  return cut.none() ? urma_test::later() : next(fd, cut.message(), flags);
}

PIECES_EXPORT ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  static auto* const next = urma_test::real<decltype(recv)>("recv");
  if (!urma_test::is_tcp(fd)) return next(fd, bytes, size, flags);
  const size_t portion = urma_test::next_portion();
  return portion == 0 ? urma_test::later() : next(fd, bytes, std::min(size, portion), flags);
}

PIECES_EXPORT ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  static auto* const next = urma_test::real<decltype(send)>("send");
  if (!urma_test::is_tcp(fd)) return next(fd, bytes, size, flags);
  const size_t portion = urma_test::next_portion();
  return portion == 0 ? urma_test::later() : next(fd, bytes, std::min(size, portion), flags);
}

// The calls of OpenSSL.
PIECES_EXPORT ssize_t read(int fd, void* bytes, size_t size) {
  static auto* const next = urma_test::real<decltype(read)>("read");
  if (!urma_test::is_tcp(fd)) return next(fd, bytes, size);
  const size_t portion = urma_test::next_portion();
  return portion == 0 ? urma_test::later() : next(fd, bytes, std::min(size, portion));
}

PIECES_EXPORT ssize_t write(int fd, const void* bytes, size_t size) {
  static auto* const next = urma_test::real<decltype(write)>("write");
  if (!urma_test::is_tcp(fd)) return next(fd, bytes, size);
  const size_t portion = urma_test::next_portion();
  return portion == 0 ? urma_test::later() : next(fd, bytes, std::min(size, portion));
}
