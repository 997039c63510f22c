// SPDX-License-Identifier: MIT
#include "tools/ping/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "tools/ping/place.h"

namespace ping {

Signals::Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) throw Failure(std::string("signalfd failed: ") + std::strerror(errno));
}

Signals::~Signals() { ::close(fd_); }

bool Signals::raised() {
  signalfd_siginfo info;
  if (::read(fd_, &info, sizeof(info)) == sizeof(info)) raised_ = true;
  return raised_;
}

void Signals::wait(const std::vector<int>& fds, Clock::time_point until) const {
  std::vector<pollfd> entries = {{fd_, POLLIN, 0}};
  for (const int fd : fds) entries.push_back({fd, POLLIN, 0});
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now());
  constexpr int64_t kLongest = 3600;  // keeps the sum of times within the kernel's range
  const int64_t seconds = std::min<int64_t>(left.count() / 1'000'000'000, kLongest);
  const timespec limit = {seconds, left.count() % 1'000'000'000};
  if (left.count() <= 0) return;
  if (::ppoll(entries.data(), entries.size(), &limit, nullptr) < 0 && errno != EINTR) {
    throw Failure(std::string("ppoll failed: ") + std::strerror(errno));
  }
}

}  // namespace ping
