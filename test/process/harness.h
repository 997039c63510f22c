// SPDX-License-Identifier: MIT
//
// Tests of several processes. A test forks one child per part and gives it a function to run; parts
// talk over channels. The test process itself makes no URMA call, so its children start like fresh
// programs. Every wait has a deadline.
#ifndef TEST_PROCESS_HARNESS_H_
#define TEST_PROCESS_HARNESS_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace urma_test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A duration that a test allows. Longer under a sanitizer, and multiplied by URMA_TEST_PATIENCE.
milliseconds patience(milliseconds limit);

// One end of a connection between two processes. Every call throws when the other end is gone or
// the deadline has passed; the test then fails and says why.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int fd);
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  static std::pair<Channel, Channel> pair();

  template <typename T>
  void send(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    send_bytes(&value, sizeof(value));
  }
  template <typename T>
  T receive() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    receive_bytes(&value, sizeof(value));
    return value;
  }
  template <typename T>
  T swap(const T& mine) {
    send(mine);
    return receive<T>();
  }
  // Returns once the other end has called it too.
  void sync() { swap('s'); }

  int fd() const { return fd_; }
  // Whether receive() would not wait: the other end has sent something, or has ended.
  bool has_message() const;

 private:
  void send_bytes(const void* data, size_t size);
  void receive_bytes(void* data, size_t size);

  int fd_ = -1;
};

// For a child that has not started the library: its runtime directory is this one inside that of
// the test.
void live_in(const std::string& directory);

using Body = std::function<void(Channel&)>;

// The name of a child that only queries the device; it takes no part in the test.
inline constexpr char kInquirer[] = "inquirer";

// A process that runs `body`. The first failed EXPECT or ASSERT ends it. If it fails, the test
// shows its output. Its channel leads to the parent unless another one is given. It ends by itself
// when it runs too long or when the test process is gone.
// URMA_PEER_DEVICE replaces URMA_DEVICE in every child except kInquirer, the first child of a test
// and children of the same name as the first, so that two processes talk from one device to
// another. URMA_PEER_EID_INDEX replaces URMA_EID_INDEX in the same children. URMA_PEER_NETWORK
// names the file of a network namespace; these children then run in it, as on another host.
// With URMA_PEER_DIRECTORY they live_in() that directory.
class Child {
 public:
  Child(std::string name, const Body& body);
  Child(std::string name, Channel channel, const Body& body);
  // A program with its arguments. It has no channel.
  Child(std::string name, const std::vector<std::string>& program);
  Child(const Child&) = delete;
  ~Child();  // kills it if it is still running

  pid_t pid() const { return pid_; }
  Channel& channel() { return channel_; }

  void kill();  // with SIGKILL; returns when it is gone
  void stop();  // with SIGSTOP; returns when all its threads have stopped
  // Waits for its end and returns its wait status; kills it at the deadline.
  int wait(milliseconds limit = seconds(50));
  // Waits for its end; fails the test and shows its output unless it succeeded.
  void expect_success(milliseconds limit = seconds(50));
  std::string output() const;

 private:
  void start(const std::function<int()>& main);

  std::string name_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  int output_ = -1;  // a memfd
  int status_ = 0;
  bool ended_ = false;
  Channel channel_;
};

// Runs two bodies, each in its own process, connected by a channel.
void run_two(const std::string& name_a, const Body& a, const std::string& name_b, const Body& b);
// Runs one body in its own process.
void run_one(const Body& body);

// Passes one value of each child to the other.
template <typename T>
void introduce(Child& a, Child& b) {
  a.channel().send(b.channel().receive<T>());
  b.channel().send(a.channel().receive<T>());
}

// A unique directory for the files of a test, removed with the object.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A fixture with its own runtime directory, named by URMA_RUNTIME_DIR and removed at the end.
class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest();
  ~ProcessTest() override;

  const std::string& runtime_dir() const { return scratch_.path(); }
  // The names of all its entries.
  std::vector<std::string> runtime_entries() const;

 private:
  ScratchDir scratch_;
};

}  // namespace urma_test

#endif  // TEST_PROCESS_HARNESS_H_
