// SPDX-License-Identifier: MIT
//
// Descriptors of what ends with this process though a child of a fork lives on: names and ports
// that others take when it has gone. The child closes its copies as it begins.
#ifndef URMA_PROVIDERS_VERBS_OWN_FD_H_
#define URMA_PROVIDERS_VERBS_OWN_FD_H_

#include <utility>

namespace urma::verbs {

class OwnFd {
 public:
  // A socket, as of socket(2); not valid() where there is none, with errno.
  OwnFd(int domain, int type, int protocol);
  OwnFd(OwnFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~OwnFd();
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_OWN_FD_H_
