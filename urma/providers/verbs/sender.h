// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty: posts chains of requests, and takes their completions from
// the device. All of its paths share one completion queue, guarded by the queue's lock.
#ifndef URMA_PROVIDERS_VERBS_SENDER_H_
#define URMA_PROVIDERS_VERBS_SENDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "jetty/sender.h"
#include "urma/providers/verbs/connection.h"
#include "urma/providers/verbs/implicit_regions.h"
#include "urma/providers/verbs/mailbox.h"

namespace urma::verbs {

class DatagramSends;
class VerbsPath;

// A path whose requests are executed by a device.
class DevicePath : public TargetPath {
 public:
  DevicePath(SendQueue* queue, RemoteQueue* target, uint32_t hint)
      : TargetPath(queue, target, hint) {}
  // What it has posted under this mark has completed.
  virtual void completed(uint32_t mark, ibv_wc_status status) = 0;
  // Gives its connection back where others need the place, and it has nothing to do.
  virtual void close_unwanted() {}
};

// A list of requests that is being put together, and posted at once. One for all paths of a sender.
struct RequestList {
  static constexpr uint32_t kRequests = 32;

  std::array<ibv_send_wr, kRequests> requests;
  std::array<Letter, kRequests> letters;
  std::vector<ibv_sge> pieces;
  uint32_t count = 0;
  uint32_t piece_count = 0;
  uint32_t entries = 0;  // of the send queue, that they stand for

  void clear() { count = piece_count = entries = 0; }
  bool has_room(uint32_t more, uint32_t more_pieces) const {
    return count + more <= kRequests && piece_count + more_pieces <= pieces.size();
  }
};

class VerbsSender : public Sender, private ConnectionHolder {
 public:
  // Throws Error.
  VerbsSender(const ContextResources& resources, const urma_jfs_cfg_t& cfg,
              const QueueIdentity& identity, const urma_jetty_id_t& id);
  ~VerbsSender() override;

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;
  urma_status_t advise(RemoteQueue* target) override;
  urma_status_t unadvise(RemoteQueue* target) override;

  const ContextResources& resources() const { return resources_; }
  const DeviceInfo& device() const { return resources_.device->info(); }
  const std::shared_ptr<CqPump>& pump() const { return pump_; }
  // As peers know it.
  QueueName name() const;
  QueuePairLimits limits() const;
  Patience patience() const;

  // Everything below needs the queue's lock.

  // What names the completions of a path: the upper half of wr_id.
  uint32_t enter(DevicePath* path);
  void leave(uint32_t tag);
  static uint64_t wr_id(uint32_t tag, uint32_t mark) { return uint64_t{tag} << 32 | mark; }

  // Room in the completion queue.
  uint32_t credits() const { return credits_; }
  void take_credits(uint32_t count) { credits_ -= count; }
  void give_credits(uint32_t count) { credits_ += count; }
  // So that requests nobody wants a completion of never hold all of it.
  bool few_credits() const { return credits_ < all_credits_ / 2; }

  // Takes completions from the device and tells the paths.
  void poll_completions();
  // Behind that, and behind a post: whoever sleeps on the JFC is woken by the next completion.
  void keep_armed() {
    // SYNC(bell): what was posted lies in the queue, and the bell is looked at behind; pairs with
    // the barrier in CompletionQueue::arm.
    light_barrier();
    if (jfc().armed()) [[unlikely]]
      arm();
  }

  RequestList& list() { return list_; }
  bool full() { return queue().posted() - queue().retired() >= config().depth; }
  int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) const {
    return post_send_(pair, first, bad);
  }
  // Pieces of local memory that one READ can fill.
  uint32_t read_pieces() const { return read_pieces_; }
  // Whether a path but this one has requests under way.
  bool others_busy(const SendPath* path) const;
  ImplicitRegions& implicit_regions() { return implicit_regions_; }
  // In mode UM only.
  DatagramSends& datagrams() { return *datagrams_; }

 protected:
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override;
  bool refuses(const urma_jfs_wr_t& wr) const override;

 private:
  static constexpr int kBatch = 16;
  static constexpr uint32_t kTagBits = 16;

  struct Tag {
    DevicePath* path;
    uint32_t generation;
  };

  void arm();
  void close_unwanted() override;
  void attend() override;
  VerbsPath* simple_path(const urma_jfs_wr_t& wr) const;
  void post_simple(VerbsPath* path);

  const ContextResources resources_;
  const bool is_jetty_;
  int (*const post_send_)(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad);
  const uint32_t read_pieces_;
  const std::shared_ptr<CqPump> pump_;
  const uint32_t all_credits_;
  uint32_t credits_;
  uint64_t armed_for_ = 0;  // the arming that the completion queue was armed for
  std::vector<Tag> tags_;
  std::vector<uint32_t> free_tags_;
  std::array<ibv_wc, kBatch> completions_;
  RequestList list_;
  ImplicitRegions implicit_regions_;
  std::unique_ptr<DatagramSends> datagrams_;  // UM
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_SENDER_H_
