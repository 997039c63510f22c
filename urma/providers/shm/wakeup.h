// SPDX-License-Identifier: MIT
//
// How two processes wake each other: the end of a wake-up that a peer has handed over, the bell
// that says whether to use it, and what one connection has handed out.
#ifndef URMA_PROVIDERS_SHM_WAKEUP_H_
#define URMA_PROVIDERS_SHM_WAKEUP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "jetty/completion_queue.h"
#include "jetty/event_channel.h"
#include "jetty/process_barrier.h"
#include "segment/segment.h"
#include "segment/shared_memory.h"
#include "urma/base/fd.h"
#include "urma/providers/shm/protocol.h"

namespace urma::shm {

// Wakes one JFCE of a peer.
class Doorbell {
 public:
  // Throws Error if it is not one end of a nameless pair of stream sockets: nothing else is
  // known to be safe to send into, whichever process holds the other end.
  explicit Doorbell(Fd socket);

  // Never blocks. False if the peer has not emptied its end for long, so that it was not woken.
  bool push() const;

 private:
  Fd socket_;
};

// The memory that a peer shows: its segment words, bells and marks, mapped read-only.
struct PeerRegion {
  SharedMemory memory;
  bool fence;  // no process barrier between it and this process

  // Throws Error.
  PeerRegion(Fd fd, bool peer_has_barrier);
};

// The bell of a peer's JFC with what wakes the peer; without the latter if that JFC has no JFCE.
class RemoteBell {
 public:
  RemoteBell() = default;
  RemoteBell(std::shared_ptr<const PeerRegion> region, uint32_t bell,
             std::shared_ptr<const Doorbell> doorbell)
      : region_(std::move(region)),
        bell_(&SegmentTable::bell_in(region_->memory.data(), bell)),
        fence_(region_->fence),
        watch_(*bell_, fence_),
        doorbell_(std::move(doorbell)) {}

  // After something was published: wakes the peer if it waits for that. False if it should have
  // been woken, and could not be.
  [[gnu::always_inline]] bool ring(bool solicited) const {
    // SYNC(bell): the published data was stored before this look at the bell; pairs with the
    // barrier in the peer's CompletionQueue::arm.
    light_barrier(fence_);
    const uint32_t bits = bell_->seen();
    return bits == 0 || !wakes(bits, solicited) || doorbell_->push();
  }
  // Whether ring() might wake it; also true if that look needs a fence before it.
  [[gnu::always_inline]] bool may_be_awaited() const { return watch_.may_be_set(); }

 private:
  std::shared_ptr<const PeerRegion> region_;
  const Bell* bell_ = &kSilentBell;
  bool fence_ = false;
  BellWatch watch_;
  std::shared_ptr<const Doorbell> doorbell_;
};

// All wake-ups of one connection. On the service thread.
class Wakeups {
 public:
  Wakeups() = default;
  ~Wakeups() { clear(); }
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;

  // What to tell the peer about a JFC of this process, and the wake-up whose far end goes along;
  // NULL if the JFC has no channel. Throws Error.
  std::shared_ptr<const Wakeup> offer(EventChannel* channel, uint32_t jfc_id, WakeupOffer* offer);
  // The bell that a peer has offered, with the descriptor that came along. Throws Error if the
  // offer cannot be used.
  RemoteBell accept(const WakeupOffer& offer, std::shared_ptr<const PeerRegion> region, Fd fd);

  // The channel is about to end.
  void forget(EventChannel* channel);
  void clear();

 private:
  std::map<EventChannel*, std::shared_ptr<Wakeup>> ours_;
  std::map<uint64_t, std::weak_ptr<const Doorbell>> theirs_;  // by the peer's name of the channel
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_WAKEUP_H_
