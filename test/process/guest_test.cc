// SPDX-License-Identifier: MIT
//
// The library is a guest in the process of a program: how it leaves, on request or not, what it
// holds meanwhile, and what it must not touch.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "urma_provider.h"

namespace urma_test {
namespace {

// The numbers of the entries in a directory of /proc/self, without the descriptor that reads it.
std::set<int> numbers_in(const char* path) {
  std::set<int> numbers;
  DIR* dir = ::opendir(path);
  if (dir == nullptr) throw std::runtime_error(std::string(path) + ": " + std::strerror(errno));
  while (const dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.') numbers.insert(std::atoi(entry->d_name));
  }
  if (std::strcmp(path, "/proc/self/fd") == 0) numbers.erase(::dirfd(dir));
  ::closedir(dir);
  return numbers;
}

std::set<int> open_fds() { return numbers_in("/proc/self/fd"); }

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

#ifdef __SANITIZE_THREAD__
std::string name_of(int thread) {
  return read_file("/proc/self/task/" + std::to_string(thread) + "/comm");
}
#endif

std::set<int> threads() {
  std::set<int> all = numbers_in("/proc/self/task");
#ifdef __SANITIZE_THREAD__
  // The thread sanitizer may start a thread at any time.
  std::erase_if(all,
                [](int tid) { return tid != ::getpid() && name_of(tid).rfind("urma-", 0) != 0; });
#endif
  return all;
}

// Waits until the threads are the same as before: a joined one may still be listed.
void expect_threads(const std::set<int>& before) {
  const auto deadline = Clock::now() + patience(seconds(20));
  while (threads() != before && Clock::now() < deadline) continue;
  EXPECT_EQ(threads(), before);
}

// Sends a message and writes a word to itself.
void have_traffic(Endpoint& endpoint, std::vector<char>& memory) {
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_seg_t* remote = endpoint.import(endpoint.segment_id(segment));
  urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
  urma_sge_t from = piece(segment, memory.data() + 1000, 1000);
  urma_sge_t to = piece(remote, memory.data() + 5000, 1000);
  std::memset(memory.data() + 1000, 'x', 1000);
  endpoint.post_receive(segment, memory.data(), 1000, 1);
  endpoint.post(send_request(self, &from, 2));
  endpoint.post(write_request(self, &from, &to, 3));
  wait_for_success(endpoint.send_jfc, 2);
  wait_for_success(endpoint.send_jfc, 3);
  wait_for_success(endpoint.receive_jfc, 1);
  EXPECT_EQ(std::memcmp(memory.data(), memory.data() + 5000, 1000), 0);
  std::memset(memory.data(), 0, memory.size());
}

using GuestTest = ProcessTest;

class ExitTest : public ProcessTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ExitTest, EndsAtOnceWithoutUninit) {
  const char* program = std::getenv("GUEST_PROGRAM");
  ASSERT_NE(program, nullptr);
  // On a busy machine one may take as long to start. A library that delays the end delays each.
  constexpr int kTries = 5;
  bool at_once = false;
  for (int i = 0; i < kTries && !at_once; ++i) {
    const auto begin = Clock::now();
    Child child("guest_program", std::vector<std::string>{program, GetParam()});
    child.expect_success();
    at_once = Clock::now() - begin < patience(seconds(2));
  }
  EXPECT_TRUE(at_once);
}

INSTANTIATE_TEST_SUITE_P(All, ExitTest, ::testing::Values("exit", "return", "quick_exit", "thread"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(GuestTest, ThreadsAreNamedAndBlockAllSignals) {
  run_one([](Channel&) {
    const std::set<int> before = threads();
    Endpoint endpoint;
    std::vector<char> memory(10000);
    have_traffic(endpoint, memory);
    int named = 0;
    for (int tid : threads()) {
      if (before.count(tid) != 0) continue;
      const std::string task = "/proc/self/task/" + std::to_string(tid);
      const std::string name = read_file(task + "/comm");
      EXPECT_EQ(name.rfind("urma-", 0), 0u) << name;
      named += name == "urma-service\n";
      const std::string status = read_file(task + "/status");
      const size_t at = status.find("SigBlk:\t");
      ASSERT_NE(at, std::string::npos);
      const uint64_t blocked = std::stoull(status.substr(at + 8, 16), nullptr, 16);
      // All signals that can be blocked: not KILL and STOP, and not the two reserved by libc.
      for (int signal = 1; signal <= 64; ++signal) {
        if (signal == SIGKILL || signal == SIGSTOP || signal == 32 || signal == 33) continue;
        EXPECT_NE(blocked & 1ull << (signal - 1), 0u) << name << " does not block " << signal;
      }
    }
    EXPECT_EQ(named, 1);
    endpoint.close();
    expect_threads(before);
  });
}

TEST_F(GuestTest, DescriptorsAreCloseOnExec) {
  auto body = [](Channel& channel) {
    const std::set<int> before = open_fds(), threads_before = threads();
    Config config;
    config.events = true;
    Endpoint endpoint(config);
    std::vector<char> memory(10000);
    have_traffic(endpoint, memory);
    urma_jfce_t* jfce = urma_create_jfce(endpoint.ctx);
    ASSERT_NE(jfce, nullptr);
    // With a peer there are sockets, too.
    urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    endpoint.post_receive(segment, memory.data(), 100);
    channel.sync();
    urma_sge_t message = piece(segment, memory.data() + 1000, 100);
    endpoint.post(send_request(peer, &message));
    wait_for_success(endpoint.send_jfc, 0);
    wait_for_success(endpoint.receive_jfc, 0);
    EXPECT_GT(open_fds().size(), before.size());
    for (int fd : open_fds()) {
      if (before.count(fd) != 0) continue;
      EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0)
          << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
    }
    channel.sync();
    EXPECT_EQ(urma_delete_jfce(jfce), URMA_SUCCESS);
    endpoint.close();
    EXPECT_EQ(open_fds(), before);
    expect_threads(threads_before);
  };
  run_two("first", body, "second", body);
}

TEST_F(GuestTest, StartsAndEndsAgainAndAgain) {
  run_one([](Channel&) {
    std::vector<char> memory(1 << 20);
    const std::set<int> before = open_fds(), threads_before = threads();
    for (int cycle = 0; cycle < 3; ++cycle) {
      SCOPED_TRACE(cycle);
      Endpoint endpoint;
      EXPECT_EQ(urma_init(nullptr), URMA_EEXIST);
      have_traffic(endpoint, memory);
      endpoint.close();
      EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
      EXPECT_EQ(open_fds(), before);
      expect_threads(threads_before);
    }
  });
}

// What a program may have set up for itself.
struct Surroundings {
  mode_t mask;
  std::string directory, locale;
  std::array<struct sigaction, 65> actions;
  sigset_t blocked;

  static Surroundings now() {
    Surroundings it = {};
    it.mask = ::umask(0);
    ::umask(it.mask);
    it.directory = std::filesystem::current_path();
    it.locale = std::setlocale(LC_ALL, nullptr);
    for (int signal = 1; signal <= 64; ++signal) ::sigaction(signal, nullptr, &it.actions[signal]);
    ::sigprocmask(SIG_SETMASK, nullptr, &it.blocked);
    return it;
  }
  void expect_same(const Surroundings& other) const {
    EXPECT_EQ(mask, other.mask);
    EXPECT_EQ(directory, other.directory);
    EXPECT_EQ(locale, other.locale);
    for (int signal = 1; signal <= 64; ++signal) {
      EXPECT_EQ(actions[signal].sa_handler, other.actions[signal].sa_handler) << signal;
      EXPECT_EQ(actions[signal].sa_flags, other.actions[signal].sa_flags) << signal;
      EXPECT_EQ(::sigismember(&blocked, signal), ::sigismember(&other.blocked, signal)) << signal;
    }
  }
};

TEST_F(GuestTest, ChangesNoProcessState) {
  run_one([](Channel&) {
    ::umask(0027);
    ASSERT_EQ(::chdir("/"), 0);
    const Surroundings before = Surroundings::now();
    Endpoint endpoint;
    std::vector<char> memory(10000);
    have_traffic(endpoint, memory);
    Surroundings::now().expect_same(before);
    endpoint.close();
    Surroundings::now().expect_same(before);
  });
}

// Opens descriptors until only `left` more can be opened; closes them on destruction.
class Exhaustion {
 public:
  explicit Exhaustion(int left) {
    for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) fds_.push_back(fd);
    EXPECT_EQ(errno, EMFILE);
    for (; left > 0 && !fds_.empty(); --left) drop();
  }
  ~Exhaustion() {
    while (!fds_.empty()) drop();
  }

 private:
  void drop() {
    ::close(fds_.back());
    fds_.pop_back();
  }
  std::vector<int> fds_;
};

void set_fd_limit(rlim_t limit) {
  rlimit both;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &both), 0);
  both.rlim_cur = limit;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &both), 0);
}

