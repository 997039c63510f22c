// SPDX-License-Identifier: MIT
//
// A context at an RDMA device: what it owns, and how it meets its peers.
#ifndef URMA_PROVIDERS_VERBS_TRANSPORT_H_
#define URMA_PROVIDERS_VERBS_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "jetty/transport.h"
#include "urma/providers/verbs/asking.h"
#include "urma/providers/verbs/cm_acceptor.h"
#include "urma/providers/verbs/connection.h"
#include "urma/providers/verbs/connection_list.h"
#include "urma/providers/verbs/control.h"
#include "urma/providers/verbs/peer_watches.h"
#include "urma/providers/verbs/registrations.h"
#include "urma/providers/verbs/server.h"

namespace urma::verbs {

struct TransportConfig {
  uint32_t eid_index;
  uint64_t nonce;  // random, unique to the context
  uint32_t uasid;
  uint64_t silence_ns;    // how long a peer may be silent: URMA_VERBS_TIMEOUT_MS
  uint32_t most_senders;  // limit of connections: URMA_VERBS_MAX_CONN
};

class Transport final : public urma::Transport, private IdClaims {
 public:
  // Throws Error if the EID has no control socket.
  Transport(std::shared_ptr<Device> device, Service* service, const TransportConfig& config,
            std::unique_ptr<Faults> faults = nullptr);
  // No queue of this transport may be used any more.
  ~Transport() override { stop(); }
  // The library ends before the context: to peers, and to the program's memory, as if the process
  // did. The program calls nothing of this transport any more.
  void abandon();

  // For the server of peers, on the service thread.
  Control& control() { return *control_; }
  Asking& asking() { return asking_; }
  // Of iWARP, else NULL.
  CmAcceptor* acceptor() { return acceptor_.get(); }
  Connections& connections() { return connections_; }
  IncomingList& incoming() { return incoming_; }
  const Device& device() const { return *device_; }
  Registrations& registrations() { return registrations_; }
  const ContextResources& resources() const { return resources_; }
  // iWARP: finds out why a connection made by this process has ended.
  void explain_break(const ConnectRequest& request);

  std::span<const urma_eid_t> eids() const override { return eids_; }
  uint32_t uasid() const override { return config_.uasid; }
  bool has_remote_bells() const override { return false; }
  uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) override {
    return ids_.take(kind, eid_index, chosen, control_->port());
  }
  void free_id(IdKind kind, uint32_t eid_index, uint32_t id) override {
    ids_.free(kind, eid_index, id);
  }
  std::unique_ptr<urma::Sender> make_sender(const urma_jfs_cfg_t& cfg,
                                            const QueueIdentity& identity,
                                            const urma_jetty_id_t& id) override;
  std::unique_ptr<urma::Receiver> make_receiver(const urma_jfr_cfg_t& cfg,
                                                const QueueIdentity& identity,
                                                const urma_eid_t& eid,
                                                EventSubject* subject) override;
  std::unique_ptr<Segment> make_segment() override { return std::make_unique<KeyedSegment>(); }
  void enter(Segment* segment) override {
    registrations_.enter(static_cast<KeyedSegment*>(segment));
  }
  void unregister(Segment* segment) override;
  ImportedSegment* import_segment(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                                  uint32_t access) override;
  void probe(const ProbeTarget& target, std::function<void(Answer)> answered) override;
  void connect_ahead(const RemoteQueue& target) override;
  PeerWatches* watches() override { return &watches_; }
  void lose_connection(const RemoteQueue& target, std::function<void()> lost) override;
  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override;

 private:
  static constexpr uint32_t kOnlyEid = 0;  // of a control socket

  // Of ids. Ports are opened and closed on the service thread.
  bool claim(uint32_t block) override;
  void release(uint32_t block) override {
    service().run([=, this] { control_->names().release(block); });
  }
  bool join(uint32_t block) override { return control_->names().join(block); }
  void leave(uint32_t /*block*/) override {}
  void reserve(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    service().run([=, this] { control_->names().reserve(kind, kOnlyEid, id); });
  }
  void unreserve(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    service().run([=, this] { control_->names().unreserve(kind, kOnlyEid, id); });
  }
  bool reserved_elsewhere(IdKind kind, uint32_t id) override {
    return control_->names().reserved_elsewhere(kind, id);
  }

  void open_connections();
  void end_broken(const ConnectRequest& request, Answer answer);
  void stop();

  const std::shared_ptr<Device> device_;
  const TransportConfig config_;
  std::vector<urma_eid_t> eids_;
  PortIds ids_;
  UdpNetwork network_;
  Connections connections_;
  IncomingList incoming_;
  Registrations registrations_;
  NotifyChannels notify_;
  ContextResources resources_;

  // On the service thread only.
  Asking asking_;
  PeerWatches watches_;
  Server server_;
  std::unique_ptr<Control> control_;  // others may ask it for its port and names
  // By connection: until when its receiver may say why it ended.
  std::map<uint64_t, Service::TimerId> last_words_;

  // Of iWARP.
  std::unique_ptr<CmChannel> channel_;
  std::unique_ptr<CmConnector> connector_;
  std::unique_ptr<CmAcceptor> acceptor_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_TRANSPORT_H_
