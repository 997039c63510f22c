// SPDX-License-Identifier: MIT
//
// The engine over a wire alone: its queues, and its device.
#ifndef JETTY_WIRE_TRANSPORT_H_
#define JETTY_WIRE_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "jetty/directory_transport.h"
#include "jetty/sender.h"
#include "jetty/wire.h"
#include "jetty/wire_engine.h"
#include "jetty/wire_receiver.h"
#include "urma/base/host.h"
#include "urma_provider.h"

namespace urma {

class WireTransport;

class WireSender : public Sender {
 public:
  WireSender(WireTransport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
             const urma_jetty_id_t& id);
  ~WireSender() override { end(); }

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;

  WireHalf& half() { return half_; }

 private:
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override;
  bool has_path(const TargetPath* path) const URMA_REQUIRES(lock());

  WireHalf half_;
};

class WireTransport final : public DirectoryTransport {
 public:
  // `max_message` is the largest message in bytes. The wire outlives it.
  WireTransport(const urma_host& host, Wire* wire, uint64_t max_message);
  ~WireTransport() override { stop(); }
  // No queue of this transport may be used any more.
  void stop();

  WireEngine& engine() { return engine_; }
  Wire& wire() const { return engine_.wire(); }
  uint64_t max_message() const { return max_message_; }

  // The posting functions of the table of its contexts.
  void add_post_ops(urma_ops_t* ops);

  std::span<const urma_eid_t> eids() const override {
    return names_ != nullptr ? names_->eids() : DirectoryTransport::eids();
  }
  uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) override;
  void free_id(IdKind kind, uint32_t eid_index, uint32_t id) override;
  std::unique_ptr<Sender> make_sender(const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
                                      const urma_jetty_id_t& id) override;
  std::unique_ptr<Receiver> make_receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity,
                                          const urma_eid_t& eid, EventSubject* subject) override;
  void enter(Segment* segment) override;
  void unregister(Segment* segment) override;
  ImportedSegment* import_segment(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                                  uint32_t access) override;
  void probe(const ProbeTarget& target, std::function<void(Answer)> answered) override;
  void connect_ahead(const RemoteQueue& target) override { wire().connect_ahead(target); }
  void lose_connection(const RemoteQueue& target, std::function<void()> lost) override {
    wire().lose_connection(target, std::move(lost));
  }
  PeerWatches* watches() override { return wire().watches(); }
  void watch_pending() override {
    wire().asleep();
    Transport::watch_pending();
  }

  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override {
    wire().list_connections(most, connections);
  }

 private:
  WireEngine engine_;
  WireNames* const names_;
  const uint64_t max_message_;
};

}  // namespace urma

#endif  // JETTY_WIRE_TRANSPORT_H_
