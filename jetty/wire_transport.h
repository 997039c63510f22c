// SPDX-License-Identifier: MIT
//
// The engine over a wire: queues, imports, and the service of this process for its peers.
#ifndef JETTY_WIRE_TRANSPORT_H_
#define JETTY_WIRE_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "jetty/directory_transport.h"
#include "jetty/granted_segment.h"
#include "jetty/implicit_imports.h"
#include "jetty/receive_engine.h"
#include "jetty/sender.h"
#include "jetty/wire.h"
#include "urma/base/host.h"
#include "urma_provider.h"

namespace urma {

// A segment of a peer.
class WireSegment final : public GrantedSegment<WireGrant> {
 public:
  WireSegment(WireTransport* engine, urma_context_t* ctx, const urma_seg_t& imported,
              urma_token_t token);
  ~WireSegment() override { leave_list(); }

  // Nothing is ever mapped.
  static bool settled(const WireGrant& /*grant*/) { return true; }
  static bool about_to_be_mapped() { return false; }

 private:
  void ask_owner(const Wanted& wanted) override;
  void finish(const Wanted& wanted, Answer answer, WireGrant given);

  WireTransport* const engine_;
};

class WireSender : public Sender {
 public:
  WireSender(WireTransport* engine, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
             const urma_jetty_id_t& id);
  ~WireSender() override { end(); }

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;

  Wire& wire();
  // These need the queue's lock. Requests that are posted together leave together.
  bool posting() const { return posting_; }
  ImplicitImports<WireSegment>& implicit_imports() { return implicit_imports_; }

 private:
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override;
  bool has_path(const TargetPath* path) const URMA_REQUIRES(lock());

  WireTransport* const engine_;
  bool posting_ = false;
  ImplicitImports<WireSegment> implicit_imports_;
};

class WireReceiver final : public ReceiveEngine<WireReceiver, WireIncoming> {
 public:
  WireReceiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject,
               WireTransport* engine, SegmentTable* segments);

  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override
      URMA_REQUIRES(poller->poll_lock());
  bool move_for(CompletionQueue* waiter, bool just_armed) override;

 private:
  friend ReceiveEngine;

  std::optional<Step> begin_parts(WireIncoming* way, const Message& message, ReceiveEntry* entry,
                                  urma_cr_status_t local, Poll* poll) URMA_REQUIRES(lock_);
  Step go_on(WireIncoming* way, Poll* poll) URMA_REQUIRES(lock_);
  void end_parts() URMA_REQUIRES(lock_);

  Wire* const wire_;
};

class WireTransport final : public DirectoryTransport {
 public:
  // `max_message` is the largest message in bytes. The wire outlives it.
  WireTransport(const urma_host& host, Wire* wire, uint64_t max_message);
  ~WireTransport() override { stop(); }
  // No queue of this transport may be used any more.
  void stop();

  Wire& wire() { return *wire_; }
  uint64_t max_message() const { return max_message_; }

  // The posting functions of the table of its contexts.
  void add_post_ops(urma_ops_t* ops);

  // Calls of a wire for its peers; all check what the peer asks for.
  //
  // Adds the receiving end of a way to the queue that it is for. Service thread.
  Answer accept(const WayRequest& asked, const std::shared_ptr<WireIncoming>& way,
                uint32_t* members);
  // And DirectoryTransport::grant().
  //
  // Accesses memory of this process that a peer was granted. `bytes` are what was read, or the old
  // value. Any thread.
  urma_cr_status_t execute(const PeerGrants& grants, SegmentRef segment, const WireAccess& access,
                           std::vector<char>* bytes);
  // The same for a read, or the next bytes of a write, that the caller copies itself: calls move()
  // with their place. That of a read is backed, that of a write need not be. The last word of a
  // write has to be written last, as a whole.
  urma_cr_status_t execute_with(const PeerGrants& grants, SegmentRef segment, OpKind kind,
                                uint64_t addr, uint64_t bytes,
                                const std::function<void(void*)>& move);
  // Something has come for a JFC, or a report for one: wakes the threads that sleep at it. Any
  // thread. The JFC of a WireIncoming stays until its close(), that of a Way until its end: a wire
  // that calls this from a thread of its own does so under a lock that these take.
  void arrived(const CompletionQueue& jfc);

  std::span<const urma_eid_t> eids() const override {
    return names_ != nullptr ? names_->eids() : DirectoryTransport::eids();
  }
  uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) override;
  void free_id(IdKind kind, uint32_t eid_index, uint32_t id) override;
  std::unique_ptr<Sender> make_sender(const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
                                      const urma_jetty_id_t& id) override;
  std::unique_ptr<Receiver> make_receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity,
                                          const urma_eid_t& eid, EventSubject* subject) override;
  void enter(Segment* segment) override { segments().add(segment); }
  void unregister(Segment* segment) override;
  ImportedSegment* import_segment(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                                  uint32_t access) override;
  void probe(const ProbeTarget& target, std::function<void(Answer)> answered) override;
  void connect_ahead(const RemoteQueue& target) override { wire_->connect_ahead(target); }
  void lose_connection(const RemoteQueue& target) override { wire_->lose_connection(target); }
  PeerWatches* watches() override { return wire_->watches(); }
  void watch_pending() override {
    wire_->asleep();
    Transport::watch_pending();
  }

  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override {
    wire_->list_connections(most, connections);
  }

 private:
  Wire* const wire_;
  WireNames* const names_;
  const uint64_t max_message_;
};

}  // namespace urma

#endif  // JETTY_WIRE_TRANSPORT_H_
