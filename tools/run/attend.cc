// SPDX-License-Identifier: MIT
#include "tools/run/attend.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/failure.h"

namespace run {
namespace {

// Signals from the kernel, such as Ctrl-C on a terminal, went to the child too.
void pass_on(pid_t child, const siginfo_t& signal) {
  if (signal.si_code == SI_KERNEL) return;
  if (signal.si_code == SI_QUEUE) {
    ::sigqueue(child, signal.si_signo, signal.si_value);
  } else {
    ::kill(child, signal.si_signo);
  }
}

bool is_job_control(int signal) {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

// Waits for the end of the child, and stops when it stops, so that the shell sees that.
int follow(pid_t child, const sigset_t& all) {
  for (;;) {
    siginfo_t signal;
    if (::sigwaitinfo(&all, &signal) < 0) continue;
    if (signal.si_signo != SIGCHLD) {
      pass_on(child, signal);
      continue;
    }
    int status = 0;
    while (::waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
      if (!WIFSTOPPED(status)) return status;
      if (is_job_control(WSTOPSIG(status))) ::raise(SIGSTOP);
    }
  }
}

}  // namespace

int attend(const std::function<int()>& body) {
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  // An ignored SIGCHLD would discard the child's status.
  struct sigaction ignored, usual = {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &usual, &ignored);
  const pid_t self = ::getpid(), child = ::fork();
  check(child >= 0, "making a process");
  if (child != 0) return follow(child, all);
  ::sigaction(SIGCHLD, &ignored, nullptr);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != self) ::raise(SIGKILL);
  ::_exit(body());
}

void end_as(int status) {
  if (!WIFSIGNALED(status)) ::_exit(WEXITSTATUS(status));
  // The core dump is the child's.
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const int number = WTERMSIG(status);
  ::signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  ::raise(number);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::_exit(128 + number);
}

}  // namespace run
