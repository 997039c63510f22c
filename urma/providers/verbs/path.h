// SPDX-License-Identifier: MIT
//
// The path from one send queue to one imported queue, over a reliable connection. Requests that a
// broken connection has not executed are posted again on the next one.
#ifndef URMA_PROVIDERS_VERBS_PATH_H_
#define URMA_PROVIDERS_VERBS_PATH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "urma/providers/verbs/atomics.h"
#include "urma/providers/verbs/device_word.h"
#include "urma/providers/verbs/offloaded_path.h"

namespace urma::verbs {

// The status of a request that the device completes with this one.
urma_cr_status_t request_status(ibv_wc_status status, OpKind kind);

// Whether a request is a message, which waits for a receive of the program at the peer.
inline bool takes_receive(const SendEntry& entry) { return receives_for(entry.kind) != 0; }

class Path : public OffloadedPath {
 public:
  Path(Sender* sender, RemoteQueue* target, uint32_t hint);
  ~Path() override;

  bool advance() override;
  void flush() override;
  void drop() override;
  void completed(uint32_t mark, ibv_wc_status status) override;
  bool linger() override;
  bool close_unwanted() override;
  void lose() override {
    if (connection_ != nullptr) connection_->broken.store(URMA_CR_LOC_OPERATION_ERR);
  }

  // Makes the connection in advance, so that the first request need not wait for it.
  void connect_ahead();
  // The same; false if already advised.
  bool advise();
  void unadvise();

  // The short way, in short_way.cc, is mostly the sender's. All requests before the mark have
  // succeeded.
  void succeeded(uint32_t mark);
  uint32_t tag() const { return tag_; }
  // A completion will report this request, which is in flight here.
  void report(const SendEntry& entry) {
    if (entry.moved > signalled_) nudge();
  }
  // Nothing is left to do but to wait for completions.
  bool settled() const { return stands() && outstanding == under_way_ && !emulating(); }
  // Whether requests may take the short way: it is open, and the connection not broken. Any request
  // that takes another way shuts it.
  bool is_open() const {
    // Relaxed: completions report what breaks meanwhile.
    return gate_->load(std::memory_order_relaxed) == URMA_CR_SUCCESS;
  }
  void shut() { gate_ = &kShut; }

 protected:
  // A request is kInFlight once its device requests are in the list, and kDone if it needs none: it
  // ends in its turn.
  Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;

 private:
  enum class State {
    kNone,
    kConnecting,
    kReady,
    kOneSided,  // messages wait for another connection
    kDraining,
    kSettling,  // the receiver is asked how much it has received
  };

  // An atomic that takes several requests.
  struct Emulation {
    explicit Emulation(const Device& device) : found(device, /*access=*/0) {}

    DeviceWord found;
    uint32_t rkey = 0;
    std::optional<AtomicLoop> loop;  // while one is under way
  };

  // Places of the queue pair that are not for the program's requests: a nudge, and the mark behind
  // flushed requests.
  static constexpr uint32_t kSpareSends = 2;
  friend class Sender;

  // Of the request with this number.
  uint64_t wr_id(uint64_t mark) const { return tag_above_ | static_cast<uint32_t>(mark); }
  // The device has completed everything up to here.
  [[gnu::always_inline]] void through(uint64_t upto) {
    sender_->give_credits(static_cast<uint32_t>(upto - done_));
    done_ = upto;
    fruitless_ = 0;
    connection_->used.store(sender_->resources().connections->clock(), std::memory_order_relaxed);
  }

  bool stands() const { return state_ == State::kReady && intact(); }
  bool intact() const {
    return !failing_ && connection_->broken.load(std::memory_order_relaxed) == URMA_CR_SUCCESS;
  }
  // Whether requests are posted to the device; and whether they wait for posting to stop.
  bool carries() const { return state_ == State::kReady || state_ == State::kOneSided; }
  bool ends() const { return state_ == State::kDraining || state_ == State::kSettling; }
  bool emulating() const { return emulation_ != nullptr && emulation_->loop.has_value(); }
  bool nothing_waits() const { return outstanding == under_way_; }
  bool advance_slowly();
  void reopen();
  bool post_shortly();
  [[gnu::cold, gnu::noinline]] bool post_refused(int error, uint32_t refused);
  void sign(SendEntry* entry);

