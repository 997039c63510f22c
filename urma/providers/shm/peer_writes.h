// SPDX-License-Identifier: MIT
//
// The writes of importers to memory of this process, which the kernel makes for them.
#ifndef URMA_PROVIDERS_SHM_PEER_WRITES_H_
#define URMA_PROVIDERS_SHM_PEER_WRITES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "segment/copy_marks.h"
#include "urma/base/mutex.h"
#include "urma/providers/shm/wakeup.h"

namespace urma::shm {

// Thread-safe.
class PeerWrites {
 public:
  void add(std::shared_ptr<const PeerRegion> peer);
  void remove(const PeerRegion* peer);

  // After a registration has ended: returns once no write to its memory is under way any more. A
  // peer that does not end its write delays that for a moment, and not often.
  void await();

 private:
  struct Peer {
    const CopyMarks& marks() const;

    std::shared_ptr<const PeerRegion> region;
    CopyMarks::Counts seen = {};  // under way when the present wait began
    CopyMarks::Counts given_up = {};
    uint32_t late = 0;
  };

  static void await_peer(Peer& peer, uint64_t deadline_ns);
  void for_each(const std::function<void(Peer&)>& call) const;
  // The peer before *place, or the last one, and its place; nothing at the front.
  std::shared_ptr<Peer> before(size_t* place) const;

  // The service thread waits for no peer: only for this one.
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Peer>> peers_ URMA_GUARDED_BY(mutex_);
  // Of what is in a Peer; taken before the other.
  Mutex await_mutex_;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_PEER_WRITES_H_
