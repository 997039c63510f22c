// SPDX-License-Identifier: MIT
//
// The receiving half of a JFR to which messages are handed over: the posted receives, and what is
// the same for every carrier of messages. How messages are taken is in receive_engine.h.
#ifndef JETTY_MESSAGE_RECEIVER_H_
#define JETTY_MESSAGE_RECEIVER_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <string>

#include "jetty/message.h"
#include "jetty/receive_queue.h"
#include "jetty/receiver.h"
#include "jetty/transport.h"
#include "segment/segment.h"

namespace urma {

// A way from a send queue that ends here. Each carrier of messages derives from it.
struct IncomingWay {
  // Nothing further comes. Called by the service thread, or by the thread that ends the other end.
  void abandon() {
    // Release pairs with the acquire in ReceiveEngine::advance.
    abandoned.store(true, std::memory_order_release);
  }

  QueueIdentity target = {};
  CompletionQueue* jfc = nullptr;
  urma_jetty_id_t sender = {};
  bool messages_only = false;     // mode UM
  urma_cr_t record = {};          // what the records of all its receives share
  const Bond* bond = nullptr;     // of the target, where it is an RC jetty
  uint64_t unbound_since_ns = 0;  // when a message began to wait for a bind; 0: none does
  uint64_t rnr_limit_ns = 0;      // a message's wait for a receive; UINT64_MAX: unlimited
  uint64_t rnr_since_ns = 0;      // when a message began to wait for a receive; 0: none does
  uint32_t silence = 0;           // for ReceiveEngine's turns
  bool invalidated = false;       // the first message has ended the access that it names
  std::atomic<bool> abandoned{false};
};

class MessageReceiver : public Receiver {
 public:
  MessageReceiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
                  Transport* transport);

  urma_status_t post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept;
  void quiesce(OwnerBarrier* barrier) override;
  bool limits_jetties() const override { return true; }
  bool make_room(uint32_t receives) override;
  uint64_t posted() override;
  uint64_t consumed() override;
  void set_bond(Bond* bond, const Bond& peer) override;

  // Fills in what a way takes from the endpoint where it ends and from its sender.
  void describe(const Endpoint& endpoint, const WayRequest& asked, IncomingWay* way) const;

 protected:
  enum class Step { kMoved, kBlocked, kFinished };

  // Moves what has arrived, for no particular JFC. True if something moved.
  virtual bool move_any() URMA_REQUIRES(lock_) = 0;

  uint32_t count_posted() const override URMA_REQUIRES(lock_) { return posted_.size(); }
  uint32_t list_posted() override URMA_REQUIRES(lock_) { return posted_.size(); }
  uint64_t oldest_posted() const override URMA_REQUIRES(lock_) { return posted_.front()->user_ctx; }
  void drop_oldest() override URMA_REQUIRES(lock_) { posted_.pop(); }

  // How a receive ends that takes this message.
  [[gnu::always_inline]] urma_cr_status_t check(ReceiveEntry* entry, const Message& message) const {
    // Its data has gone where the sender chose; the receive is used up, not filled.
    return message.kind == MessageKind::kWriteImm ? URMA_CR_SUCCESS
                                                  : check_room(entry, message.length);
  }
  // The same for a message that is written into it.
  [[gnu::always_inline]] urma_cr_status_t check_room(ReceiveEntry* entry, uint32_t length) const {
    if (length > entry->bytes) return URMA_CR_LOC_LEN_ERR;
    for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
      if (piece.len != 0 && (!piece.valid || !segments_->alive(piece.ref))) {
        return URMA_CR_LOC_ACCESS_ERR;
      }
    }
    return URMA_CR_SUCCESS;
  }
  // False if the message ends the access to a segment that its sender may not access. `who`
  // names the sender.
  bool invalidate(const std::string& who, const Message& message, const Invalidation& invalidation);
  // How a message without a posted receive ends; URMA_CR_SUCCESS while its sender lets it wait.
  urma_cr_status_t refusal_of_waiting(IncomingWay* way, const Message& message)
      URMA_REQUIRES(lock_);
  // How a message ends for its sender, given how its receive ends.
  static urma_cr_status_t remote_status(urma_cr_status_t local);
  // Whether an RC message comes from the bound peer. If not, *refusal is how it ends, or
  // URMA_CR_SUCCESS while it may wait for a bind.
  static bool from_peer(IncomingWay* way, urma_cr_status_t* refusal);
  // Does not throw: the record of the receive is made.
  [[gnu::cold]] void log_failure(const IncomingWay& way, const Message& message,
                                 ReceiveEntry* entry, urma_cr_status_t status) const noexcept
      URMA_REQUIRES(lock_);
  [[gnu::always_inline]] static void fill_record(const IncomingWay& way, const Message& message,
                                                 const ReceiveEntry& entry, urma_cr_status_t status,
                                                 urma_cr_t* record);

  SegmentTable* const segments_;
  const uint8_t rnr_timer_;
  ReceiveQueue posted_ URMA_GUARDED_BY(lock_);
  // Holds the first posted receive until its message is whole.
  IncomingWay* holding_ URMA_GUARDED_BY(lock_) = nullptr;
  bool starved_ URMA_GUARDED_BY(lock_) = false;  // a message for an armed JFC waits for a receive

 private:
  [[gnu::noinline]] urma_status_t post_behind(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept;
  [[gnu::noinline]] urma_status_t post_any(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock_);
  [[gnu::noinline]] urma_status_t wake_one() noexcept;
  void serve_starved() URMA_REQUIRES(lock_);
  void write_failure(const IncomingWay& way, const Message& message, ReceiveEntry* entry,
                     urma_cr_status_t status) const;
  // Nanoseconds that a message waits for a receive at this JFR, by the sender's retry count.
  uint64_t rnr_limit_ns(uint32_t rnr_retry) const;

  Transport* const transport_;
};

inline void MessageReceiver::fill_record(const IncomingWay& way, const Message& message,
                                         const ReceiveEntry& entry, urma_cr_status_t status,
                                         urma_cr_t* record) {
  *record = way.record;
  record->status = status;
  record->user_ctx = entry.user_ctx;
  record->completion_len = status == URMA_CR_SUCCESS ? message.length : 0;
  if (message.kind == MessageKind::kSend) return;
  record->opcode = opcode_of(message.kind);
  if (message.kind == MessageKind::kSendInvalidate) [[unlikely]] {
    const auto key = std::bit_cast<TokenKey>(message.immediate);
    record->invalid_token = {key.token_id, {key.token}};
  } else {
    record->imm_data = message.immediate;
  }
}

}  // namespace urma

#endif  // JETTY_MESSAGE_RECEIVER_H_