// The whole life of an endpoint with only `left` descriptors; each failure must be reported.
void try_with(int left, std::vector<char>& memory) {
  const std::set<int> before = open_fds(), threads_before = threads();
  {
    Exhaustion exhaustion(left);
    const urma_status_t status = urma_init(nullptr);
    EXPECT_TRUE(status == URMA_SUCCESS || status == URMA_FAIL) << status;
    int count = 0;
    errno = 0;
    urma_device_t** list = urma_get_device_list(&count);
    EXPECT_TRUE(list != nullptr || errno != 0);
    urma_context_t* ctx = list != nullptr ? urma_create_context(list[0], 0) : nullptr;
    urma_free_device_list(list);
    if (ctx != nullptr) {
      urma_jfce_t* jfce = urma_create_jfce(ctx);
      EXPECT_TRUE(jfce != nullptr || errno != 0);
      urma_seg_cfg_t cfg = seg_config(memory.data(), memory.size(), kAllAccess);
      urma_target_seg_t* segment = urma_register_seg(ctx, &cfg);
      EXPECT_TRUE(segment != nullptr || errno != 0);
      EXPECT_TRUE(jfce == nullptr || urma_delete_jfce(jfce) == URMA_SUCCESS);
      EXPECT_TRUE(segment == nullptr || urma_unregister_seg(segment) == URMA_SUCCESS);
      EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    }
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  }
  EXPECT_EQ(open_fds(), before);
  expect_threads(threads_before);
}

