// SPDX-License-Identifier: MIT
//
// Both members: processes of this directory by shared memory, all others by the network.
#ifndef URMA_PROVIDERS_BOND_TRANSPORT_H_
#define URMA_PROVIDERS_BOND_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "jetty/wire_engine.h"
#include "jetty/wire_receiver.h"
#include "urma/providers/bond/ids.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/transport.h"

namespace urma::bond {

inline constexpr char kDeviceName[] = "urma_bond0";

using Receiver = WireReceiverOver<shm::Receiver>;

class Transport final : public shm::Transport {
 public:
  // `eid` and `ids` are those of this process. All outlive it.
  Transport(const urma_host& host, const urma_eid_t& eid, Wire* wire, Ids* ids);
  ~Transport() override { stop(); }

  WireEngine& engine() { return engine_; }
  // The network would take such looks for a program that polls, and leave its sockets to it.
  uint64_t busy_poll_ns() const override { return 0; }
  // Whether the owner of the id is a process of this directory, as far as the directory knows: so
  // it is asked by shared memory. Any thread.
  bool is_near(IdKind kind, const urma_eid_t& eid, uint32_t id) {
    return owner_slot(kind, eid, id).has_value();
  }

  std::optional<uint32_t> owner_slot(IdKind kind, const urma_eid_t& eid, uint32_t id) override {
    return ids_->owner_slot(kind, eid, id);
  }
  std::span<const urma_eid_t> eids() const override { return {&eid_, 1}; }
  uint32_t take_id(IdKind kind, uint32_t /*eid_index*/, uint32_t chosen) override {
    return ids_->take(kind, chosen);
  }
  void free_id(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override { ids_->free(kind, id); }
  std::unique_ptr<urma::Sender> make_sender(const urma_jfs_cfg_t& cfg,
                                            const QueueIdentity& identity,
                                            const urma_jetty_id_t& id) override;
  std::unique_ptr<urma::Receiver> make_receiver(const urma_jfr_cfg_t& cfg,
                                                const QueueIdentity& identity,
                                                const urma_eid_t& eid,
                                                EventSubject* subject) override;
  ImportedSegment* import_segment(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                                  uint32_t access) override;
  void probe(const ProbeTarget& target, std::function<void(Answer)> answered) override;
  // An id of another kind here says nothing about one behind the network.
  void require_kind(const urma_jetty_id_t& /*id*/, urma_target_type_t /*type*/) override {}
  void connect_ahead(const RemoteQueue& target) override;
  void lose_connection(const RemoteQueue& target, std::function<void()> lost) override;
  void for_watches(const std::function<void(PeerWatches*)>& act) override;
  void watch_pending() override;
  // Also for far requests that no receive queue waits for: those on memory.
  void progress_receives() override {
    wire().progress_now();
    shm::Transport::progress_receives();
  }
  std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const override;
  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override;

 private:
  void service_ends() override { wire().stop(); }
  void let_go(Segment* segment) override { wire().unregistered(segment->ref); }
  Wire& wire() const { return engine_.wire(); }

  const urma_eid_t eid_;
  Ids* const ids_;
  WireEngine engine_;
};

}  // namespace urma::bond

#endif  // URMA_PROVIDERS_BOND_TRANSPORT_H_
