// SPDX-License-Identifier: MIT
#include "urma/base/own_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <set>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"

namespace urma {
namespace {

// Descriptors are opened and closed with the lock held, so that no fork comes in between.
struct OwnFds {
  Mutex mutex;
  std::set<int> fds URMA_GUARDED_BY(mutex);
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

OwnFds* made = nullptr;

// Never destroyed: a fork may come at any time. Unloaded with the module, like its handlers.
OwnFds& own_fds() {
  alignas(OwnFds) static std::byte room[sizeof(OwnFds)];
  static auto& all = *[] {
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return made = new (room) OwnFds;
  }();
  return all;
}

// The three run in order, which the analysis of locks does not know.
void before_fork() URMA_NO_THREAD_SAFETY_ANALYSIS { own_fds().mutex.lock(); }

void after_fork_in_parent() URMA_NO_THREAD_SAFETY_ANALYSIS { own_fds().mutex.unlock(); }

// The owners lose theirs: the number may soon belong to another file.
void after_fork_in_child() URMA_NO_THREAD_SAFETY_ANALYSIS {
  for (const int fd : own_fds().fds) ::close(fd);
  own_fds().fds.clear();
  own_fds().mutex.unlock();
}

// With the lock held: no child may get a copy that it does not know of.
int keep(OwnFds* all, int fd) URMA_REQUIRES(all->mutex) {
  fd = above_standard(fd);
  if (fd < 0) return fd;
  try {
    all->fds.insert(fd);
  } catch (...) {
    ::close(fd);
    throw;
  }
  return fd;
}

// A module that is unloaded leaves no memory behind. The descriptors are those of objects that the
// program has not ended: at exit, other threads may still use them.
[[gnu::destructor]] void on_unload() {
  if (made == nullptr) return;
  const MutexLock lock(made->mutex);
  made->fds.clear();
}

}  // namespace

OwnFd::OwnFd(int domain, int type, int protocol) {
  OwnFds& all = own_fds();
  const MutexLock lock(all.mutex);
  fd_ = keep(&all, ::socket(domain, type, protocol));
}

OwnFd::OwnFd(int dir, const char* path, int flags, mode_t mode) {
  OwnFds& all = own_fds();
  const MutexLock lock(all.mutex);
  fd_ = keep(&all, ::openat(dir, path, flags, mode));
}

OwnFd OwnFd::accept(int listener) {
  OwnFds& all = own_fds();
  OwnFd made;
  const MutexLock lock(all.mutex);
  made.fd_ = keep(&all, ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  return made;
}

OwnFd::~OwnFd() {
  OwnFds& all = own_fds();
  const MutexLock lock(all.mutex);
  if (all.fds.erase(fd_) != 0) ::close(fd_);
}

}  // namespace urma
