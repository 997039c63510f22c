// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty: posts chains of requests, and takes their completions from
// the device. All its paths share one completion queue, guarded by the queue's lock.
#ifndef URMA_PROVIDERS_VERBS_SENDER_H_
#define URMA_PROVIDERS_VERBS_SENDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "jetty/implicit_imports.h"
#include "jetty/sender.h"
#include "urma/providers/verbs/connection.h"
#include "urma/providers/verbs/device_word.h"
#include "urma/providers/verbs/mailbox.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {

class DatagramSends;
class OffloadedPath;
class Path;

// A list of requests under construction, posted at once. One for all paths of a sender.
struct RequestList {
  static constexpr uint32_t kRequests = 32;

  std::array<ibv_send_wr, kRequests + 1> requests;  // with room for a path's own after them
  std::array<Letter, kRequests> letters;
  std::vector<ibv_sge> pieces;
  uint32_t count = 0;
  uint32_t piece_count = 0;
  uint32_t letter_count = 0;
  uint32_t entries = 0;  // entries of the send queue that they stand for

  void clear() { count = piece_count = letter_count = entries = 0; }
  bool has_room(uint32_t more, uint32_t more_pieces) const {
    return count + more <= kRequests && piece_count + more_pieces <= pieces.size();
  }
};

class Sender : public urma::Sender, private CompletionSource {
 public:
  // Throws Error.
  Sender(const ContextResources& resources, const urma_jfs_cfg_t& cfg,
         const QueueIdentity& identity, const urma_jetty_id_t& id);
  ~Sender() override;

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;
  void connect_ahead(RemoteQueue* target) override;
  urma_status_t advise(RemoteQueue* target) override;
  urma_status_t unadvise(RemoteQueue* target) override;
  void finish() override;
  // Closes those of its connections that are unwanted, each as soon as it is idle.
  void close_unwanted();
  // Some may have been broken off. Continues with their requests, even if nobody polls.
  void attend();
  // What the device holds does not complete any more.
  void device_failed();

  const ContextResources& resources() const { return resources_; }
  const DeviceInfo& device() const { return resources_.device->info(); }
  const std::shared_ptr<CqPump>& pump() const { return pump_; }
  // As peers know it.
  QueueName name() const;
  QueuePairLimits limits() const;
  Patience patience() const;

  // Everything below needs the queue's lock.

  // Identifies the completions of a path: the upper half of wr_id.
  uint32_t enter(OffloadedPath* path);
  void leave(uint32_t tag);
  static uint64_t wr_id(uint32_t tag, uint32_t mark) { return uint64_t{tag} << 32 | mark; }

  // Room in the completion queue.
  uint32_t credits() const { return credits_; }
  void take_credits(uint32_t count) {
    credits_ -= count;
    queue().room_until() = 0;
  }
  void give_credits(uint32_t count) { credits_ += count; }
  // Keeps unsignalled requests from taking all of it.
  bool few_credits() const { return credits_ < half_credits_; }

  // Takes completions from the device and tells the paths.
  void poll_completions();
  // After that, and after a post: the next completion wakes those who sleep on the JFC.
  void keep_armed() {
    // SYNC(bell): the posted requests are in the queue before the bell is read; pairs with the
    // barrier in CompletionQueue::arm.
    light_barrier(jfc().fenced());
    if (jfc().armed()) [[unlikely]]
      arm();
  }

  // An unsignalled request is not to hold back those of other paths. After a look for completions.
  [[gnu::cold, gnu::noinline]] void report_oldest();
  // Called by a path whose connection is to close once no completions are being handed out.
  void close_later() { has_unwanted_ = true; }

