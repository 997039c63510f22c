// SPDX-License-Identifier: MIT
#ifndef URMA_BASE_FD_H_
#define URMA_BASE_FD_H_

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace urma {

// False, with errno, if it stays blocking.
inline bool make_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// The numbers 0 to 2 stay free for the program's own streams: if it has closed them, as daemons do,
// what it and the log write there must not reach a file of the library. Returns a higher number for
// such a one, which is closed; -1 with errno EMFILE if there is none.
inline int above_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int above = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(fd);
  if (above < 0) errno = EMFILE;
  return above;
}

// Owns one file descriptor, which has just been made: it may get another number.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(above_standard(fd)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = above_standard(fd);
  }

 private:
  int fd_ = -1;
};

}  // namespace urma

#endif  // URMA_BASE_FD_H_
