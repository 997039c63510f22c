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
#include <vector>

#include "jetty/completion_queue.h"
#include "jetty/owner_lock.h"
#include "jetty/receive_queue.h"
#include "jetty/send_queue.h"
#include "urma/providers/local/peer.h"
#include "urma/providers/local/ring.h"

namespace urma::local {

class Receiver;

// A JFR or jetty that peers may send to.
struct Endpoint {
  QueueIdentity identity;
  urma_eid_t eid;
  urma_transport_mode_t trans_mode;
  uint32_t token_policy;
  urma_token_t token;
  Receiver* receiver;
  CompletionQueue* jfc;  // where receives that are addressed to it complete
};

// A message by reference, as it was when its copy began: what the sender changes afterwards does
// not count.
struct Pull {
  Message message;
  uint64_t moved;
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
  uint64_t rnr_limit_ns = 0;   // how long a message waits for a receive; UINT64_MAX: for ever
  uint64_t rnr_since_ns = 0;   // when the first message began to wait, 0: none does
  std::unique_ptr<Pull> pull;  // of the first message, while it is copied in parts
  std::atomic<bool> abandoned{false};  // the sender has closed it, or is gone
};

class Receiver : public CompletionSource {
 public:
  Receiver(const urma_jfr_cfg_t& cfg, const SegmentTable* segments, CopyEngine* copy);

  urma_status_t post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr);

  // A poll of one of its JFCs: moves what has arrived. The records go to the JFC's ring.
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override;
  // By the poll of another JFC, unless somebody else is at it or the queue is lock_free.
  void try_progress();
  // By the service thread: one turn. True where something moved.
  bool serve();
  // Returns when nobody is copying from or to memory that is no longer registered.
  void quiesce();

  void add_ring(std::shared_ptr<IncomingRing> ring);
  // Ends the rings that lead to one endpoint: its senders get REM_ACCESS_ABORT_ERR.
  void close_rings(uint64_t user_data);

  // Nanoseconds that a message waits for a receive at this JFR, by the sender's retry count.
  uint64_t rnr_limit_ns(uint32_t rnr_retry) const;

 private:
  enum class Step { kMoved, kBlocked, kFinished };

  bool progress(CompletionQueue* poller);
  Step turn(IncomingRing* ring, CompletionQueue* poller, bool* moved);
  Step advance(IncomingRing* ring, CompletionQueue* poller);
  Step deliver(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
               CompletionQueue* poller);
  Step wait_for_receive(IncomingRing* ring, const Message& message);
  bool begin_pull(IncomingRing* ring, const Message& message);
  Step continue_pull(IncomingRing* ring, CompletionQueue* poller);
  urma_cr_status_t check(ReceiveEntry* entry, const Message& message) const;
  void scatter(const IncomingRing& ring, const Message& message, ReceiveEntry* entry) const;
  void finish(IncomingRing* ring, const Message& message, ReceiveEntry* entry,
              urma_cr_status_t local, uint8_t remote, CompletionQueue* poller);

  const SegmentTable* segments_;
  CopyEngine* copy_;
  const uint8_t rnr_timer_;
  OwnerLock lock_;  // guards all below
  ReceiveQueue posted_;
  std::vector<std::shared_ptr<IncomingRing>> rings_;
  IncomingRing* pulling_ = nullptr;  // holds the first posted receive until its message is whole
  size_t first_ring_ = 0;            // where the next turn begins
  std::atomic<uint32_t> ring_count_{0};
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_RECEIVER_H_
