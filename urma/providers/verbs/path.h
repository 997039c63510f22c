// SPDX-License-Identifier: MIT
//
// The way from one send queue to one imported queue, over a reliable connection. What a broken one
// has not executed only has to be posted again.
#ifndef URMA_PROVIDERS_VERBS_PATH_H_
#define URMA_PROVIDERS_VERBS_PATH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "urma/providers/verbs/atomics.h"
#include "urma/providers/verbs/memory.h"
#include "urma/providers/verbs/offloaded_path.h"

namespace urma::verbs {

// What a request ends with that the device completes so.
urma_cr_status_t status_of(ibv_wc_status status, OpKind kind);

// Whether a request is a message, which waits for a receive of the program there.
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

  // Makes the connection, so that the first request need not wait for it.
  void connect_ahead();
  // The same; false where that was advised already.
  bool advise();
  void unadvise();

  // The short way, in short_way.cc, is mostly the sender's. All before the mark have ended with
  // success.
  void succeeded(uint32_t mark);
  uint32_t tag() const { return tag_; }
  // There is nothing to do but to wait for completions.
  bool settled() const { return stands() && outstanding == under_way_ && !emulating(); }
  // Whether requests may take the short way: it is open, and the connection not broken. Shut by
  // whoever lets one take another.
  bool is_open() const {
    // Relaxed: what breaks just now is told by completions.
    return gate_->load(std::memory_order_relaxed) == URMA_CR_SUCCESS;
  }
  void shut() { gate_ = &kShut; }

 protected:
  // A request is kInFlight once what it needs of the device is in the list, and kDone where it
  // needs nothing: it ends when its turn comes.
  Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;

 private:
  enum class State {
    kNone,
    kConnecting,
    kReady,
    kOneSided,  // messages wait for another connection
    kDraining,
    kSettling,  // the receiver is asked what it has received
  };

  // An atomic that takes several requests. The device writes into `found`.
  struct Emulation {
    explicit Emulation(const Device& device)
        : region(device, reinterpret_cast<uint64_t>(&found), sizeof(found), {}) {}

    alignas(8) uint64_t found = 0;
    MemoryRegion region;
    uint32_t rkey = 0;
    std::optional<AtomicLoop> loop;  // while one is under way
  };

  // Places of the queue pair that are not for the program's requests: a nudge, and the mark behind
  // what is flushed.
  static constexpr uint32_t kSpareSends = 2;
  friend class Sender;

  // Of the request with this number.
  uint64_t wr_id(uint64_t mark) const { return tag_above_ | static_cast<uint32_t>(mark); }
  // The device is through with everything up to here.
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
  // Whether requests are posted to the device; and whether they wait for that to end.
  bool carries() const { return state_ == State::kReady || state_ == State::kOneSided; }
  bool ends() const { return state_ == State::kDraining || state_ == State::kSettling; }
  bool emulating() const { return emulation_ != nullptr && emulation_->loop.has_value(); }
  bool nothing_waits() const { return outstanding == under_way_; }
  bool advance_slowly();
  void reopen();
  bool post_shortly();
  [[gnu::cold, gnu::noinline]] bool post_refused(int error, uint32_t refused);
  void sign(SendEntry* entry);

  // What is posted, in path_post.cc.
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
  // A message, or what comes behind it: with its immediate, where it has one.
  ibv_send_wr* add_message(const SendEntry& entry, ibv_wr_opcode opcode);
  bool add_letter(const SendEntry& entry, uint32_t* immediate);
  Step authorize(const RemoteAccess& access, uint64_t* asked, const KeyGrant** grant,
                 urma_cr_status_t* status);
  Step authorize(SendEntry* entry, uint32_t rights, const KeyGrant** grant,
                 urma_cr_status_t* status);
  // Who may not access a segment may not end it either.
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

  // How iWARP proves it.
  void sign_proven(SendEntry* entry);
  void set_proof(ibv_send_wr* request);
  void add_proof();

  // What becomes of it.
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

  // How one comes to be.
  void connect(bool one_sided);
  bool connected();
  void begin_requests();
  bool may_go_one_sided() const;
  bool leave_one_sided();

  const uint64_t tag_above_;  // wr_id() of 0
  // iWARP completes what TCP has taken, whatever becomes of it then. So a READ of one word follows
  // each list, and its completion proves that all before has been executed: 1 where it does.
  const uint32_t proof_;
  State state_ = State::kNone;
  bool advised_ = false;
  bool ahead_ = false;             // the connection was made before a request needed it
  uint64_t asked_again_ns_ = 0;    // when a target that was not bound yet is asked again, 0: never
  uint64_t patient_since_ns_ = 0;  // since when it is asked

  // Requests of the device are counted. Completions bring back the lower half of the count: it
  // passes zero early in the life of each path, so that what goes wrong there is not found late.
  static constexpr uint64_t kFirstCount = UINT32_MAX - 40;
  uint64_t posted_ = kFirstCount;
  uint64_t done_ = kFirstCount;       // up to here the device is through
  uint64_t signalled_ = kFirstCount;  // up to here a completion will tell
  uint64_t waited_upto_ = 0;          // up to here about, they waited for the connection to open
  uint32_t sends_ = 0;                // how many the queue pair holds
  uint32_t signal_every_ = 1;
  uint64_t letters_ = 0;
  static constexpr std::atomic<uint32_t> kShut{kPostAgain};
  const std::atomic<uint32_t>* gate_ = &kShut;  // or Connection::broken, see is_open()
  ibv_qp* pair_ = nullptr;                      // where it is open
  ibv_send_wr ready_ = {};                      // for a request that is posted alone
  ibv_sge ready_piece_ = {};
  uint64_t messages_ = 0;  // that the connection has brought

  bool failing_ = false;  // the queue pair is to be drained
  bool drained_ = false;
  bool cut_ = false;  // by a flush, which what is behind it outlives
  uint64_t drain_mark_ = 0;
  uint64_t drain_since_ns_ = 0;
  bool lingers_ = false;  // what is doomed has time to get there
  uint64_t count_asked_ns_ = 0;
  uint64_t count_since_ns_ = 0;
  uint32_t fruitless_ = 0;  // connections in a row that executed nothing

  std::unique_ptr<Emulation> emulation_;
};

// The last one of the list ends the requests of `entry`: says when its completion is wanted.
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
