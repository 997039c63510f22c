// SPDX-License-Identifier: MIT
//
// The receiving half of a JFR: posted receives, and the rings of all peers that send to it or to
// the jetties that share it.
#ifndef URMA_PROVIDERS_LOCAL_RECEIVER_H_
#define URMA_PROVIDERS_LOCAL_RECEIVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "jetty/receive_queue.h"
#include "jetty/receiver.h"
#include "jetty/turns.h"
#include "urma/providers/local/device_memory.h"
#include "urma/providers/local/iovecs.h"
#include "urma/providers/local/peer.h"
#include "urma/providers/local/ring.h"
#include "urma/providers/local/sender_memory.h"
#include "urma/providers/local/staging.h"
#include "urma/providers/local/wakeup.h"

namespace urma::local {

// A message by reference, as it was when its copy began: what the sender changes afterwards does
// not count.
struct Pull {
  Message message;
  uint64_t moved;
  bool mapped;  // so far
  Invalidation invalidation;
  std::array<PayloadPiece, 256> pieces;
  uint32_t count;
  std::shared_ptr<StagedCopy> staged;  // what of it the sender was asked for
  // Where the receive is memory of a device: the message is gathered here first, and then copied.
  std::unique_ptr<HostBuffer> buffer;
  std::unique_ptr<DeviceCopy> copy;
};

// One ring that ends here. The service thread holds it too, to mark its end.
struct IncomingRing {
  IncomingRing(RingConsumer consumer, std::shared_ptr<PeerProcess> sender_process)
      : ring(std::move(consumer)), process(std::move(sender_process)) {}

  // On the service thread: nothing further comes.
  void abandon(bool still_lends) {
    lends.store(still_lends, std::memory_order_relaxed);
    // Release pairs with the acquires in Receiver::advance and Receiver::took_back.
    abandoned.store(true, std::memory_order_release);
  }

  RingConsumer ring;
  const std::shared_ptr<PeerProcess> process;
  QueueIdentity target = {};
  CompletionQueue* jfc = nullptr;
  urma_jetty_id_t sender = {};
  bool messages_only = false;     // mode UM
  RemoteBell bell;                // of the sender's JFC
  urma_cr_t record = {};          // what all receives from it have in common
  const Bond* bond = nullptr;     // of the target, where it is an RC jetty
  uint64_t unbound_since_ns = 0;  // when the first message began to wait for a bind, 0: none does
  uint64_t rnr_limit_ns = 0;      // how long a message waits for a receive; UINT64_MAX: for ever
  uint64_t rnr_since_ns = 0;      // when the first message began to wait, 0: none does
  Pull* pull = nullptr;           // of the first message, while it is copied in parts
  std::unique_ptr<Pull> pull_memory;
  uint64_t key = 0;                    // of OpenRingRequest
  uint32_t silence = 0;                // of Receiver::turns_
  std::atomic<bool> lends{true};       // what its messages by reference refer to may be read
  std::atomic<bool> abandoned{false};  // the sender has closed it, or is gone
};

// What the sender wants ended by a message.
Invalidation invalidation_of(const IncomingRing& ring, const Message& message);

class Receiver final : public urma::Receiver {
 public:
  Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
           Transport* transport);

  urma_status_t post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept;

  // A poll of one of its JFCs: moves what has arrived.
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override
      URMA_REQUIRES(poller->poll_lock());
  bool move_for(CompletionQueue* waiter, bool just_armed) override;
  void try_progress() override;
  bool serve() override;
  void quiesce(OwnerBarrier* barrier) override;

  // False where it takes no messages now.
  bool add_ring(std::shared_ptr<IncomingRing> ring);
  void close_ways(uint64_t user_data) override;

  bool limits_jetties() const override { return true; }
  bool make_room(uint32_t receives) override;
  uint64_t posted() override;
  uint64_t consumed() override;
  void set_bond(Bond* bond, const Bond& peer) override;

  // Nanoseconds that a message waits for a receive at this JFR, by the sender's retry count.
  uint64_t rnr_limit_ns(uint32_t rnr_retry) const;

 private:
  enum class Step { kMoved, kBlocked, kFinished };

  void close_all() override URMA_REQUIRES(lock_);
  uint32_t count_posted() const override URMA_REQUIRES(lock_) { return posted_.size(); }
  uint32_t list_posted() override URMA_REQUIRES(lock_) { return posted_.size(); }
  uint64_t oldest_posted() const override URMA_REQUIRES(lock_) { return posted_.front()->user_ctx; }
  void drop_oldest() override URMA_REQUIRES(lock_) { posted_.pop(); }
  void note_flush() override URMA_REQUIRES(lock_) { count_rings(); }

