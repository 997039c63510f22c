// SPDX-License-Identifier: MIT
#include "test/process/crash_gate.h"

#include <linux/filter.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "test/process/harness.h"

namespace urma_test {
namespace {

// A newer flag than some headers have.
constexpr unsigned long kTsyncEsrch = 1UL << 4;
constexpr long kMark = SYS_getppid;
constexpr long kFree[] = {
    SYS_futex,        SYS_sched_yield, SYS_clock_gettime, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_exit,        SYS_exit_group,    SYS_sendto,
    SYS_recvfrom,     SYS_ppoll,       SYS_pidfd_open,    SYS_gettid,
#ifdef SYS_poll
    SYS_poll,
#endif
};
constexpr long kRefusable[] = {
    SYS_mmap,       SYS_mremap,    SYS_mprotect, SYS_munmap,      SYS_madvise,       SYS_ioctl,
    SYS_pwrite64,   SYS_pread64,   SYS_openat,   SYS_userfaultfd, SYS_memfd_create,  SYS_ftruncate,
    SYS_fcntl,      SYS_fallocate, SYS_lseek,    SYS_eventfd2,    SYS_clone,         SYS_clone3,
    SYS_newfstatat, SYS_fstat,     SYS_mincore,  SYS_read,        SYS_get_mempolicy, SYS_mbind,
    SYS_mlock,      SYS_munlock,
};

bool is_one_of(const long* begin, const long* end, long number) {
  return std::find(begin, end, number) != end;
}

void answer(int listener, uint64_t id, int verdict) {
  seccomp_notif_resp response = {};
  response.id = id;
  if (verdict == CrashGate::kPass) {
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  } else {
    response.error = -verdict;
  }
  // A thread that has ended in the meantime needs no answer.
  static_cast<void>(::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response));
}

}  // namespace

int open_gate() {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  constexpr size_t kCount = std::size(kFree);
  for (size_t i = 0; i < kCount; ++i) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kFree[i]),
                               static_cast<uint8_t>(kCount - i), 0));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  constexpr unsigned long kFlags =
      SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC | kTsyncEsrch;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &filter));
}

void pass_mark() { ::syscall(kMark); }

std::string why_no_gate() {
  std::string why;
  Child probe("probe", [](Channel& channel) {
    channel.send(open_gate());
    pass_mark();
  });
  try {
    CrashGate(probe.pid(), probe.channel().receive<int>()).serve([](const seccomp_data&) {
      return CrashGate::kPass;
    });
  } catch (const std::exception& error) {
    why = std::string("system calls cannot be held up here: ") + error.what();
  }
  probe.kill();
  return why;
}

CrashGate::CrashGate(pid_t process, int its_descriptor) : process_(process), listener_(-1) {
  if (its_descriptor < 0) throw std::runtime_error("the kernel refuses the seccomp gate");
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  listener_ = static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, its_descriptor, 0));
  const int error = errno;
  ::close(pidfd);
  if (listener_ < 0) throw std::runtime_error(std::strerror(error));
}

CrashGate::~CrashGate() { ::close(listener_); }

bool CrashGate::is_mark(const seccomp_data& call) { return call.nr == kMark; }

bool CrashGate::can_be_refused(const seccomp_data& call) {
  if (call.nr == SYS_ioctl && call.args[1] == UFFDIO_WAKE) return false;
  return is_one_of(std::begin(kRefusable), std::end(kRefusable), call.nr);
}

void CrashGate::serve(const Decide& decide) {
  for (;;) {
    pollfd waited = {listener_, POLLIN, 0};
    if (::poll(&waited, 1, -1) < 0 && errno != EINTR) throw std::runtime_error("poll");
    if ((waited.revents & POLLIN) == 0) {
      if ((waited.revents & (POLLHUP | POLLERR)) != 0) return;
      continue;
    }
    seccomp_notif call = {};
    if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) continue;
    const int verdict = decide(call.data);
    if (verdict == kKill) {
      ::kill(process_, SIGKILL);
    } else {
      answer(listener_, call.id, verdict);
    }
  }
}

}  // namespace urma_test
