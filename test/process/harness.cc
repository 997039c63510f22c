// SPDX-License-Identifier: MIT
#include "test/process/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <set>
#include <system_error>

#include "test/process/sanitized.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace urma_test {

void live_in(const std::string& directory) {
  const std::string path = std::string(std::getenv("URMA_RUNTIME_DIR")) + "/" + directory;
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  ::setenv("URMA_RUNTIME_DIR", path.c_str(), 1);
}

namespace {

constexpr seconds kChannelLimit{20};
constexpr seconds kChildLimit{45};

[[noreturn]] void fail_with_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// All ends of channels in this process. A child closes those of others, so that a channel ends with
// the process at its other end.
std::set<int>& open_channels() {
  static std::set<int> fds;
  return fds;
}

void wait_ready(int fd, short events, const char* what) {
  const auto deadline = Clock::now() + patience(kChannelLimit);
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    pollfd entry = {fd, events, 0};
    const int n = ::poll(&entry, 1, left > 0 ? static_cast<int>(left) : 0);
    if (n > 0) return;
    if (n == 0) throw std::runtime_error(std::string("no answer from the other process: ") + what);
    if (errno != EINTR) fail_with_errno("poll");
  }
}

// Whether the child is on the peer side: it is not kInquirer, not the first child of its test, and
// not named like the first one.
bool is_peer(const std::string& name) {
  if (name == kInquirer) return false;
  static const ::testing::TestInfo* test = nullptr;
  static std::string first;
  if (const auto* current = ::testing::UnitTest::GetInstance()->current_test_info();
      test != current) {
    test = current;
    first = name;
  }
  return name != first;
}

// URMA_PEER_DEVICE and URMA_PEER_EID_INDEX replace the variables of the child itself. The child may
// have another runtime directory, inside that of the test, and may
// also run in another network namespace, as on another host.
void choose_device_of_peers() {
  constexpr std::pair<const char*, const char*> kSettings[] = {
      {"URMA_PEER_DEVICE", "URMA_DEVICE"}, {"URMA_PEER_EID_INDEX", "URMA_EID_INDEX"}};
  for (const auto& [theirs, own] : kSettings) {
    if (const char* value = std::getenv(theirs)) ::setenv(own, value, 1);
  }
  if (const char* directory = std::getenv("URMA_PEER_DIRECTORY")) live_in(directory);
  if (const char* network = std::getenv("URMA_PEER_NETWORK")) {
    const int fd = ::open(network, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) fail_with_errno(network);
    ::close(fd);
  }
}

int run_body(const Body& body, Channel& channel) {
  ::testing::GTEST_FLAG(throw_on_failure) = true;
  // A failure of an earlier child of the same test is already reported.
  const bool failed_before = ::testing::Test::HasFailure();
  int result = 0;
  try {
    body(channel);
    if (::testing::Test::HasFailure() && !failed_before) result = 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ended by: %s\n", error.what());
    result = 1;
  }
#if defined(__SANITIZE_ADDRESS__)
  if (result == 0 && __lsan_do_recoverable_leak_check() != 0) result = 1;
#endif
  return result;
}

}  // namespace

milliseconds patience(milliseconds limit) {
  static const char* const factor = std::getenv("URMA_TEST_PATIENCE");
  if (factor != nullptr) limit *= std::max(std::atoi(factor), 1);
  return kSanitized ? 10 * limit : limit;
}

Channel::Channel(int fd) : fd_(fd) { open_channels().insert(fd); }

Channel::Channel(Channel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Channel::~Channel() {
  if (fd_ < 0) return;
  open_channels().erase(fd_);
  ::close(fd_);
}

std::pair<Channel, Channel> Channel::pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    fail_with_errno("socketpair");
  }
  return {Channel(fds[0]), Channel(fds[1])};
}

