// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_SHM_PROCESS_VM_COPY_H_
#define URMA_PROVIDERS_SHM_PROCESS_VM_COPY_H_

#include "urma/providers/shm/peer.h"

namespace urma::shm {

// Copies between processes through the kernel, in the caller: the other side does nothing.
class ProcessVmCopy : public CopyEngine {
 public:
  urma_cr_status_t copy(Direction direction, const PeerProcess& peer, std::span<const iovec> local,
                        std::span<const iovec> remote, uint64_t* moved) override;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_PROCESS_VM_COPY_H_
