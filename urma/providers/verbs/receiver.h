// SPDX-License-Identifier: MIT
//
// The receiving half of a JFR, and of the jetties that share it: posted receives, and the
// connections that end here. Messages of modes RM and RC take receives from one shared receive
// queue, whatever their connection; those of mode UM from one queue pair for datagrams.
#ifndef URMA_PROVIDERS_VERBS_RECEIVER_H_
#define URMA_PROVIDERS_VERBS_RECEIVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "jetty/receiver.h"
#include "urma/providers/verbs/connection.h"
#include "urma/providers/verbs/datagram_queue.h"
#include "urma/providers/verbs/device_word.h"
#include "urma/providers/verbs/mailbox.h"
#include "urma/providers/verbs/receive_table.h"

namespace urma::verbs {

// The receiving end of one connection, or one target of datagrams from any sender.
struct Incoming {
  uint64_t nonce = 0;  // of the sender's process
  ConnectRequest request = {};
  QueueIdentity target = {};
  CompletionQueue* jfc = nullptr;
  urma_eid_t eid = {};  // of the target
  std::shared_ptr<QueuePair> pair;
  std::unique_ptr<MailboxSlots> mailbox;
  ConnectReply reply = {};
  const Bond* bond = nullptr;  // of an RC jetty
  uint64_t received = 0;       // messages
  bool broken = false;         // its device has reported it to both sides
  bool too_long = false;       // the reason for that
  bool ended = false;          // its sender has closed it
  bool unbound = false;        // by its program; the sender is to be told
  uint32_t untold = 0;         // messages in the JFC's ring that may have been solicited
  uint32_t number = 0;         // of the queue pair
  urma_cr_t record = {};       // common part of all its messages' records
};

class Receiver final : public urma::Receiver, private QueueListener {
 public:
  // Throws Error.
  Receiver(const ContextResources& resources, const urma_jfr_cfg_t& cfg,
           const QueueIdentity& identity, EventSubject* subject);
  ~Receiver() override;

  urma_status_t post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept;

  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override;
  // The poller's lock is held, which a function pointer cannot express.
  static int poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                         CompletionSource* source) noexcept URMA_NO_THREAD_SAFETY_ANALYSIS;
  PollAlone poll_alone() const override { return poll_source; }
  bool move_for(CompletionQueue* waiter, bool just_armed) override;
  void try_progress() override;
  bool serve() override;
  void open_ways(const Endpoint& endpoint) override;
  void close_ways(uint64_t user_data) override;

  uint64_t posted() override;
  uint64_t consumed() override;
  void set_bond(Bond* bond, const Bond& peer) override;

  // The following are called on the service thread.

  // Makes the receiving end for a sender that `endpoint`, one of this receiver's, admits; the
  // sender's process has this nonce. A repeated request gets the same answer. *pair, if not NULL,
  // is what librdmacm has to connect; it is NULL in mode UM. Throws Error.
  ConnectAnswer accept(uint64_t nonce, const ConnectRequest& request, const Endpoint& endpoint,
                       std::shared_ptr<QueuePair>* pair);
  // Whether its device has refused a message of this connection as too long for its receive.
  bool found_too_long(uint64_t nonce, uint64_t connection);
  // The sender has closed the connection: messages sent before are still received.
  void disconnected(uint64_t nonce, uint64_t connection);
  // The same; returns how many messages it has brought. Nothing while the JFC lacks room for all of
  // them, and then the connection has not ended; nothing if it ended before.
  std::optional<uint64_t> settle(uint64_t nonce, uint64_t connection);
  // Nothing is received any more.
  void device_failed();
  // The same, if the device has given up this receiver's completion queue.
  void check_completions();

 private:
  static constexpr int kBatch = 16;
  // Nonce and number of a connection; for a target of datagrams: whether it is a jetty, and its id.
  using Key = std::pair<uint64_t, uint64_t>;

  struct Poll : urma::Poll {
    bool solicited = true;  // messages taken now may have rung as solicited

    // How many completions to take at a time.
    int batch() const { return cr == nullptr ? kBatch : std::min(kBatch, room - got); }
  };

  bool is_datagram() const { return cfg_.trans_mode == URMA_TM_UM; }

  void open() override URMA_REQUIRES(lock_);
  void close_all() override URMA_REQUIRES(lock_);
  uint32_t count_posted() const override URMA_REQUIRES(lock_) { return table_.size(); }
  uint32_t list_posted() override URMA_REQUIRES(lock_);
  uint64_t oldest_posted() const override URMA_REQUIRES(lock_) { return flushed_.back()->user_ctx; }
  void drop_oldest() override URMA_REQUIRES(lock_);
  void note_flush() override URMA_REQUIRES(lock_) { busy_.store(true, std::memory_order_relaxed); }
  void arm_limit() override URMA_REQUIRES(lock_);

  // The device's queue of receives.
  void open_queue() URMA_REQUIRES(lock_);
  void close_queue() URMA_REQUIRES(lock_);
  int post_list(ibv_recv_wr* first, ibv_recv_wr** bad) URMA_REQUIRES(lock_);
  urma_status_t add(const urma_jfr_wr_t& wr) URMA_REQUIRES(lock_);
  urma_status_t fill_place(const urma_jfr_wr_t& wr, PostedReceive* place) URMA_REQUIRES(lock_);
  urma_status_t post_listed(uint32_t* posted) URMA_REQUIRES(lock_);
  // Frees the places of the receives that the device refused.
  urma_status_t refuse_listed(int error, const ibv_recv_wr* bad, uint32_t count, uint32_t* posted)
      URMA_REQUIRES(lock_);
  void list(PostedReceive* place) URMA_REQUIRES(lock_);
  void post_again(PostedReceive* place) URMA_REQUIRES(lock_);

