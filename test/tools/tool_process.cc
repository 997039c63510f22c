// SPDX-License-Identifier: MIT
#include "test/tools/tool_process.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <regex>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace urma_test {
namespace {

[[noreturn]] void fail_with_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::vector<Tool*>& running_tools() {
  static std::vector<Tool*> tools;
  return tools;
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

// The reading end and the writing end.
std::pair<int, int> open_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) fail_with_errno("pipe2");
  return {fds[0], fds[1]};
}

std::pair<int, int> open_terminal() {
  // With the usual width, and without added carriage returns.
  termios modes = {};
  winsize size = {};
  size.ws_col = 120;
  size.ws_row = 40;
  int master, slave;
  if (::openpty(&master, &slave, nullptr, &modes, &size) != 0) fail_with_errno("openpty");
  ::fcntl(master, F_SETFD, FD_CLOEXEC);
  ::fcntl(slave, F_SETFD, FD_CLOEXEC);
  return {master, slave};
}

void change_environment(const std::vector<std::string>& changes) {
  for (const std::string& change : changes) {
    const size_t equals = change.find('=');
    if (equals == std::string::npos) {
      ::unsetenv(change.c_str());
    } else {
      ::setenv(change.substr(0, equals).c_str(), change.c_str() + equals + 1, 1);
    }
  }
}

// Whether a TCP port is free to listen on.
bool can_listen(uint16_t port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_with_errno("socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const bool can = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                   ::listen(fd, 1) == 0;
  close_fd(fd);
  return can;
}

// Binds an abstract socket whose name stands for the port, and keeps it until the process ends.
// False if another test has it.
bool reserve(uint16_t port) {
  const std::string name = "urma-test-port-" + std::to_string(port);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_with_errno("socket");
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) return true;
  close_fd(fd);
  return false;
}

}  // namespace

std::string program_path(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) {
    throw std::runtime_error(std::string(variable) + " names no program; see the BUILD file");
  }
  return path;
}

Tool::Tool(const std::string& program, const std::vector<std::string>& arguments,
           const ToolOptions& options)
    : command_(program) {
  for (const std::string& argument : arguments) command_ += " " + argument;
  const auto [out, out_end] = options.terminal ? open_terminal() : open_pipe();
  const auto [err, err_end] = open_pipe();
  streams_[kOut].fd = out;
  streams_[kErr].fd = err;
  int ends[2] = {out_end, err_end};
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) start(program, arguments, options, ends, parent);
  for (int& end : ends) close_fd(end);
  if (pid_ < 0) fail_with_errno("fork");
  ::setpgid(pid_, pid_);  // here as well, so that the destructor finds the group
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd_ < 0) fail_with_errno("pidfd_open");
  for (const Captured& captured : streams_) ::fcntl(captured.fd, F_SETFL, O_NONBLOCK);
  running_tools().push_back(this);
}

Tool::~Tool() {
  std::erase(running_tools(), this);
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  close_fd(pidfd_);
  for (Captured& captured : streams_) close_fd(captured.fd);
}

void Tool::start(const std::string& program, const std::vector<std::string>& arguments,
                 const ToolOptions& options, const int (&ends)[2], pid_t parent) {
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(127);
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(input, STDIN_FILENO);
  ::dup2(ends[kOut], STDOUT_FILENO);
  ::dup2(ends[kErr], STDERR_FILENO);
  change_environment(options.environment);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  ::perror(program.c_str());
  ::_exit(127);
}

std::vector<std::string> Tool::wait_for_line(const std::string& pattern, Stream stream,
                                             milliseconds limit) {
  const std::regex expression(pattern);
  const auto deadline = Clock::now() + patience(limit);
  Captured& captured = streams_[stream];
  for (bool more = true;;) {
    // Text that a terminal overwrites counts as lines, too.
    for (size_t end;
         (end = captured.text.find_first_of("\r\n", captured.searched)) != std::string::npos;) {
      const std::string line = captured.text.substr(captured.searched, end - captured.searched);
      captured.searched = end + 1;
      std::smatch match;
      if (std::regex_search(line, match, expression)) {
        std::vector<std::string> found = {line};
        found.insert(found.end(), match.begin() + 1, match.end());
        return found;
      }
    }
    if (!more)
      give_up("ended, or out of time, before it has printed a line with '" + pattern + "'");
    more = step(deadline);
  }
}

