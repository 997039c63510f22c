// SPDX-License-Identifier: MIT
//
// What a receive queue has mapped of the memory that large messages come from. A message may be
// read from there by plain loads if its sender lets everybody read the segment that it lies in:
// a mapping then tells a receiver nothing that it could not ask for. The kernel copies everything
// else, out of the one message.
#ifndef URMA_PROVIDERS_SHM_SENDER_MEMORY_H_
#define URMA_PROVIDERS_SHM_SENDER_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "urma/providers/shm/peer.h"
#include "urma/providers/shm/remote.h"
#include "urma/providers/shm/ring.h"

namespace urma::shm {

// Of one receive queue, guarded by its lock.
class SenderMemory {
 public:
  explicit SenderMemory(Transport* transport) : transport_(transport) {}

  // How the first bytes of a stretch of a message are reached.
  struct Stretch {
    uint64_t bytes;  // the number of bytes reached this way
    const char* mapped = nullptr;
    const Grant* grant = nullptr;  // with `mapped`: the bytes count if it still stands afterwards
    bool soon = false;             // nothing yet, but in a moment
  };
  Stretch find(const PeerProcess& process, const urma_eid_t& eid, const PayloadPiece& piece,
               uint64_t offset, uint64_t bytes);
  // Keeps only memory that messages of processes for which sends(pid) is true have named.
  void keep(const std::function<bool(pid_t)>& sends);

 private:
  struct Known {
    pid_t sender;  // the process that has named it
    urma_eid_t eid;
    uint32_t token_id;
    RemoteSegmentRef segment;
    uint64_t copied;  // by the kernel
    bool asked = false;
  };

  Known* look_up(const urma_eid_t& eid, const PayloadPiece& piece);
  void ask_for(pid_t sender, const urma_eid_t& eid, const PayloadPiece& piece);

  Transport* transport_;
  std::vector<Known> known_;  // most recently used first
  uint32_t missed_ = 0;       // messages that found all places taken by others
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_SENDER_MEMORY_H_