bool Channel::has_message() const {
  pollfd waiting = {fd_, POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

void Channel::send_bytes(const void* data, size_t size) {
  wait_ready(fd_, POLLOUT, "send");
  if (::send(fd_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
    fail_with_errno("the other process is gone: send");
  }
}

void Channel::receive_bytes(void* data, size_t size) {
  wait_ready(fd_, POLLIN, "receive");
  const ssize_t n = ::recv(fd_, data, size, MSG_TRUNC);
  if (n == 0) throw std::runtime_error("the other process has ended");
  if (n < 0) fail_with_errno("receive");
  if (n != static_cast<ssize_t>(size)) throw std::runtime_error("a message of another type");
}

Child::Child(std::string name, const Body& body) : name_(std::move(name)) {
  auto [mine, its] = Channel::pair();
  channel_ = std::move(mine);
  start([&body, &its = its] {
    for (int fd : open_channels()) {
      if (fd != its.fd()) ::close(fd);
    }
    return run_body(body, its);
  });
}

Child::Child(std::string name, Channel channel, const Body& body) : name_(std::move(name)) {
  start([&body, &channel] {
    for (int fd : open_channels()) {
      if (fd != channel.fd()) ::close(fd);
    }
    return run_body(body, channel);
  });
}

Child::Child(std::string name, const std::vector<std::string>& program) : name_(std::move(name)) {
  start([&program] {
    std::vector<char*> argv;
    argv.reserve(program.size() + 1);
    for (const std::string& word : program) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    std::perror(argv[0]);
    return 127;
  });
}

void Child::start(const std::function<int()>& main) {
  output_ = ::memfd_create("output", MFD_CLOEXEC);
  if (output_ < 0) fail_with_errno("memfd_create");
  std::fflush(nullptr);
  const bool peer = is_peer(name_);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail_with_errno("fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::alarm(std::chrono::duration_cast<seconds>(patience(kChildLimit)).count());
    ::dup2(output_, STDOUT_FILENO);
    ::dup2(output_, STDERR_FILENO);
    if (peer) choose_device_of_peers();
    const int result = main();
    std::fflush(nullptr);
    ::_exit(result);
  }
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd_ < 0) fail_with_errno("pidfd_open");
}

Child::~Child() {
  if (pid_ > 0 && !ended_) kill();
  // The test was left early, maybe because of this child.
  if (std::uncaught_exceptions() > 0)
    std::fprintf(stderr, "%s:\n%s", name_.c_str(), output().c_str());
  if (pidfd_ >= 0) ::close(pidfd_);
  if (output_ >= 0) ::close(output_);
}

void Child::kill() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
  ended_ = true;
}

void Child::stop() {
  siginfo_t info;
  if (::kill(pid_, SIGSTOP) != 0) fail_with_errno("kill");
  // kill() returns while threads of the process still run.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOWAIT) != 0) {
    fail_with_errno("waitid");
  }
}

int Child::wait(milliseconds limit) {
  const auto deadline = Clock::now() + patience(limit);
  while (!ended_) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    pollfd entry = {pidfd_, POLLIN, 0};
    const int n = ::poll(&entry, 1, left > 0 ? static_cast<int>(left) : 0);
    if (n > 0) {
      ::waitpid(pid_, &status_, 0);
      ended_ = true;
    } else if (n == 0) {
      ADD_FAILURE() << name_ << " did not end in time";
      kill();
    }
  }
  return status_;
}

void Child::expect_success(milliseconds limit) {
  const int status = wait(limit);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << name_ << (WIFSIGNALED(status) ? ": ended by signal " : ": exit status ")
      << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)) << "\n"
      << output();
}

std::string Child::output() const {
  struct stat info;
  if (::fstat(output_, &info) != 0) return {};
  std::string text(static_cast<size_t>(info.st_size), '\0');
  const ssize_t n = ::pread(output_, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

void run_two(const std::string& name_a, const Body& a, const std::string& name_b, const Body& b) {
  auto [end_a, end_b] = Channel::pair();
  Child first(name_a, std::move(end_a), a);
  Child second(name_b, std::move(end_b), b);
  first.expect_success();
  second.expect_success();
}

void run_one(const Body& body) {
  Child child("child", body);
  child.expect_success();
}

// In memory if possible, like most runtime directories. On a disk, the opcode matrix spent a
// fifth of its time creating files, and writes of a compiler can delay a process that creates one
// for seconds.
ScratchDir::ScratchDir() {
  constexpr char kMemory[] = "/dev/shm";
  const char* base = ::access(kMemory, W_OK) == 0 ? kMemory : std::getenv("TEST_TMPDIR");
  path_ = std::string(base != nullptr ? base : "/tmp") + "/urma-test-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) fail_with_errno("mkdtemp");
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ProcessTest::ProcessTest() { ::setenv("URMA_RUNTIME_DIR", scratch_.path().c_str(), 1); }

ProcessTest::~ProcessTest() { ::unsetenv("URMA_RUNTIME_DIR"); }

std::vector<std::string> ProcessTest::runtime_entries() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(runtime_dir())) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace urma_test