  // Posting, in path_post.cc.
  bool fence_lets(const SendEntry& entry) override;
  Step transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step atomic(SendEntry* entry, urma_cr_status_t* status) override;
  Step send(SendEntry* entry, urma_cr_status_t* status) override;
  Step write_imm(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step write_notify(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  bool post_waiting();
  Step fill_list(SendEntry* entry, urma_cr_status_t* status);
  uint32_t requests_for(const SendEntry& entry) const;
  ibv_send_wr* add_request(ibv_wr_opcode opcode);
  void add_inline(ibv_send_wr* request, const void* data, uint32_t bytes);
  bool add_pieces(ibv_send_wr* request, std::span<const LocalPiece> pieces);
  Step add_local(ibv_send_wr* request, SendEntry* entry, urma_cr_status_t* status);
  // A SEND or a WRITE_IMM, with its immediate, if it has one.
  ibv_send_wr* add_message(const SendEntry& entry, ibv_wr_opcode opcode);
  bool add_letter(const SendEntry& entry, uint32_t* immediate);
  Step authorize(SendEntry* entry, const KeyGrant** grant, urma_cr_status_t* status);
  // Without access to a segment, a request may not invalidate it either.
  Step authorize_invalidation(SendEntry* entry, urma_cr_status_t* status);
  Step add_read(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status);
  Step add_write(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status);
  Step add_atomic(SendEntry* entry, const KeyGrant& grant, urma_cr_status_t* status);
  Step add_emulated(SendEntry* entry, const KeyGrant& grant, urma_cr_status_t* status);
  void set_round(ibv_send_wr* request);
  bool post_round(SendEntry* entry);
  bool post_list(SendEntry* entry);
  void refused(int error);
  bool post_one(ibv_send_wr* request);
  void nudge();

  // How iWARP proves execution.
  void sign_proven(SendEntry* entry);
  void set_proof(ibv_send_wr* request);
  void add_proof();

  // The fate of requests.
  void retire(uint64_t upto);
  void failed(uint64_t at, ibv_wc_status status);
  void end_all_under_way(urma_cr_status_t status);
  [[gnu::cold]] void warn_unanswered() const;
  bool continue_emulation(SendEntry* entry);

  // How a connection ends.
  void follow_connection();
  void doubt_segments(const SendEntry& entry);
  bool explained() const;
  void begin_drain();
  void end_drain();
  void forget_requests();
  void ask_count();
  void follow_count();
  void conclude();
  void end_received(uint64_t total);
  void end_doomed();
  void flush_doomed();
  void follow_last();
  void end_lingering();
  bool have_under_way(bool (*which)(const SendEntry&)) const;
  void drop_connection();

  // How one is made.
  void connect(bool one_sided);
  bool connected();
  void begin_requests();
  bool may_go_one_sided() const;
  bool leave_one_sided();

  const uint64_t tag_above_;  // wr_id() of 0
  // iWARP completes what TCP has taken, whether or not it arrives. So a READ of one word follows
  // each list, and its completion proves that all before was executed: 1 on iWARP, else 0.
  const uint32_t proof_;
  State state_ = State::kNone;
  bool advised_ = false;
  bool ahead_ = false;             // the connection was made before a request needed it
  uint64_t asked_again_ns_ = 0;    // when to ask a target again that was not bound yet; 0: never
  uint64_t patient_since_ns_ = 0;  // since when it is asked

  // The device's requests are counted. Completions return the lower half of the count: it passes
  // zero early in the life of each path, so that errors there show early.
  static constexpr uint64_t kFirstCount = UINT32_MAX - 40;
  uint64_t posted_ = kFirstCount;
  uint64_t done_ = kFirstCount;       // the device has completed everything up to here
  uint64_t signalled_ = kFirstCount;  // a completion will report everything up to here
  uint64_t waited_upto_ = 0;  // up to about here, requests waited for the connection to open
  uint32_t sends_ = 0;        // capacity of the queue pair
  uint32_t signal_every_ = 1;
  uint64_t letters_ = 0;  // of requests that were posted over the connection
  static constexpr std::atomic<uint32_t> kShut{kPostAgain};
  const std::atomic<uint32_t>* gate_ = &kShut;  // or Connection::broken, see is_open()
  ibv_qp* pair_ = nullptr;                      // set while open
  ibv_send_wr ready_ = {};                      // for a request that is posted alone
  ibv_sge ready_piece_ = {};
  uint64_t messages_ = 0;  // delivered over the connection

  bool failing_ = false;  // the queue pair has reported an error
  bool drained_ = false;
  bool cut_ = false;  // by a flush that later requests outlive
  uint64_t drain_mark_ = 0;
  uint64_t drain_since_ns_ = 0;
  bool lingers_ = false;  // doomed requests get time to arrive
  uint64_t count_asked_ns_ = 0;
  uint64_t count_since_ns_ = 0;
  uint32_t fruitless_ = 0;  // connections in a row that executed nothing

  std::unique_ptr<Emulation> emulation_;
};

// The last request of the list ends those of `entry`: decides whether it is signalled.
[[gnu::always_inline]] inline void Path::sign(SendEntry* entry) {
  RequestList& list = sender_->list();
  entry->moved = posted_ + list.count;
  const bool reads = entry->kind == OpKind::kRead || entry->kind == OpKind::kAtomic;
  if (entry->signalled || reads || entry->moved - signalled_ >= signal_every_ ||
      sender_->few_credits()) {
    list.requests[list.count - 1].send_flags |= IBV_SEND_SIGNALED;
    signalled_ = entry->moved;
  }
}

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_PATH_H_