  RequestList& list() { return list_; }
  int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) const {
    return post_send_(pair, first, bad);
  }
  // Pieces of local memory that one READ can fill.
  uint32_t read_pieces() const { return read_pieces_; }
  // Whether a path but this one has requests under way.
  bool others_busy(const SendPath* path) const;
  ImplicitImports<RemoteRegion>& implicit_imports() { return implicit_imports_; }
  // Where proofs are read to; iWARP only.
  ibv_sge* proof_piece() { return &proof_->piece; }
  // In mode UM only.
  DatagramSends& datagrams() { return *datagrams_; }

 protected:
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override;
  bool refuses(const urma_jfs_wr_t& wr) const override;
  void found_full() override { report_oldest(); }

 private:
  // More than most polls ask for, so that one look at the device suffices.
  static constexpr int kBatch = 32;
  static constexpr uint32_t kTagBits = 16;

  struct Tag {
    OffloadedPath* path;
    uint32_t tag;  // its index, and above it how often it was used
  };

  void arm();
  [[gnu::cold, gnu::noinline]] void close_idle() URMA_REQUIRES(lock());
  void lose_under_way() URMA_REQUIRES(lock());

  // The short way of posts and polls, in short_way.cc.
  Path* short_path(const urma_jfs_wr_t& wr) const URMA_REQUIRES(lock());
  template <urma_opcode_t kOpcode, bool kInline>
  [[gnu::noinline]] urma_status_t post_alone(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr,
                                             Path* path) noexcept URMA_RELEASE(lock());
  template <urma_opcode_t kOpcode, typename Flags>
  SendEntry* take_short(Path* path, const urma_jfs_wr_t& wr, const Flags& flags,
                        ibv_send_wr* request, ibv_sge* piece) URMA_REQUIRES(lock());
  uint32_t room_of(const Path& path) URMA_REQUIRES(lock());
  [[gnu::noinline]] urma_status_t look_ahead(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr,
                                             Path* path) noexcept URMA_RELEASE(lock());
  urma_status_t post_kind(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr, Path* path) noexcept
      URMA_RELEASE(lock());
  template <urma_opcode_t kOpcode, bool kInline>
  [[gnu::noinline]] urma_jfs_wr_t* add_short(Path* path, urma_jfs_wr_t* wr, uint32_t room)
      URMA_REQUIRES(lock());
  urma_jfs_wr_t* add_short(Path* path, urma_jfs_wr_t* wr, uint32_t room) URMA_REQUIRES(lock());
  bool post_short(Path* path, urma_jfs_wr_t** wr) URMA_REQUIRES(lock());
  bool take_oldest(Path* path, const ibv_wc& completion, urma_cr_t* cr) URMA_REQUIRES(lock());
  // The poller's lock is held, which a function pointer cannot express.
  static int poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                         CompletionSource* source) noexcept URMA_NO_THREAD_SAFETY_ANALYSIS;
  PollAlone poll_alone() const override { return poll_source; }
  int poll_alone(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(poller->poll_lock());
  [[gnu::noinline]] void take_rest(int from, int got);
  [[gnu::noinline]] urma_status_t post_inline(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr,
                                              Path* path) noexcept URMA_RELEASE(lock());
  urma_status_t post_held(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept URMA_RELEASE(lock());
  [[gnu::noinline]] urma_status_t wake_one() noexcept;
  [[gnu::noinline]] urma_status_t post_behind(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;
  [[gnu::noinline]] urma_status_t post_rest(TargetPath* behind, urma_jfs_wr_t* wr,
                                            urma_jfs_wr_t** bad_wr) noexcept URMA_RELEASE(lock());
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override;
  bool move_for(CompletionQueue* waiter, bool just_armed) override {
    return queue().move_for(waiter, just_armed);
  }
  bool outstanding() const override { return !queue().empty(); }
  bool contended() const override { return queue().contended(); }
  bool take_completions();
  // NULL if nobody waits for it any more.
  OffloadedPath* path_of(const ibv_wc& completion) const {
    const auto tag = static_cast<uint32_t>(completion.wr_id >> 32);
    const uint32_t index = tag & ((1U << kTagBits) - 1);
    return index < tags_.size() && tags_[index].tag == tag ? tags_[index].path : nullptr;
  }

  const ContextResources resources_;
  const bool is_jetty_;
  int (*const post_send_)(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad);
  const uint32_t read_pieces_;
  const uint32_t atomic_right_;  // rights that a grant has for them; 0 if the device has none
  const std::shared_ptr<CqPump> pump_;
  const uint32_t all_credits_;
  const uint32_t half_credits_;
  uint32_t credits_;
  bool has_unwanted_ = false;  // a connection is to close once it is idle
  uint64_t armed_for_ = 0;     // the arming that the completion queue was armed for
  std::vector<Tag> tags_;
  std::vector<uint32_t> free_tags_;
  std::array<ibv_wc, kBatch> completions_;
  RequestList list_;
  ibv_send_wr* bad_ = nullptr;  // the request that was refused, if any
  ImplicitImports<RemoteRegion> implicit_imports_;
  std::unique_ptr<DatagramSends> datagrams_;  // UM
  std::unique_ptr<DeviceWord> proof_;         // iWARP
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_SENDER_H_
