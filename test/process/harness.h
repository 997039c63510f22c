// SPDX-License-Identifier: MIT
//
// Tests of several processes. A test forks a child for each part and gives it a function to run;
// parts talk over channels. The test process itself makes no URMA call, so that its children start
// as fresh programs do. Nothing here waits without a deadline.
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

// A duration that a test allows: longer where a sanitizer slows everything down, and so many times
// as long as URMA_TEST_PATIENCE says.
milliseconds patience(milliseconds limit);

// One end of a connection between two processes. Every call throws when the other end is gone or
// the deadline is over, which fails the test and says why.
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
  // Returns when the other end has called it too.
  void sync() { swap('s'); }

  int fd() const { return fd_; }

 private:
  void send_bytes(const void* data, size_t size);
  void receive_bytes(void* data, size_t size);

  int fd_ = -1;
};

using Body = std::function<void(Channel&)>;

// The name of a child that only asks what the device is like: it is no party to the test.
inline constexpr char kInquirer[] = "inquirer";

// A process that runs `body`. Inside, the first failed EXPECT or ASSERT ends it; what it printed
// is shown by the test if it does not end well. Its channel leads to the parent, unless it is given
// another one. It ends by itself when it takes too long or when the test process is gone.
// Where URMA_PEER_DEVICE is set, it is the URMA_DEVICE of every child but kInquirer, the first of a
// test and those of the same name, so that two processes talk from one device to another; the same
// goes for URMA_PEER_EID_INDEX and URMA_EID_INDEX. Those children are on another host where
// URMA_PEER_NETWORK is set: it names the file of a network namespace.
class Child {
 public:
  Child(std::string name, const Body& body);
  Child(std::string name, Channel channel, const Body& body);
  // A program with its arguments. It has no channel.
  Child(std::string name, const std::vector<std::string>& program);
  Child(const Child&) = delete;
  ~Child();  // kills it if it still runs

  pid_t pid() const { return pid_; }
  Channel& channel() { return channel_; }

  void kill();  // with SIGKILL; returns when it is gone
  void stop();  // with SIGSTOP; returns when all of its threads stand still
  // Waits until it has ended and returns its wait status; kills it at the deadline.
  int wait(milliseconds limit = seconds(50));
  // Waits until it has ended, and fails the test with its output if it did not end well.
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

// Runs two bodies, each in a process of its own, with a channel between them.
void run_two(const std::string& name_a, const Body& a, const std::string& name_b, const Body& b);
// Runs one body in a process of its own.
void run_one(const Body& body);

// Passes one value of each child to the other.
template <typename T>
void introduce(Child& a, Child& b) {
  a.channel().send(b.channel().receive<T>());
  b.channel().send(a.channel().receive<T>());
}

// Directory for a test's own files, unique and removed with the object.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A fixture with a runtime directory of its own, named by URMA_RUNTIME_DIR and removed in the end.
class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest();
  ~ProcessTest() override;

  const std::string& runtime_dir() const { return scratch_.path(); }
  // The names of everything in it.
  std::vector<std::string> runtime_entries() const;

 private:
  ScratchDir scratch_;
};

}  // namespace urma_test

#endif  // TEST_PROCESS_HARNESS_H_
