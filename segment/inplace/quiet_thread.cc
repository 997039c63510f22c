// SPDX-License-Identifier: MIT
#include "segment/inplace/quiet_thread.h"

#include <sys/mman.h>

#include <cerrno>
#include <csignal>

#include "urma/base/error.h"

namespace urma {
namespace {

constexpr size_t kGuardBytes = 4096;
// The thread-local data of all modules lie there too, and untouched pages cost nothing.
constexpr size_t kStackBytes = 2 << 20;
constexpr size_t kUsedBytes = QuietThread::kMailboxBytes + kStackBytes;
// [guard | mailbox | stack | guard], so that no area of the program merges with this one.
constexpr size_t kWholeBytes = kUsedBytes + 2 * kGuardBytes;

}  // namespace

// Not a stack from the C library's cache: its pages could be those to be moved.
QuietThread::QuietThread() {
  void* const memory =
      ::mmap(nullptr, kWholeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail_errno(URMA_ENOMEM, "mapping a stack");
  char* const used = static_cast<char*>(memory) + kGuardBytes;
  // Memory that mlockall(MCL_FUTURE) has locked would be filled at once.
  ::munlock(used, kUsedBytes);
  if (::mprotect(used, kUsedBytes, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    ::munmap(memory, kWholeBytes);
    errno = error;
    fail_errno(URMA_ENOMEM, "mapping a stack");
  }
  memory_ = memory;
}

QuietThread::~QuietThread() {
  if (started_) ::pthread_join(thread_, nullptr);
  ::munmap(memory_, kWholeBytes);
}

void* QuietThread::mailbox() const { return static_cast<char*>(memory_) + kGuardBytes; }

void QuietThread::start(void* (*body)(void* mailbox)) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstack(&attributes, static_cast<char*>(mailbox()) + kMailboxBytes, kStackBytes);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = ::pthread_create(&thread_, &attributes, body, mailbox());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (error != 0) {
    errno = error;
    fail_errno(URMA_ENOMEM, "starting a thread that un-shares");
  }
  started_ = true;
}

}  // namespace urma
