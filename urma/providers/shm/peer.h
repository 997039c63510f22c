// SPDX-License-Identifier: MIT
//
// Another process, and how bytes move between its memory and that of this process.
#ifndef URMA_PROVIDERS_SHM_PEER_H_
#define URMA_PROVIDERS_SHM_PEER_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "urma/base/fd.h"
#include "urma_types.h"

namespace urma::shm {

// A process at the other end of a control connection. The pidfd is taken while the connection
// stands, so that a recycled pid is never taken for it.
struct PeerProcess {
  pid_t pid = 0;  // 0: of another pid namespace
  Fd pidfd;
  uint32_t slot = 0;                         // where its socket is, as it says itself
  mutable std::atomic<bool> refused{false};  // the kernel has refused once, or is not to be asked
  // Whether large messages from and to it may be copied by both ends. Relaxed: pairs with nothing.
  mutable std::atomic<bool> may_help{false};

  // Whether the kernel can be asked to copy from and to its memory. If not, copies are staged.
  bool reachable() const {
    return pid != 0 && pidfd.valid() && !refused.load(std::memory_order_relaxed);
  }
};

// Whether it has ended, with all its threads. False if that cannot be found out.
bool has_ended(const PeerProcess& process);

// Whether the kernel lets processes of `user` write to the memory of this one, as far as is known.
bool is_open_to(uid_t user);

// For the log.
inline std::string name_of(const PeerProcess& process) {
  return "process " + std::to_string(process.pid);
}

enum class Direction { kRead, kWrite };

// Moves bytes between the two lists, which have the same total length, from the front on; *moved is
// how many. Through the kernel, in the caller: the other side does nothing. URMA_CR_SUCCESS, also
// if only a part was moved; otherwise none was. If the kernel refuses, the peer is no longer
// reachable() afterwards.
urma_cr_status_t copy_by_kernel(Direction direction, const PeerProcess& peer,
                                std::span<const iovec> local, std::span<const iovec> remote,
                                uint64_t* moved);

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_PEER_H_
