// SPDX-License-Identifier: MIT
//
// Pinned processes, and their communication beside the measured one.
#ifndef TOOLS_BENCH_PROCESS_H_
#define TOOLS_BENCH_PROCESS_H_

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace bench {

struct Measure;
struct Outcome;

// The reason why something could not be measured.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The other process is gone; it has reported the reason itself.
class PeerGone : public Failure {
 public:
  using Failure::Failure;
};

// Throws a Failure with the text of errno.
[[noreturn]] void fail_errno(const std::string& what);

// Throws a Failure unless `holds`.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw Failure(what);
}

// One end of a connection between two processes. Waiting for the other side sleeps.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  Channel(Channel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Channel& operator=(Channel&&) = delete;
  ~Channel() { reset(); }
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
  // Waits until the other process has reached this point too.
  void sync() { (void)swap('.'); }

  int fd() const { return fd_; }
  void reset();

 private:
  void send_bytes(const void* data, size_t size);
  void receive_bytes(void* data, size_t size);

  int fd_;
};

// Two cores that this process may use, if possible not two threads of one.
struct Cores {
  int first;
  int second;
};
Cores pick_cores();

// Pins the calling thread, and those that it starts, to one core.
void pin(int core);

// The core of the measurement's other process, for a measurement with two threads instead.
int other_core();

// Runs a measurement once. Throws a Failure if a process fails, is killed or hangs. Leaves no
// process behind; its processes end with this one.
Outcome run(const Measure& measure, Cores cores);

}  // namespace bench

#endif  // TOOLS_BENCH_PROCESS_H_
