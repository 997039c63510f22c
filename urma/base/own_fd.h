// SPDX-License-Identifier: MIT
//
// Descriptors that must end with this process even if a forked child lives on: locked files, names,
// ports and connections that others take over, or miss, when it ends. The child closes its copies
// as soon as it has those of shared memory.
#ifndef URMA_BASE_OWN_FD_H_
#define URMA_BASE_OWN_FD_H_

#include <sys/types.h>

#include <utility>

namespace urma {

class OwnFd {
 public:
  OwnFd() = default;
  // A socket, as of socket(2); on failure not valid(), with errno.
  OwnFd(int domain, int type, int protocol);
  // The same of a file, as of openat(2).
  OwnFd(int dir, const char* path, int flags, mode_t mode = 0);
  // The same of accept4(2), non-blocking.
  static OwnFd accept(int listener);
  OwnFd(OwnFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnFd& operator=(OwnFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnFd();
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace urma

#endif  // URMA_BASE_OWN_FD_H_
