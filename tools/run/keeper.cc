// SPDX-License-Identifier: MIT
#include "tools/run/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>

#include "tools/run/failure.h"
#include "tools/run/library.h"
#include "tools/run/runtime.h"
#include "tools/run/view.h"

namespace run {
namespace {

// The first byte of its only message; a path or a reason follows.
constexpr char kReady = '+', kFailed = '-';
// The descriptor of its end of the socket.
constexpr int kSocket = 3;

void answer(char kind, const std::string& text) {
  const std::string message = kind + text;
  (void)!::send(kSocket, message.data(), message.size(), MSG_NOSIGNAL);
}

// Holds nothing of the program: not its pipes, terminal or folder.
void let_go() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(nothing, fd);
  ::close(nothing);
  (void)!::chdir("/");
}

// Waits until the process of the pidfd has ended or, with `by_socket`, has closed its end of the
// socket. An exec also closes that.
void wait_for_end(int process, bool by_socket) {
  pollfd ends[] = {{process, POLLIN, 0}, {by_socket ? kSocket : -1, POLLIN, 0}};
  while (::poll(ends, 2, -1) < 0 && errno == EINTR) continue;
}

void keep(const Options& options, pid_t watched, bool by_socket) {
  const auto process = static_cast<int>(::syscall(SYS_pidfd_open, watched, 0));
  check(process >= 0, "watching the process (pidfd_open, Linux 5.3)");
  // These are for the program.
  ::unsetenv("URMA_FAULT");
  ::unsetenv("URMA_TRACE");
  offer_eids(options.eids);
  const Library library;
  expect_eids(options.eids);
  for (const std::string& text : options.names) {
    std::string name = text.substr(0, text.find('='));
    if (urma_get_device_by_name(name.data()) == nullptr) {
      throw Failure("--name " + text + ": there is no such device; urma_admin show lists them");
    }
  }
  const View view;
  answer(kReady, view.path());
  let_go();
  wait_for_end(process, by_socket);
}

[[noreturn]] void run_keeper(const Options& options, const std::string& directory, pid_t watched,
                             int socket) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::dup2(socket, kSocket);
  ::closefrom(kSocket + 1);
  ::umask(022);
  int status = 0;
  std::string why;
  try {
    keep(options, watched, !directory.empty());
  } catch (const std::exception& error) {
    why = error.what();
    status = 1;
  }
  std::error_code ignored;
  if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
  if (status != 0) answer(kFailed, why);
  ::_exit(status);
}

}  // namespace

Keeper::Keeper(const Options& options, const std::string& directory) : directory_(directory) {
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "making a socket");
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  check(child >= 0, "making a process");
  if (child == 0) {
    // An orphan, detached from the terminal.
    ::setsid();
    if (::fork() == 0) run_keeper(options, directory, self, ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  socket_ = ends[0];
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  char text[PATH_MAX + 1];
  const ssize_t length = ::recv(socket_, text, sizeof text, 0);
  if (length > 0) view_.assign(text + 1, static_cast<size_t>(length) - 1);
  if (length <= 0 || text[0] != kReady) {
    ::close(socket_);
    throw Failure(length > 0 ? view_ : "the process that keeps the devices' files was killed");
  }
}

Keeper::~Keeper() {
  ::shutdown(socket_, SHUT_WR);
  char byte;
  // The keeper's end closes when it is gone.
  while (!directory_.empty() && ::recv(socket_, &byte, 1, 0) < 0 && errno == EINTR) continue;
  ::close(socket_);
}

}  // namespace run
