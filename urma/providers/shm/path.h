// SPDX-License-Identifier: MIT
//
// The way from one send queue to one imported queue: executes its requests in post order.
#ifndef URMA_PROVIDERS_SHM_PATH_H_
#define URMA_PROVIDERS_SHM_PATH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "jetty/iovecs.h"
#include "jetty/request_path.h"
#include "urma/providers/shm/remote.h"
#include "urma/providers/shm/ring.h"

namespace urma::shm {

class Sender;

// A ring that the owner of the target is asked to take; shared with the service thread.
struct RingOpening : Question {
  uint32_t number = 0;
  uint64_t key = 0;
  RingProducer ring;
  // Valid once ended.
  std::shared_ptr<Link> link;
  RemoteBell bell;                      // of the receiver's JFC
  uint32_t members = 0;                 // of the group
  std::atomic<bool> asked_back{false};  // the owner has not said yet that it gives the ring back

  RingOpening(uint32_t bytes, uint32_t as) : ring(bytes, as) {}
};

// An atomic, or the value of a notification, that the owner's service thread executes.
struct AtomicCall : Question {
  uint64_t old_value[2] = {0, 0};  // valid once ended
};

// Larger messages are copied once, by reference, if their receiver has mapped them. Others are
// copied twice, into the ring and out of it, and still arrive earlier.
inline constexpr uint32_t kMaxCopiedTwice = 512;

class QueuePath : public RequestPath {
 public:
  // `hint` distinguishes the paths to one group.
  QueuePath(Sender* sender, RemoteQueue* target, uint32_t hint = 0);
  ~QueuePath() override;

  bool is_near() const override { return true; }
  bool advance() override;
  bool take_ended(uint32_t place) override;
  void insist() override;
  void flush() override;
  // Publishes a message if that needs no look at what the receiver has written: that cache line
  // comes from another core, and would delay the message. False: nothing has happened. The entry
  // `cookie` is committed afterwards, and then a receiver that waits is woken.
  bool publish_now(MessageKind kind, uint8_t flags, const char* data, uint32_t bytes,
                   uint64_t immediate, uint32_t cookie);
  // The same for one slot of the ring, without a call.
  [[gnu::always_inline]] bool publish_slot(MessageKind kind, uint8_t flags, const char* data,
                                           uint32_t bytes, uint64_t immediate, uint32_t cookie) {
    return ring_ != nullptr && !closing_ &&
           ring_->publish_slot(kind, flags, data, bytes, immediate, cookie);
  }
  // Whether the next message that could take either way should go by reference, not through the
  // ring.
  bool prefers_reference() const;
  // Whether a message that would fit into the ring is still being copied out of the program's
  // memory. Asks for the answer.
  bool lends_what_fits() const;
  // Takes back messages by reference whose memory is no longer registered.
  void take_back_unregistered();
  // Adds the bytes of a message by reference that the receiver asks for, while it is in flight and
  // their memory stands. False if this path sends no such message.
  bool lent(const CopyMessageRequest& asked, IovecList* list);
  [[gnu::always_inline]] bool may_be_awaited() const { return opening_->bell.may_be_awaited(); }
  void wake_where_awaited(bool solicited);

 protected:
  Step transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step atomic(SendEntry* entry, urma_cr_status_t* status) override;
  Step send(SendEntry* entry, urma_cr_status_t* status) override;
  // Overridden by a provider with memory of its own.
  virtual Step write_value(const Grant& grant, uint64_t addr, uint64_t value,
                           urma_cr_status_t* status);

  // kInFlight once the owner has taken the ring.
  Step open_ring(urma_cr_status_t* status);
  // Publishes into the ring, which the owner may not have taken yet. False if it has no room.
  bool publish(SendEntry* entry);
  // Executes an atomic whose target lies in this process.
  static void execute_at(SendEntry* entry, char* target);
  bool awaits_atomic() const { return atomic_call_ != nullptr; }
  // Moves the next bytes of a transfer, one stretch that is mapped or one that is not, between the
  // target and `buffer`; NULL: the local pieces. *moved is the limit, and then how many.
  Step transfer_some(SendEntry* entry, const Grant& grant, char* buffer, uint64_t* moved,
                     urma_cr_status_t* status);
  bool is_staging() const { return copying_ != nullptr; }
  // kInFlight if no copy was asked for, or it has come.
  Step await_staged(urma_cr_status_t* status);
  Sender* sender() const { return sender_; }
  void next_begins() override;
  void look_up(SendEntry* entry) override;
  // The ring was refused or closed. `nobody` has the target: its owner is gone.
  virtual void ring_lost(bool /*nobody*/) {}

 private:
  Step write_imm(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step write_notify(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  bool placed_before(const SendEntry& entry) override;
  void executed(const SendEntry& entry) override;

  void reap();
  [[gnu::always_inline]] bool reap_answers();
  bool take_answer();
  urma_cr_status_t refusal();
  urma_cr_status_t failure(SendEntry* entry, uint8_t told);
  void fail_all(urma_cr_status_t status);
  void press_if_slow(bool moved);
  void press();

  // Moves some bytes between the list and target memory that is not mapped here, by the kernel or
  // staged. kWait: wait for what is in progress, with the same list.
  Step copy_far(Direction direction, const Grant& grant, uint64_t addr,
                std::span<const iovec> local, uint64_t* moved, urma_cr_status_t* status);
  void begin_staged(Direction direction, const Grant& grant, uint64_t addr,
                    std::span<const iovec> local);
  void call_atomic(const AtomicRequest& asked, const std::shared_ptr<Link>& link);
  Step await_atomic(urma_cr_status_t* status);

  std::shared_ptr<RingOpening> request_ring(uint32_t bytes);
  bool lends_registered(SendEntry* entry) const;
  void add_lent(SendEntry* entry, uint64_t offset, uint64_t bytes, IovecList* list);
  void help_receiver();
  bool prepare_ring();
  bool goes_by_reference(SendEntry* entry, uint64_t payload);
  bool change_rings();
  void note_full(uint32_t payload);
  bool ring_idle() const { return opening_ == nullptr || opening_->ring.idle(); }
  void ask_to_close(const std::shared_ptr<RingOpening>& opening, bool lends);
  void drop_ring();

  Sender* sender_;
  std::shared_ptr<AtomicCall> atomic_call_;
  std::shared_ptr<StagedCopy> copying_;  // of the first pending request
  std::shared_ptr<RingOpening> opening_;
  std::shared_ptr<RingOpening> larger_;  // replaces opening_ once that is empty
  RingProducer* ring_ = nullptr;         // that of opening_, once the owner has taken it
  bool closing_ = false;                 // the owner was asked to give back what is in the ring
  bool found_full_ = false;              // the first pending message found no room
  uint32_t found_full_count_ = 0;        // messages without room, of a size of which it holds few
  uint32_t tries_ = 0;                   // messages that counted for kTryEvery
  uint32_t fruitless_ = 0;
  std::optional<uint64_t> waiting_for_;  // the oldest message in ring_, by its position
  uint64_t waiting_since_ns_ = 0;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_PATH_H_
