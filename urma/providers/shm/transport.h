// SPDX-License-Identifier: MIT
//
// What providers that join processes of one machine share between their contexts: the connections
// to other processes.
#ifndef URMA_PROVIDERS_SHM_TRANSPORT_H_
#define URMA_PROVIDERS_SHM_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jetty/directory_transport.h"
#include "jetty/sender.h"
#include "segment/segment.h"
#include "urma/base/mutex.h"
#include "urma/providers/shm/kept_segments.h"
#include "urma/providers/shm/link.h"
#include "urma/providers/shm/opaque_memory.h"
#include "urma/providers/shm/peer.h"
#include "urma/providers/shm/peer_writes.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/remote.h"

namespace urma::shm {

class Sender;
class Server;

class Transport : public DirectoryTransport {
 public:
  // `name` distinguishes providers in the runtime directory. Throws Error if the runtime
  // directory or the control socket is not available.
  Transport(const char* name, const urma_host& host, bool has_opaque = false);
  ~Transport() override;
  // Ends all links and the server. No queue of this transport may be used any more.
  void stop();

  // Whether there is memory that the processor does not reach.
  bool has_opaque() const { return has_opaque_; }
  // NULL if nothing can be mapped.
  SharedPages* pages() { return pages_; }
  uint32_t ring_bytes() const { return ring_bytes_; }
  // How long this process waits for an answer of a live peer.
  uint64_t patience_ns() const { return patience_ns_; }
  uint64_t busy_poll_ns() const override { return busy_poll_ns_; }
  // Whether the kernel copies nothing, even if it would permit it.
  bool staged() const { return staged_; }
  KeptSegments& kept_segments() { return kept_segments_; }
  PeerWrites& peer_writes() { return peer_writes_; }

  // An owner is asked to take a ring, which may hold messages already; opening_ends(): it has
  // answered. Service thread.
  void opening_begins();
  void opening_ends();

  // The slot of the living process of this directory that owns (EID, id), if any. Any thread.
  virtual std::optional<uint32_t> owner_slot(IdKind kind, const urma_eid_t& eid, uint32_t id) {
    return runtime().owner_slot(kind, eid, id);
  }
  // The link to the owner of (EID, id); NULL if no living process has it. Service thread.
  std::shared_ptr<Link> link_to(IdKind kind, const urma_eid_t& eid, uint32_t id);
  // The same for the process with this slot.
  std::shared_ptr<Link> link_to(uint32_t slot);

  // How the memory of a peer is reached. Tests count and refuse such copies.
  virtual urma_cr_status_t copy(Direction direction, const PeerProcess& peer,
                                std::span<const iovec> local, std::span<const iovec> remote,
                                uint64_t* moved) {
    return copy_by_kernel(direction, peer, local, remote, moved);
  }

  // Where a message of `bytes` bytes for a receive in opaque memory is gathered. NULL if part of
  // the receive cannot be written. Throws Error.
  virtual std::unique_ptr<OpaqueLanding> land(std::span<const LocalPiece> /*receive*/,
                                              uint32_t /*bytes*/) {
    return nullptr;
  }
  // Calls send(fds) with the descriptors that describe opaque memory of a segment to an importer;
  // they are open during the call. Does not call it if the segment cannot be shared. Throws Error.
  // Service thread, as attach().
  virtual void describe(const Segment& /*segment*/,
                        const std::function<void(std::span<const int> fds)>& /*send*/) {}
  // With the descriptors from a peer's describe(): attaches its memory, within attach_ns(), and
  // calls attached() exactly once. Memory that was attached over the same link is not attached
  // again. Throws Error.
  virtual void attach(const std::shared_ptr<Link>& /*link*/, const SegmentGrant& /*granted*/,
                      // Overrides keep it. NOLINTNEXTLINE(performance-unnecessary-value-param)
                      Attached& /*fds*/, OnAttached /*attached*/) {}
  virtual uint64_t attach_ns() const { return 0; }

  // The path of a sender to a target; `hint` distinguishes the paths to one group.
  virtual std::unique_ptr<TargetPath> make_path(Sender* sender, RemoteQueue* target, uint32_t hint);
  std::unique_ptr<urma::Sender> make_sender(const urma_jfs_cfg_t& cfg,
                                            const QueueIdentity& identity,
                                            const urma_jetty_id_t& id) override;
  std::unique_ptr<urma::Receiver> make_receiver(const urma_jfr_cfg_t& cfg,
                                                const QueueIdentity& identity,
                                                const urma_eid_t& eid,
                                                EventSubject* subject) override;
  void enter(Segment* segment) override;
  void unregister(Segment* segment) override;
  ImportedSegment* import_segment(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                                  uint32_t access) override;
  // The same for a request; its owner may still have to be asked.
  RemoteSegmentRef import_memory(const urma_seg_t& seg, urma_token_t token);
  void probe(const ProbeTarget& target, std::function<void(Answer)> answered) override;
  void log_absence(const char* kind, uint32_t id) const override;
  void require_kind(const urma_jetty_id_t& id, urma_target_type_t type) override;
  void connect_ahead(const RemoteQueue& target) override;
  PeerWatches* watches() override { return &watches_; }
  void forget_channel(EventChannel* channel) override;
  void lose_connection(const RemoteQueue& target, std::function<void()> lost) override;
  std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const override;

 protected:
  // The two parts of import_segment(): if an earlier import was kept, with its grant, else NULL;
  // and if not.
  RemoteSegment* take_kept(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                           uint32_t access);
  ImportedSegment* import_new(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                              uint32_t access);

 private:
  // The transport stops: peers are served no more, and the links end next.
  virtual void service_ends() {}
  // No queue uses the registration any more, and its memory has not gone back yet.
  virtual void let_go(Segment* /*segment*/) {}
  void await_openings();
  // Tells peers that were granted a registration of its end.
  void tell_peers(SegmentRef ended_ref);
  // Makes pages that peers may no longer map private again, a turn at a time.
  void take_back_some(SharedPages::RangeId pages);
  void drop_gone_links();

  const std::string name_;
  const bool has_opaque_;
  SharedPages* pages_;
  const uint32_t ring_bytes_;
  const uint64_t patience_ns_;
  const uint64_t busy_poll_ns_;
  const bool staged_;
  KeptSegments kept_segments_;
  PeerWrites peer_writes_;

  Mutex openings_mutex_;
  Condition opening_ended_;
  uint32_t openings_ URMA_GUARDED_BY(openings_mutex_) = 0;  // those that have begun and not ended

  // On the service thread only.
  std::unique_ptr<Server> server_;
  std::map<uint32_t, std::shared_ptr<Link>> links_;
  PeerWatches watches_;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_TRANSPORT_H_
