// SPDX-License-Identifier: MIT
#include "test/process/crash_killer.h"

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace urma_test {
namespace {

constexpr int64_t kStopNs = 20'000'000;  // a thread in the kernel may stop late
constexpr int64_t kStepNs = 2'000'000;   // and one that sleeps there makes no step
constexpr int64_t kSpinNs = 50'000;      // shorter than a time slice of the waiting threads
constexpr uint64_t kMostSteps = 256;

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

// Whether the thread has stopped in time.
bool stops(pid_t thread, int64_t within_ns) {
  const int64_t begin = now_ns();
  for (;;) {
    int status = 0;
    const pid_t found = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (found == thread) return WIFSTOPPED(status);
    const int64_t waited = now_ns() - begin;
    if (found < 0 || waited > within_ns) return false;
    if (waited > kSpinNs) ::sched_yield();
  }
}

pid_t any_thread(pid_t process, std::mt19937_64& random) {
  std::vector<pid_t> threads;
  std::error_code gone;
  const std::string folder = "/proc/" + std::to_string(process) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
    threads.push_back(std::stoi(entry.path().filename()));
  }
  return threads.empty() ? process : threads[random() % threads.size()];
}

void step(pid_t thread, uint64_t steps) {
  if (::ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0 || !stops(thread, kStopNs)) return;
  for (uint64_t i = 0; i < steps; ++i) {
    if (::ptrace(PTRACE_SINGLESTEP, thread, 0, 0) != 0 || !stops(thread, kStepNs)) return;
  }
}

}  // namespace

std::string why_no_steps() {
  std::string why;
  Child probe("probe", [](Channel& channel) { channel.receive<char>(); });
  if (::ptrace(PTRACE_SEIZE, probe.pid(), 0, PTRACE_O_EXITKILL) != 0) {
    why = std::string("processes may not be traced here: ") + std::strerror(errno);
  }
  probe.kill();
  return why;
}

Death kill_at_random(Child& child, Method method, milliseconds longest, std::mt19937_64& random) {
  const uint64_t delay = random() % (1 + static_cast<uint64_t>(longest.count()) * 1'000'000);
  const bool main_thread = random() % 2 == 0;
  const uint64_t steps = random() % kMostSteps;
  const int64_t moment = now_ns() + static_cast<int64_t>(delay);
  while (now_ns() < moment) ::sched_yield();
  pid_t thread = 0;
  if (method == Method::kSteps) {
    thread = main_thread ? child.pid() : any_thread(child.pid(), random);
    if (::ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_EXITKILL) == 0) {
      step(thread, steps);
    } else {
      thread = 0;  // has just ended by itself
    }
  }
  const int64_t killed = now_ns();
  ::kill(child.pid(), SIGKILL);
  // Its process is only gone once its tracer knows; Child::kill() reaps the first thread.
  int status = 0;
  while (thread != 0 && thread != child.pid() && ::waitpid(thread, &status, __WALL) == thread &&
         WIFSTOPPED(status)) {
  }
  child.kill();
  return {killed, now_ns()};
}

}  // namespace urma_test
