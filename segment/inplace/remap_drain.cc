// SPDX-License-Identifier: MIT
#include "segment/inplace/remap_drain.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/prctl.h>

#include <atomic>
#include <new>

#include "segment/inplace/raw_syscall.h"
#include "urma/base/error.h"

namespace urma {

struct RemapDrain::Mailbox {
  int uffd;
  int stop;
  std::atomic<uint32_t> started{0};
};

RemapDrain::RemapDrain(int uffd, int stop) : stop_(stop) {
  thread_.emplace();
  auto* const box = new (thread_->mailbox()) Mailbox{uffd, stop};
  thread_->start(&RemapDrain::run);
  // Waits for the thread's start: it may allocate memory, which could be frozen later.
  // SYNC(drain-started): acquire pairs with the release in RemapDrain::run.
  box->started.wait(0, std::memory_order_acquire);
}

RemapDrain::~RemapDrain() {
  uint64_t one = 1;
  raw_syscall(SYS_write, stop_, &one, sizeof one);
  thread_.reset();
  // Resets the eventfd for the next drain.
  raw_syscall(SYS_read, stop_, &one, sizeof one);
}

// Uses only raw calls, this stack and the mailbox: everything else may be frozen.
void* RemapDrain::run(void* mailbox) {
  auto* const box = static_cast<Mailbox*>(mailbox);
  raw_syscall(SYS_prctl, PR_SET_NAME, "urma-unshare", 0, 0, 0);
  // SYNC(drain-started): release pairs with the acquire in RemapDrain::RemapDrain.
  box->started.store(1, std::memory_order_release);
  box->started.notify_one();
  pollfd watched[2] = {{box->uffd, POLLIN, 0}, {box->stop, POLLIN, 0}};
  for (;;) {
    raw_syscall(SYS_ppoll, watched, 2, 0, 0, 0);
    if (watched[1].revents != 0) return nullptr;
    uffd_msg message;
    while (raw_syscall(SYS_read, box->uffd, &message, sizeof message) > 0) {
    }
  }
}

}  // namespace urma