int Tool::wait(milliseconds limit) {
  const auto deadline = Clock::now() + patience(limit);
  while (!ended_) {
    if (!step(deadline) && !ended_) give_up("did not end in time");
  }
  return status_;
}

bool Tool::running() {
  (void)step(Clock::now());
  return !ended_;
}

void Tool::signal(int number) {
  if (ended_) return;
  ::kill(pid_, number);
  siginfo_t info;
  // kill() returns while threads of it still run.
  if (number == SIGSTOP) ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOWAIT);
}

// Waits for one event of any tool. False if this one has ended, or on timeout.
bool Tool::step(Clock::time_point deadline) {
  if (ended_) return false;
  std::vector<pollfd> entries;
  for (const Tool* tool : running_tools()) {
    entries.push_back({tool->ended_ ? -1 : tool->pidfd_, POLLIN, 0});
    for (const Captured& captured : tool->streams_) entries.push_back({captured.fd, POLLIN, 0});
  }
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
  const int n = ::poll(entries.data(), entries.size(), left > 0 ? static_cast<int>(left) + 1 : 0);
  if (n < 0 && errno != EINTR) fail_with_errno("poll");
  if (n < 0) return true;
  for (size_t i = 0; i < running_tools().size(); ++i) {
    Tool& tool = *running_tools()[i];
    for (int stream : {kOut, kErr}) {
      if (entries[3 * i + 1 + static_cast<size_t>(stream)].revents != 0) {
        tool.read(tool.streams_[stream]);
      }
    }
    if (entries[3 * i].revents != 0) tool.note_end();
  }
  return n > 0;
}

void Tool::read(Captured& captured) {
  char buffer[1 << 14];
  for (ssize_t n; (n = ::read(captured.fd, buffer, sizeof(buffer))) != -1 || errno == EINTR;) {
    if (n > 0) captured.text.append(buffer, static_cast<size_t>(n));
    if (n == 0) return close_fd(captured.fd);
  }
  // A terminal ends with EIO.
  if (errno != EAGAIN) close_fd(captured.fd);
}

// Leaves a zombie, so that the id of its group is not reused.
void Tool::note_end() {
  siginfo_t info = {};
  const int options = WEXITED | WNOHANG | WNOWAIT;
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, options) != 0 || info.si_pid != pid_) return;
  ended_ = true;
  status_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  for (Captured& captured : streams_) {
    if (captured.fd >= 0) read(captured);
  }
}

void Tool::give_up(const std::string& why) const {
  throw std::runtime_error(command_ + " " + why + "\n--- stdout\n" + out() + "--- stderr\n" +
                           err());
}

ToolResult run_tool(const std::string& program, const std::vector<std::string>& arguments,
                    const ToolOptions& options, milliseconds limit) {
  Tool tool(program, arguments, options);
  const int status = tool.wait(limit);
  return {status, tool.out(), tool.err()};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

bool has_line(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  for (const std::string& line : lines_of(text)) {
    if (std::regex_search(line, expression)) return true;
  }
  return false;
}

uint16_t free_port(uint16_t count) {
  // Below those that the kernel uses for outgoing connections.
  std::uniform_int_distribution<int> any(10000, 32000 - count);
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    const int first = any(random);
    bool free = true;
    for (int port = first; free && port < first + count; ++port) {
      free = can_listen(static_cast<uint16_t>(port)) && reserve(static_cast<uint16_t>(port));
    }
    if (free) return static_cast<uint16_t>(first);
  }
  throw std::runtime_error("no free TCP port found");
}

}  // namespace urma_test
