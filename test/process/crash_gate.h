// SPDX-License-Identifier: MIT
//
// A gate in front of the kernel: another process decides for each system call whether it runs, is
// refused, or is the last one of its process.
#ifndef TEST_PROCESS_CRASH_GATE_H_
#define TEST_PROCESS_CRASH_GATE_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace urma_test {

// From now on, the system calls of all threads of the calling process wait at the gate, except
// those that cannot matter and those of its Channel. Returns the descriptor for the deciding
// process, -1 if the kernel has no such gate.
int open_gate();
// A call that does nothing: it tells the other side how far the process has come.
void pass_mark();

// Why this machine has no gate; empty if it has one.
std::string why_no_gate();

// Held by a process that may trace the other one.
class CrashGate {
 public:
  CrashGate(pid_t process, int its_descriptor);
  ~CrashGate();
  CrashGate(const CrashGate&) = delete;

  static constexpr int kPass = 0;
  static constexpr int kKill = -1;  // else the errno of a refusal
  using Decide = std::function<int(const seccomp_data& call)>;

  static bool is_mark(const seccomp_data& call);
  // Whether a kernel could refuse such a call, so that programs have to handle it.
  static bool can_be_refused(const seccomp_data& call);

  // Returns once the process is gone.
  void serve(const Decide& decide);

 private:
  pid_t process_;
  int listener_;
};

}  // namespace urma_test

#endif  // TEST_PROCESS_CRASH_GATE_H_
