// SPDX-License-Identifier: MIT
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "segment/kernel_abi.h"
#include "urma/base/log.h"
#include "urma/providers/shm/peer.h"

namespace urma::shm {
namespace {

urma_cr_status_t status_of_errno(int code, const PeerProcess& peer) {
  switch (code) {
    case ESRCH:
      return URMA_CR_ACK_TIMEOUT_ERR;
    case EFAULT:
      return URMA_CR_REM_ACCESS_ABORT_ERR;
    case ENOMEM:
      URMA_LOG_LIMITED(ERR, "the kernel has no memory to copy from or to process {}", peer.pid);
      return URMA_CR_REM_OPERATION_ERR;
    default:
      if (!peer.refused.exchange(true, std::memory_order_relaxed)) {
        URMA_LOG_LIMITED(WARNING,
                         "the kernel refuses access to the memory of process {}: {}; copies are "
                         "staged, which takes longer; run both as the same user, with "
                         "kernel.yama.ptrace_scope 0, and let them call process_vm_readv",
                         peer.pid, std::strerror(code));
      }
      return URMA_CR_REM_OPERATION_ERR;
  }
}

// Whether what was read of some page begins with zero: so does a page of zeros.
bool may_be_zeros(std::span<const iovec> local, std::span<const iovec> remote, uint64_t bytes) {
  size_t piece = 0;
  uint64_t skip = 0;  // in that piece of `local`
  for (const iovec& there : remote) {
    auto va = reinterpret_cast<uint64_t>(there.iov_base);
    const uint64_t end = va + std::min<uint64_t>(there.iov_len, bytes);
    bytes -= end - va;
    for (uint64_t next; va < end; skip += next - va, va = next) {
      next = std::min(end, (va / kernel::kPageBytes + 1) * kernel::kPageBytes);
      while (skip >= local[piece].iov_len) skip -= local[piece++].iov_len;
      if (static_cast<const char*>(local[piece].iov_base)[skip] == 0) return true;
    }
  }
  return false;
}

// Whether the process still has what was read of it. Sets errno if not.
bool has_memory(const PeerProcess& peer, std::span<const iovec> remote) {
  const auto some = std::find_if(remote.begin(), remote.end(),
                                 [](const iovec& piece) { return piece.iov_len != 0; });
  char byte;
  const iovec here = {&byte, 1};
  const iovec there = {some->iov_base, 1};
  return ::process_vm_readv(peer.pid, &here, 1, &there, 1, 0) == 1;
}

// kernel.yama.ptrace_scope; 0 where there is none.
int ptrace_scope() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

}  // namespace

bool is_open_to(uid_t user) {
  static const int scope = ptrace_scope();
  return user == ::geteuid() && scope == 0 && ::prctl(PR_GET_DUMPABLE) == 1;
}

// A pidfd is readable once its process has ended; until then the pid still names it.
bool has_ended(const PeerProcess& process) {
  pollfd watched = {process.pidfd.get(), POLLIN, 0};
  int ready;
  // A signal also ends a call that does not wait.
  do {
    ready = ::poll(&watched, 1, 0);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

urma_cr_status_t copy_by_kernel(Direction direction, const PeerProcess& peer,
                                std::span<const iovec> local, std::span<const iovec> remote,
                                uint64_t* moved) {
  *moved = 0;
  if (local.empty() || remote.empty()) return URMA_CR_SUCCESS;
  if (has_ended(peer)) return URMA_CR_ACK_TIMEOUT_ERR;
  const auto call = direction == Direction::kRead ? ::process_vm_readv : ::process_vm_writev;
  const ssize_t done = call(peer.pid, local.data(), local.size(), remote.data(), remote.size(), 0);
  if (done <= 0) return status_of_errno(done < 0 ? errno : EFAULT, peer);
  // Of a process that dies while pages of it are frozen, the kernel may have read zeros: it ends
  // the freeze with the last descriptors. Its threads have left their memory before.
  if (direction == Direction::kRead && may_be_zeros(local, remote, static_cast<uint64_t>(done)) &&
      !has_memory(peer, remote)) {
    return status_of_errno(errno, peer);
  }
  *moved = static_cast<uint64_t>(done);
  return URMA_CR_SUCCESS;
}

}  // namespace urma::shm