  bool progress(Poll* poll) URMA_REQUIRES(lock_);
  // All that has arrived, as far as the JFCs have room.
  void take_all() URMA_REQUIRES(lock_);
  bool take(const ibv_wc& completion, Poll* poll) URMA_REQUIRES(lock_);
  void reopen_datagrams() URMA_REQUIRES(lock_);
  // The short way.
  int poll_alone(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(poller->poll_lock());
  urma_status_t post_held(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) URMA_RELEASE(lock_);
  [[gnu::noinline]] urma_status_t post_behind(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr);
  [[gnu::noinline]] urma_status_t post_rest(urma_jfr_wr_t* first_listed, urma_jfr_wr_t* wr,
                                            urma_jfr_wr_t** bad_wr) URMA_RELEASE(lock_);
  [[gnu::cold, gnu::noinline]] urma_status_t post_refused(urma_jfr_wr_t* first, int error,
                                                          const ibv_recv_wr* bad,
                                                          urma_jfr_wr_t** bad_wr)
      URMA_RELEASE(lock_);
  bool add_short(const urma_jfr_wr_t& wr) URMA_REQUIRES(lock_);
  bool take_short(const ibv_wc& completion, const CompletionQueue* poller, urma_cr_t* record)
      URMA_REQUIRES(lock_);
  Incoming*& recent(uint32_t number) URMA_REQUIRES(lock_) {
    return recent_[number % recent_.size()];
  }

  Incoming* find_sender(const ibv_wc& completion, PostedReceive* place, DatagramHeader* header)
      URMA_REQUIRES(lock_);
  static void fill_common(Incoming* incoming);
  void fill_record(const ibv_wc& completion, const Incoming& incoming, PostedReceive* place,
                   const DatagramHeader& header, urma_cr_t* record) URMA_REQUIRES(lock_);
  void fill_datagram(const ibv_wc& completion, const PostedReceive& place,
                     const DatagramHeader& header, urma_cr_t* record) URMA_REQUIRES(lock_);
  bool memory_stands(PostedReceive* place) const URMA_REQUIRES(lock_);
  void open_letter(const Incoming& incoming, uint32_t slot, urma_cr_t* record) URMA_REQUIRES(lock_);
  uint32_t take_untold(const CompletionQueue* jfc) URMA_REQUIRES(lock_);
  void arm(CompletionQueue* jfc) URMA_REQUIRES(lock_);

  // From any thread.
  void serve_later();
  void close_incoming(Incoming* incoming) URMA_REQUIRES(lock_);
  void end_incoming(Incoming* incoming) URMA_REQUIRES(lock_);
  bool takes(const Endpoint& endpoint, const ConnectRequest& request, Answer* answer) const
      URMA_REQUIRES(lock_);
  ConnectAnswer accept_datagrams();
  std::unique_ptr<Incoming> make_incoming(uint64_t nonce, const ConnectRequest& request,
                                          const Endpoint& endpoint, std::shared_ptr<ibv_srq> srq);
  void queue_event(ibv_event_type type) override;

  const ContextResources resources_;
  const urma_jfr_cfg_t cfg_;
  const std::shared_ptr<CqPump> pump_;
  ReceiveTable table_ URMA_GUARDED_BY(lock_);
  std::shared_ptr<ibv_srq> srq_ URMA_GUARDED_BY(lock_);
  std::unique_ptr<DatagramReceives> datagrams_ URMA_GUARDED_BY(lock_);
  std::unique_ptr<DeviceWord> proof_;  // iWARP
  bool datagrams_broken_ URMA_GUARDED_BY(lock_) = false;
  bool armed_for_all_ URMA_GUARDED_BY(lock_) = false;  // not for solicited messages alone
  bool untold_ URMA_GUARDED_BY(lock_) = false;         // by some of incoming_
  Incoming unknown_ URMA_GUARDED_BY(lock_);  // a sender whose message could not be received at all
  std::array<ibv_recv_wr, kBatch> requests_ URMA_GUARDED_BY(lock_);  // being put together
  uint32_t listed_ URMA_GUARDED_BY(lock_) = 0;
  std::array<ibv_wc, kBatch> completions_ URMA_GUARDED_BY(lock_);
  int have_ URMA_GUARDED_BY(lock_) = 0;
  int next_ URMA_GUARDED_BY(lock_) = 0;          // those before it are done
  bool held_up_ URMA_GUARDED_BY(lock_) = false;  // serve() waits until all of them are done
  std::unordered_map<uint32_t, Incoming*> by_number_ URMA_GUARDED_BY(lock_);  // of the queue pair
  std::map<Key, std::unique_ptr<Incoming>> incoming_ URMA_GUARDED_BY(lock_);
  std::array<Incoming*, 16> recent_
      URMA_GUARDED_BY(lock_) = {};  // of the last messages, by parts of their numbers
  std::vector<Incoming*> ended_ URMA_GUARDED_BY(lock_);
  std::vector<std::unique_ptr<Incoming>> closed_ URMA_GUARDED_BY(lock_);  // see close_ways()
  std::vector<PostedReceive*> flushed_ URMA_GUARDED_BY(lock_);  // to_flush_, the next one last
  std::atomic<bool> busy_{false};           // there may be something to take or to flush
  std::atomic<bool> limit_reached_{false};  // reported by the device
  uint64_t consumed_ URMA_GUARDED_BY(lock_) = 0;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_RECEIVER_H_
