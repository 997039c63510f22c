// SPDX-License-Identifier: MIT
//
// The receiving half of a JFR: posted receives, and the rings of all peers that send to it or to
// the jetties that share it.
#ifndef URMA_PROVIDERS_SHM_RECEIVER_H_
#define URMA_PROVIDERS_SHM_RECEIVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "jetty/iovecs.h"
#include "jetty/receive_engine.h"
#include "urma/providers/shm/opaque_memory.h"
#include "urma/providers/shm/peer.h"
#include "urma/providers/shm/ring.h"
#include "urma/providers/shm/sender_memory.h"
#include "urma/providers/shm/staging.h"
#include "urma/providers/shm/wakeup.h"

namespace urma::shm {

// A message by reference, as it was when its copy began: later changes by the sender do not count.
struct Pull {
  Message message;
  uint64_t moved;
  bool mapped;  // so far
  Invalidation invalidation;
  std::array<PayloadPiece, 256> pieces;
  uint32_t count;
  bool ended;  // with these; there may be no room for its record yet
  urma_cr_status_t local, remote;
  std::shared_ptr<StagedCopy> staged;      // the part that the sender was asked for
  std::unique_ptr<OpaqueLanding> landing;  // if the processor cannot write to the receive
};

// One ring that ends here. The service thread holds it too, to mark its end.
struct IncomingRing : IncomingWay, RingConsumer {
  // Throws Error, as RingConsumer.
  IncomingRing(Fd fd, uint32_t bytes, std::shared_ptr<PeerProcess> sender_process)
      : RingConsumer(std::move(fd), bytes), process(std::move(sender_process)) {}

  // On the service thread: nothing further comes.
  void abandon(bool still_lends) {
    lends.store(still_lends, std::memory_order_relaxed);
    IncomingWay::abandon();
  }
  // Whether the sender has gone and taken back what its messages refer to.
  bool took_back() const {
    // Acquire pairs with the release in IncomingWay::abandon.
    return abandoned.load(std::memory_order_acquire) && !lends.load(std::memory_order_relaxed);
  }

  // As ReceiveEngine wants it.
  [[gnu::always_inline]] Peek peek(Message* message) {
    const Peek seen = RingConsumer::peek(message);
    const bool gone = seen == Peek::kMessage && (message->flags & kTakenBack) != 0;
    return gone ? pass_taken_back(message) : seen;
  }
  static constexpr bool kIsNear = true;
  [[gnu::always_inline]] bool copy_at_once(const Message& message, char* to) const {
    if (message.slots != 1 || message.kind == MessageKind::kSendInvalidate) return false;
    copy_plain(message, to);
    return true;
  }
  [[gnu::always_inline]] void after_turn(const Told& before, bool blocked) {
    if (blocked) answer_wanted();
    // A sender that could not be woken finds out by itself, when it looks after its requests.
    if (told().answers != before.answers) bell.ring(told().errors != before.errors);
  }
  [[gnu::always_inline]] bool has_to_tell(const Told& before) const {
    return told().answers != before.answers && bell.may_be_awaited();
  }
  void wake() { bell.ring(true); }
  // A look passes some of them, so that it ends.
  [[gnu::cold, gnu::noinline]] Peek pass_taken_back(Message* message) {
    Peek seen = Peek::kMessage;
    for (int i = 0; i < 16 && seen == Peek::kMessage && (message->flags & kTakenBack) != 0; ++i) {
      consume(*message, URMA_CR_WR_FLUSH_ERR);
      // The next one waits by itself.
      rnr_since_ns = unbound_since_ns = 0;
      invalidated = false;
      seen = RingConsumer::peek(message);
    }
    return seen;
  }
  [[gnu::always_inline]] bool in_parts() const { return pull != nullptr; }
  bool took_back(const Message& message) const {
    return (message.flags & kByReference) != 0 && took_back();
  }
  std::string who() const { return name_of(*process); }

  const std::shared_ptr<PeerProcess> process;
  RemoteBell bell;       // of the sender's JFC
  Pull* pull = nullptr;  // of the first message, while it is copied in parts
  std::unique_ptr<Pull> pull_memory;
  uint32_t joint_turns = 0;       // all that were offered
  uint64_t key = 0;               // of OpenRingRequest
  std::atomic<bool> lends{true};  // what its messages by reference refer to may be read
};

class Receiver : public ReceiveEngine<Receiver, IncomingRing> {
 public:
  Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
           Transport* transport);

  PollAlone poll_alone() const override { return poll_source; }

 private:
  friend ReceiveEngine;

  // Messages by reference, and receives that the processor cannot write to.
  std::optional<Step> begin_parts(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
                                  urma_cr_status_t local, Poll* poll) URMA_REQUIRES(lock_);
  Step go_on(IncomingRing* ring, Poll* poll) URMA_REQUIRES(lock_);
  void end_parts() URMA_REQUIRES(lock_);
  // Memory of a process without a sending queue must not stay mapped: it would be kept as long as
  // this queue lives.
  void ways_gone() URMA_REQUIRES(lock_);

  std::optional<Step> pull_part(IncomingRing* ring, ReceiveEntry* entry) URMA_REQUIRES(lock_);
  bool begin_pull(IncomingRing* ring, const Message& message) URMA_REQUIRES(lock_);
  // For a receive that the processor cannot write to.
  [[gnu::noinline]] std::optional<Step> begin_landing(IncomingRing* ring, const Message& message,
                                                      ReceiveEntry* entry, Poll* poll)
      URMA_REQUIRES(lock_);
  urma_cr_status_t pull_some(IncomingRing* ring, Pull* pull, ReceiveEntry* entry)
      URMA_REQUIRES(lock_);
  urma_cr_status_t pull_stretch(IncomingRing* ring, Pull* pulled, ReceiveEntry* entry,
                                uint64_t budget, uint64_t* moved) URMA_REQUIRES(lock_);
  // By the kernel: by both ends, or by this one.
  urma_cr_status_t pull_jointly(IncomingRing* ring, const Pull& pull, iovec to, uint64_t* moved)
      URMA_REQUIRES(lock_);
  urma_cr_status_t pull_alone(const IncomingRing& ring, const Pull& pull, uint64_t offset, iovec to)
      URMA_REQUIRES(lock_);
  bool worth_help(const IncomingRing& ring, const Pull& pull, std::span<const iovec> into) const
      URMA_REQUIRES(lock_);
  urma_cr_status_t pull_staged(const IncomingRing& ring, Pull* pull, ReceiveEntry* entry,
                               uint64_t budget, uint64_t* moved) URMA_REQUIRES(lock_);
  std::shared_ptr<StagedCopy> ask_sender(const IncomingRing& ring, uint64_t offset,
                                         uint64_t bytes) const;
  static IovecList source(const Pull& pull, uint64_t offset, uint64_t bytes);
  static IovecList destination(const Pull& pull, ReceiveEntry* entry, uint64_t bytes);

  Transport* const transport_;
  SenderMemory sender_memory_ URMA_GUARDED_BY(lock_);
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_RECEIVER_H_
