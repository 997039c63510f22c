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

#include "jetty/completion_queue.h"
#include "jetty/counters.h"
#include "jetty/owner_lock.h"
#include "jetty/receive_queue.h"
#include "jetty/send_queue.h"
#include "urma/providers/local/iovecs.h"
#include "urma/providers/local/peer.h"
#include "urma/providers/local/ring.h"
#include "urma/providers/local/sender_memory.h"
#include "urma/providers/local/wakeup.h"

namespace urma::local {

class Receiver;

// The peer that an RC jetty is bound to, if any. Guarded by the lock of the jetty's receiver.
using Bond = std::optional<urma_jetty_id_t>;

// A JFR or jetty that peers may send to.
struct Endpoint {
  QueueIdentity identity;
  urma_eid_t eid;
  urma_transport_mode_t trans_mode;
  uint32_t token_policy;
  urma_token_t token;
  Receiver* receiver;
  CompletionQueue* jfc;  // where receives that are addressed to it complete
  const Bond* bond;      // of an RC jetty, else NULL
  uint32_t group = 0;    // the id of the group that it is a member of, 0: none
};

// A message by reference, as it was when its copy began: what the sender changes afterwards does
// not count.
struct Pull {
  Message message;
  uint64_t moved;
  Invalidation invalidation;
  std::array<PayloadPiece, 256> pieces;
  uint32_t count;
};

// One ring that ends here. The service thread holds it too, to mark its end.
struct IncomingRing {
  IncomingRing(RingConsumer consumer, std::shared_ptr<PeerProcess> sender_process)
      : ring(std::move(consumer)), process(std::move(sender_process)) {}

  RingConsumer ring;
  const std::shared_ptr<PeerProcess> process;
  QueueIdentity target = {};
  CompletionQueue* jfc = nullptr;
  urma_jetty_id_t sender = {};
  bool messages_only = false;     // mode UM
  RemoteBell bell;                // of the sender's JFC
  const Bond* bond = nullptr;     // of the target, where it is an RC jetty
  uint64_t unbound_since_ns = 0;  // when the first message began to wait for a bind, 0: none does
  uint64_t rnr_limit_ns = 0;      // how long a message waits for a receive; UINT64_MAX: for ever
  uint64_t rnr_since_ns = 0;      // when the first message began to wait, 0: none does
  Pull* pull = nullptr;           // of the first message, while it is copied in parts
  std::unique_ptr<Pull> pull_memory;
  std::atomic<bool> abandoned{false};  // the sender has closed it, or is gone
};

// On whose behalf messages are moved. A poll of a JFC takes its own records at once, without a
// detour over the JFC's ring; whoever else moves them leaves them there.
struct Poll {
  CompletionQueue* jfc = nullptr;  // whose caller this is, NULL: nobody's
  urma_cr_t* cr = nullptr;         // room for records
  int room = 0;
  int got = 0;

  // Where the next record of `target` goes; NULL: to its ring, behind those that are there.
  urma_cr_t* place(CompletionQueue* target) {
    return target == jfc && got < room && target->ring().empty() ? &cr[got++] : nullptr;
  }
};

// What the sender wants ended by a message.
Invalidation invalidation_of(const IncomingRing& ring, const Message& message);

class Receiver : public CompletionSource {
 public:
  // `subject` is the JFR's; receives that no message takes complete as `identity`.
  Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
           Transport* transport);

  urma_status_t post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept;

  // A poll of one of its JFCs: moves what has arrived.
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override;
  bool move_for(CompletionQueue* waiter, bool just_armed) override;
  bool outstanding() const override { return false; }
  // By the poll of another JFC, unless somebody else is at it or the queue is lock_free.
  void try_progress();
  // By the service thread: one turn. True where something moved.
  bool serve();
  // Returns when nobody is copying from or to memory that is no longer registered.
  void quiesce();

  // False where it takes no messages now.
  bool add_ring(std::shared_ptr<IncomingRing> ring);
  // Ends the rings that lead to one endpoint: its senders get REM_ACCESS_ABORT_ERR.
  void close_rings(uint64_t user_data);

