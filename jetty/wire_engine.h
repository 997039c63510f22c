// SPDX-License-Identifier: MIT
//
// What the engine does over a wire, whichever transport the queues belong to: the service of this
// process for its peers, the segments that it imports, and what a queue needs to send.
#ifndef JETTY_WIRE_ENGINE_H_
#define JETTY_WIRE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jetty/directory_transport.h"
#include "jetty/granted_segment.h"
#include "jetty/implicit_imports.h"
#include "jetty/wire.h"

namespace urma {

// Gives the receiver of an endpoint one more way. False if it takes no messages now.
using AddWireWay = std::function<bool(const Endpoint& endpoint, const WayRequest& asked,
                                      const std::shared_ptr<WireIncoming>& way)>;

// For a transport whose receivers are all of this type.
template <typename OwnReceiver>
bool add_wire_way(const Endpoint& endpoint, const WayRequest& asked,
                  const std::shared_ptr<WireIncoming>& way) {
  auto* receiver = static_cast<OwnReceiver*>(endpoint.receiver);
  receiver->describe(endpoint, asked, way.get());
  return receiver->add_way(way);
}

class WireEngine {
 public:
  // All outlive it. The transport starts and stops the wire.
  WireEngine(DirectoryTransport* transport, Wire* wire, AddWireWay add_way)
      : transport_(transport), wire_(wire), add_way_(std::move(add_way)) {}
  WireEngine(const WireEngine&) = delete;
  WireEngine& operator=(const WireEngine&) = delete;

  Wire& wire() const { return *wire_; }
  DirectoryTransport& transport() const { return *transport_; }

  // Calls of a wire for its peers; all check what the peer asks for.
  //
  // Adds the receiving end of a way to the queue that it is for. Service thread.
  Answer accept(const WayRequest& asked, const std::shared_ptr<WireIncoming>& way,
                uint32_t* members);
  // As Transport::judge() and DirectoryTransport::grant().
  Answer judge(const ProbeTarget& target) { return transport_->judge(target); }
  Answer grant(const GrantRequest& asked, const std::string& who, PeerGrants* grants,
               SegmentGrant* granted) {
    return transport_->grant(asked, who, grants, granted);
  }
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

  // As Transport's.
  Service& service() const { return transport_->service(); }
  SegmentTable& segments() const { return transport_->segments(); }
  std::shared_ptr<const bool> ended() const { return transport_->ended(); }
  void serve_receives() { transport_->serve_receives(); }
  void serve_senders() { transport_->serve_senders(); }
  void take_over() { transport_->take_over(); }

 private:
  DirectoryTransport* const transport_;
  Wire* const wire_;
  const AddWireWay add_way_;
};

// A segment of a peer.
class WireSegment final : public GrantedSegment<WireGrant, GrantPlace::kApart> {
 public:
  WireSegment(WireEngine* engine, urma_context_t* ctx, const urma_seg_t& imported,
              urma_token_t token);
  ~WireSegment() override { leave_list(); }

  bool over_wire() const override { return true; }
  Invalidation invalidation() const override { return granted_invalidation(); }
  // Nothing is ever mapped.
  static bool settled(const WireGrant& /*grant*/) { return true; }
  static bool about_to_be_mapped() { return false; }

 private:
  void ask_owner(const Wanted& wanted) override;
  // Needs no memory, except for a grant: without it, who asked gets an error.
  void finish(const Wanted& wanted, Answer answer, WireGrant given);
  void take(const Wanted& wanted, Answer answer, WireGrant given) URMA_REQUIRES(mutex_);

  WireEngine* const engine_;
};

// What the paths of one send queue over a wire share. All of it needs the queue's lock.
struct WireHalf {
  explicit WireHalf(WireEngine* wire_engine, bool has_alternative = false);

  WireEngine* const engine;
  // Whether another way than this wire may lead to a target that does not answer.
  const bool has_alternative;
  // A request that is just being posted goes on: it leaves together with those posted with it.
  bool posting = false;
  ImplicitImports<WireSegment> implicit_imports;
};

}  // namespace urma

#endif  // JETTY_WIRE_ENGINE_H_
