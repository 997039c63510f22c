// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_LOCAL_PROCESS_VM_COPY_H_
#define URMA_PROVIDERS_LOCAL_PROCESS_VM_COPY_H_

#include "urma/providers/local/peer.h"

namespace urma::local {

// Copies between processes through the kernel, in the caller: the other side does nothing.
class ProcessVmCopy : public CopyEngine {
 public:
  urma_cr_status_t copy(Direction direction, const PeerProcess& peer, std::span<const iovec> local,
                        std::span<const iovec> remote, uint64_t* moved) override;
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_PROCESS_VM_COPY_H_