  // ERROR gives all posted receives back, RESET forgets them; peers are shut out by both.
  void set_state(urma_jfr_state_t state);
  urma_jfr_state_t state();
  // One event once fewer receives than that are posted; 0: none.
  void set_limit(uint32_t limit);
  uint32_t limit();
  // Receives that were ever posted, and that are through.
  uint64_t posted();
  uint64_t consumed();
  // What it has done and how full it is, from any thread.
  void report(urma_ext_queue_t* queue) const;

  // Binds an RC jetty that shares this JFR, or unbinds it.
  void set_bond(Bond* bond, const Bond& peer);

  // Nanoseconds that a message waits for a receive at this JFR, by the sender's retry count.
  uint64_t rnr_limit_ns(uint32_t rnr_retry) const;

 private:
  enum class Step { kMoved, kBlocked, kFinished };

  bool in_state(urma_jfr_state_t state) const {
    return state_.load(std::memory_order_relaxed) == state;
  }

  void serve_starved();
  bool progress(Poll* poll);
  bool flush_posted(Poll* poll);
  void count_rings();
  void forget_senders();
  void close_all();
  void turn_away();
  void watch_limit() {
    if (posted_.size() < limit_) [[unlikely]]
      reach_limit();
  }
  void reach_limit();
  bool progress_ring(size_t index, Poll* poll, bool* moved);
  Step turn(IncomingRing* ring, Poll* poll, bool* moved);
  static RingConsumer::Peek peek(IncomingRing* ring, Message* message);
  Step advance(IncomingRing* ring, Poll* poll);
  Step end_abandoned(IncomingRing* ring);
  // Whether an RC message comes from the bound peer; where it does not, *step is what became of it.
  bool from_peer(IncomingRing* ring, const Message& message, Step* step);
  Step deliver(IncomingRing* ring, const Message& message, ReceiveEntry* entry, Poll* poll);
  Step wait_for_receive(IncomingRing* ring, const Message& message);
  bool begin_pull(IncomingRing* ring, const Message& message);
  Step continue_pull(IncomingRing* ring, Poll* poll);
  urma_cr_status_t pull_some(const IncomingRing& ring, Pull* pull, ReceiveEntry* entry);
  urma_cr_status_t pull_stretch(const IncomingRing& ring, const Pull& pull, ReceiveEntry* entry,
                                uint64_t budget, uint64_t* moved);
  static IovecList destination(ReceiveEntry* entry, uint64_t offset, uint64_t bytes);
  urma_cr_status_t check(ReceiveEntry* entry, const Message& message) const;
  void scatter(const IncomingRing& ring, const Message& message, ReceiveEntry* entry) const;
  // False where the message ends the access to a segment that its sender may not access.
  bool invalidate(const IncomingRing& ring, const Message& message,
                  const Invalidation& invalidation);
  void finish(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
              urma_cr_status_t local, uint8_t remote, Poll* poll);
  void fill_record(const IncomingRing& ring, const Message& message, const ReceiveEntry& entry,
                   urma_cr_status_t status, urma_cr_t* record) const;

  const QueueIdentity identity_;
  CompletionQueue* const jfc_;
  EventSubject* const subject_;
  SegmentTable* segments_;
  CopyEngine* copy_;
  ProgressDomain* domain_;
  const uint8_t rnr_timer_;
  OwnerLock lock_;  // guards all below
  ReceiveQueue posted_;
  SenderMemory sender_memory_;
  std::vector<std::shared_ptr<IncomingRing>> rings_;
  IncomingRing* pulling_ = nullptr;  // holds the first posted receive until its message is whole
  size_t first_ring_ = 0;            // where the next turn begins
  bool starved_ = false;             // a message for an armed JFC waits for a receive
  std::atomic<urma_jfr_state_t> state_{URMA_JFR_STATE_READY};  // written under lock_
  uint32_t limit_ = 0;
  uint32_t to_flush_ = 0;                // of the oldest posted receives
  std::atomic<uint32_t> ring_count_{0};  // rings, and one more where receives are to be flushed
  QueueCounters counters_;
  Counter dropped_;  // receives that a reset has forgotten
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_RECEIVER_H_
