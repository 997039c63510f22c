// SPDX-License-Identifier: MIT
#include "jetty/process_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace urma {

std::atomic<bool> internal::process_barrier{false};

bool enter_process_barrier() {
  static const bool entered =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
  internal::process_barrier.store(entered, std::memory_order_relaxed);
  return entered;
}

void heavy_barrier(bool fenced) {
  // Also for publishers that fence themselves.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!fenced) ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace urma
