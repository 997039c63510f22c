// SPDX-License-Identifier: MIT
//
// A gate before the kernel: another process decides about each system call, whether it passes, is
// refused, or is the last thing that its process wanted.
#ifndef TEST_PROCESS_CRASH_GATE_H_
#define TEST_PROCESS_CRASH_GATE_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace urma_test {

// From now on the calls of all threads of the calling process wait at the gate, save those that
// nothing depends on, and those of its Channel. Returns the descriptor for the one who decides, -1
// where the kernel has no such gate.
int open_gate();
// A call that does nothing: it tells the other side where the process has come to.
void pass_mark();

// Why there is no gate on this machine; empty where there is.
std::string why_no_gate();

// Held by a process that may trace the other one.
class CrashGate {
 public:
  CrashGate(pid_t process, int its_descriptor);
  ~CrashGate();
  CrashGate(const CrashGate&) = delete;

  static constexpr int kPass = 0;
  static constexpr int kKill = -1;  // else: the errno of a refusal
  using Decide = std::function<int(const seccomp_data& call)>;

  static bool is_mark(const seccomp_data& call);
  // Whether a kernel could refuse such a call, and a program has to live with that.
  static bool can_be_refused(const seccomp_data& call);

  // Returns when the process is gone.
  void serve(const Decide& decide);

 private:
  pid_t process_;
  int listener_;
};

}  // namespace urma_test

#endif  // TEST_PROCESS_CRASH_GATE_H_
