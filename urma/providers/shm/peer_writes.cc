// SPDX-License-Identifier: MIT
#include "urma/providers/shm/peer_writes.h"

#include <sched.h>

#include <utility>
#include <vector>

#include "segment/segment.h"
#include "urma/base/clock.h"
#include "urma/base/log.h"

namespace urma::shm {
namespace {

// A turn of a write takes less than a millisecond, but its thread may have to wait for a processor.
constexpr uint64_t kPatienceNs = 100'000'000;
// A peer that was late so often in a row is not waited for any more.
constexpr uint32_t kMostLate = 8;

// The odd counts of the writes that are under way.
CopyMarks::Counts under_way(const CopyMarks& marks) {
  CopyMarks::Counts counts = {};
  marks.await(/*deadline_ns=*/0, &counts);
  return counts;
}

// Whether all writes that were under way at an earlier look have ended, except those given up.
bool have_ended(const CopyMarks& marks, const CopyMarks::Counts& seen,
                const CopyMarks::Counts& given_up) {
  const CopyMarks::Counts now = under_way(marks);
  for (size_t at = 0; at < seen.size(); ++at) {
    if (seen[at] != 0 && seen[at] == now[at] && seen[at] != given_up[at]) return false;
  }
  return true;
}

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

// No copy of the list: an end of a registration must not fail for want of memory.
std::shared_ptr<PeerWrites::Peer> PeerWrites::before(size_t* place) const {
  const MutexLock lock(mutex_);
  if (*place > peers_.size()) *place = peers_.size();
  return *place == 0 ? nullptr : peers_[--*place];
}

// From the back: a peer that leaves meanwhile moves others towards the front, where they still get
// their turn.
void PeerWrites::for_each(const std::function<void(Peer&)>& call) const {
  size_t place = SIZE_MAX;
  while (const std::shared_ptr<Peer> peer = before(&place)) call(*peer);
}

const CopyMarks& PeerWrites::Peer::marks() const {
  return SegmentTable::copies_in(region->memory.data());
}

void PeerWrites::await() {
  const MutexLock awaits(await_mutex_);
  // All have the same time, however many they are. A write that begins while another peer is waited
  // for does not count.
  for_each([](Peer& peer) { peer.seen = under_way(peer.marks()); });
  const uint64_t deadline = monotonic_ns() + kPatienceNs;
  for_each([deadline](Peer& peer) { await_peer(peer, deadline); });
}

void PeerWrites::await_peer(Peer& peer, uint64_t deadline_ns) {
  if (peer.late == kMostLate) return;
  bool ended;
  while (!(ended = have_ended(peer.marks(), peer.seen, peer.given_up)) &&
         monotonic_ns() < deadline_ns) {
    ::sched_yield();
  }
  if (ended) {
    // One that waits only for what was given up, perhaps a moment ago in this turn, remains late.
    if (peer.seen == CopyMarks::Counts{} || peer.seen != peer.given_up) peer.late = 0;
    return;
  }
  peer.given_up = peer.seen;
  ++peer.late;
  URMA_LOG_LIMITED(WARNING,
                   "a peer has not ended its write to unregistered memory for {} ms; it may "
                   "still be written to",
                   kPatienceNs / 1'000'000);
}

}  // namespace urma::shm