TEST_F(GuestTest, NoDescriptorsLeft) {
  run_one([](Channel&) {
    std::vector<char> memory(1 << 20), more_memory(1 << 20);
    const rlim_t few = *open_fds().rbegin() + 40;
    set_fd_limit(few);
    for (int left = 0; left < 32; ++left) {
      SCOPED_TRACE(left);
      try_with(left, memory);
    }
    set_fd_limit(few + 200);
    OwnedEndpoint endpoint;
    have_traffic(endpoint, memory);
    // Running traffic needs no new descriptors, and refused calls do not disturb it.
    {
      Exhaustion exhaustion(0);
      for (int i = 0; i < 100; ++i) {
        errno = 0;
        EXPECT_EQ(urma_create_jfce(endpoint.ctx), nullptr);
        EXPECT_NE(errno, 0);
        errno = 0;
        urma_context_t* ctx = urma_create_context(endpoint.ctx->dev, 0);
        EXPECT_TRUE(ctx != nullptr ? urma_delete_context(ctx) == URMA_SUCCESS : errno != 0);
      }
    }
    have_traffic(endpoint, more_memory);
  });
}

std::mutex lines_mutex;
std::vector<std::string> lines;

void keep_line(int level, char* text) {
  const std::lock_guard<std::mutex> lock(lines_mutex);
  if (level <= URMA_VLOG_LEVEL_WARNING) lines.emplace_back(text);
}

// Without its directory the library still starts, but without shared memory devices, and logs why
// once.
void expect_no_devices(const std::string& path) {
  run_one([&path](Channel&) {
    ::setenv("URMA_RUNTIME_DIR", path.c_str(), 1);
    const std::set<int> before = open_fds();
    EXPECT_EQ(urma_register_log_func(keep_line), URMA_SUCCESS);
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    int count = -1;
    urma_device_t** list = urma_get_device_list(&count);
    if (list == nullptr) {
      EXPECT_EQ(errno, ENODEV);
      EXPECT_EQ(count, 0);
    }
    for (int i = 0; i < count; ++i) EXPECT_STREQ(list[i]->ops->name, "verbs");
    urma_free_device_list(list);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    const std::lock_guard<std::mutex> lock(lines_mutex);
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                            [&path](const std::string& line) {
                              return line.find(path) != std::string::npos;
                            }),
              1);
    EXPECT_EQ(open_fds(), before);
  });
}

TEST_F(GuestTest, RuntimeDirectoryOpenToOthersIsRefused) {
  const std::string path = runtime_dir() + "/open";
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  expect_no_devices(path);
  EXPECT_TRUE(std::filesystem::is_empty(path));
}

TEST_F(GuestTest, RuntimeDirectoryThatIsAFileIsRefused) {
  const std::string path = runtime_dir() + "/file";
  std::ofstream(path) << "mine";
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  expect_no_devices(path);
  EXPECT_EQ(read_file(path), "mine");
}

TEST_F(GuestTest, RuntimeDirectoryThatIsALinkIsRefused) {
  const std::string path = runtime_dir() + "/link", real = runtime_dir() + "/real";
  ASSERT_EQ(::mkdir(real.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(real.c_str(), path.c_str()), 0);
  expect_no_devices(path);
  EXPECT_TRUE(std::filesystem::is_empty(real));
}

}  // namespace
}  // namespace urma_test
