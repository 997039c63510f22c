// SPDX-License-Identifier: MIT
#include "urma/providers/shm/peer_writes.h"

#include <utility>

#include "segment/segment.h"
#include "urma/base/clock.h"
#include "urma/base/log.h"

namespace urma::shm {
namespace {

// A turn of a write takes less than a millisecond, but its thread may have to wait for a processor.
constexpr uint64_t kPatienceNs = 100'000'000;
// A peer that was late so often in a row is not waited for any more.
constexpr uint32_t kMostLate = 8;

}  // namespace

void PeerWrites::add(std::shared_ptr<const PeerRegion> peer) {
  auto added = std::make_shared<Peer>(Peer{std::move(peer)});
  const MutexLock lock(mutex_);
  peers_.push_back(std::move(added));
}

void PeerWrites::remove(const PeerRegion* peer) {
  const MutexLock lock(mutex_);
  std::erase_if(peers_, [peer](const auto& each) { return each->region.get() == peer; });
}

void PeerWrites::await() {
  const MutexLock awaits(await_mutex_);
  const auto peers = [&] {
    const MutexLock lock(mutex_);
    return peers_;
  }();
  for (const std::shared_ptr<Peer>& peer : peers) {
    const CopyMarks& marks = SegmentTable::copies_in(peer->region->memory.data());
    if (peer->late == kMostLate) continue;
    if (marks.await(monotonic_ns() + kPatienceNs, &peer->given_up)) {
      peer->late = 0;
    } else {
      ++peer->late;
      URMA_LOG_LIMITED(WARNING,
                       "a peer has not ended its write to unregistered memory for {} ms; it may "
                       "still be written to",
                       kPatienceNs / 1'000'000);
    }
  }
}

}  // namespace urma::shm