  void serve_starved() URMA_REQUIRES(lock_);
  bool progress(Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::noinline]] bool progress_many(Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::cold, gnu::noinline]] void drop_finished() URMA_REQUIRES(lock_);
  void count_rings() URMA_REQUIRES(lock_);
  void forget_senders() URMA_REQUIRES(lock_);
  [[gnu::always_inline]] bool progress_ring(size_t index, Poll* poll, bool* moved)
      URMA_REQUIRES(lock_);
  [[gnu::always_inline]] Step turn(IncomingRing* ring, Poll* poll, bool* moved)
      URMA_REQUIRES(lock_);
  [[gnu::always_inline]] Step advance(IncomingRing* ring, Poll* poll) URMA_REQUIRES(lock_);
  Step end_abandoned(IncomingRing* ring) URMA_REQUIRES(lock_);
  // Whether the sender has gone and taken along what it referred to.
  static bool took_back(const IncomingRing& ring) {
    // Acquire pairs with the release in IncomingRing::abandon.
    return ring.abandoned.load(std::memory_order_acquire) &&
           !ring.lends.load(std::memory_order_relaxed);
  }
  static Step end_unanswered(IncomingRing* ring);
  [[gnu::noinline]] Step end_broken(IncomingRing* ring) URMA_REQUIRES(lock_);
  // Whether an RC message comes from the bound peer; where it does not, *step is what became of it.
  bool from_peer(IncomingRing* ring, const Message& message, Step* step) URMA_REQUIRES(lock_);
  [[gnu::always_inline]] Step deliver(IncomingRing* ring, const Message& message,
                                      ReceiveEntry* entry, Poll* poll) URMA_REQUIRES(lock_);
  Step wait_for_receive(IncomingRing* ring, const Message& message) URMA_REQUIRES(lock_);
  bool begin_pull(IncomingRing* ring, const Message& message) URMA_REQUIRES(lock_);
  // For a receive in memory of a device.
  [[gnu::noinline]] Step begin_device_pull(IncomingRing* ring, const Message& message,
                                           ReceiveEntry* entry, Poll* poll) URMA_REQUIRES(lock_);
  bool receives_by_device(ReceiveEntry* entry) const URMA_REQUIRES(lock_);
  bool copy_to_device(Pull* pull, ReceiveEntry* entry, urma_cr_status_t* status)
      URMA_REQUIRES(lock_);
  void end_pull() URMA_REQUIRES(lock_);
  Step continue_pull(IncomingRing* ring, Poll* poll) URMA_REQUIRES(lock_);
  urma_cr_status_t pull_some(const IncomingRing& ring, Pull* pull, ReceiveEntry* entry)
      URMA_REQUIRES(lock_);
  urma_cr_status_t pull_stretch(const IncomingRing& ring, Pull* pulled, ReceiveEntry* entry,
                                uint64_t budget, uint64_t* moved) URMA_REQUIRES(lock_);
  urma_cr_status_t pull_staged(const IncomingRing& ring, Pull* pull, ReceiveEntry* entry,
                               uint64_t budget, uint64_t* moved) URMA_REQUIRES(lock_);
  std::shared_ptr<StagedCopy> ask_sender(const IncomingRing& ring, uint64_t offset,
                                         uint64_t bytes) const;
  static IovecList destination(const Pull& pull, ReceiveEntry* entry, uint64_t bytes);
  urma_cr_status_t check(ReceiveEntry* entry, const Message& message) const {
    // Its data has gone where the sender chose; the receive is used up, not filled.
    if (message.kind == MessageKind::kWriteImm) return URMA_CR_SUCCESS;
    if (message.length > entry->bytes) return URMA_CR_LOC_LEN_ERR;
    for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
      if (piece.len != 0 && (!piece.valid || !segments_->alive(piece.ref))) {
        return URMA_CR_LOC_ACCESS_ERR;
      }
    }
    return URMA_CR_SUCCESS;
  }
  [[gnu::always_inline]] void scatter(const IncomingRing& ring, const Message& message,
                                      ReceiveEntry* entry) const URMA_REQUIRES(lock_);
  // False where the message ends the access to a segment that its sender may not access.
  bool invalidate(const IncomingRing& ring, const Message& message,
                  const Invalidation& invalidation) URMA_REQUIRES(lock_);
  [[gnu::noinline]] Step deliver_specially(IncomingRing* ring, const Message& message,
                                           ReceiveEntry* entry, urma_cr_status_t local, Poll* poll)
      URMA_REQUIRES(lock_);
  [[gnu::cold]] void log_failure(const IncomingRing& ring, const Message& message,
                                 ReceiveEntry* entry, urma_cr_status_t status) const
      URMA_REQUIRES(lock_);
  void finish(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
              urma_cr_status_t local, uint8_t remote, Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::always_inline]] static void fill_record(const IncomingRing& ring, const Message& message,
                                                 const ReceiveEntry& entry, urma_cr_status_t status,
                                                 urma_cr_t* record);

  SegmentTable* segments_;
  Transport* const transport_;
  DeviceEngine* device_;
  ProgressDomain* domain_;
  const uint8_t rnr_timer_;
  ReceiveQueue posted_ URMA_GUARDED_BY(lock_);
  SenderMemory sender_memory_ URMA_GUARDED_BY(lock_);
  std::vector<std::shared_ptr<IncomingRing>> rings_ URMA_GUARDED_BY(lock_);
  IncomingRing* pulling_ URMA_GUARDED_BY(lock_) =
      nullptr;  // holds the first posted receive until its message is whole
  size_t first_ring_ URMA_GUARDED_BY(lock_) = 0;  // where the next turn begins
  Turns turns_ URMA_GUARDED_BY(lock_){4};         // where the rings are many
  bool starved_ URMA_GUARDED_BY(lock_) = false;   // a message for an armed JFC waits for a receive
  std::atomic<uint32_t> ring_count_{0};  // rings, and one more where receives are to be flushed
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_RECEIVER_H_
