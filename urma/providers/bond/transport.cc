// SPDX-License-Identifier: MIT
#include "urma/providers/bond/transport.h"

#include <utility>

#include "jetty/faulty.h"
#include "urma/base/text.h"
#include "urma/providers/bond/sender.h"

namespace urma::bond {

Transport::Transport(const urma_host& host, const urma_eid_t& eid, Wire* wire, Ids* ids)
    : shm::Transport("bond", host),
      eid_(eid),
      ids_(ids),
      engine_(this, wire,
              [this](const Endpoint& endpoint, const WayRequest& asked,
                     const std::shared_ptr<WireIncoming>& way) {
                // A bound jetty of this directory sends by shared memory: this one is another.
                const bool false_peer = endpoint.bond != nullptr &&
                                        is_near(IdKind::kJetty, asked.sender.eid, asked.sender.id);
                return !false_peer && add_wire_way<Receiver>(endpoint, asked, way);
              }) {
  wire->start(&engine_);
  for_watches([this](PeerWatches* each) {
    each->choose_by([this](IdKind kind, const urma_eid_t& peer, uint32_t id) {
      return is_near(kind, peer, id) ? watches() : this->wire().watches();
    });
  });
}

std::unique_ptr<urma::Sender> Transport::make_sender(const urma_jfs_cfg_t& cfg,
                                                     const QueueIdentity& identity,
                                                     const urma_jetty_id_t& id) {
  return make_own_sender<Sender, NearPath>(faults(), this, cfg, identity, id);
}

std::unique_ptr<urma::Receiver> Transport::make_receiver(const urma_jfr_cfg_t& cfg,
                                                         const QueueIdentity& identity,
                                                         const urma_eid_t& /*eid*/,
                                                         EventSubject* subject) {
  return std::make_unique<Receiver>(&wire(), cfg, identity, subject, this);
}

ImportedSegment* Transport::import_segment(urma_context_t* ctx, const urma_seg_t& seg,
                                           urma_token_t token, uint32_t access) {
  // Without a look into the directory.
  if (ImportedSegment* kept = take_kept(ctx, seg, token, access)) return kept;
  if (is_near(IdKind::kToken, seg.ubva.eid, seg.token_id)) {
    return import_new(ctx, seg, token, access);
  }
  ImportRef<WireSegment> segment(new WireSegment(&engine_, ctx, seg, token));
  if (seg.ubva.va != 0) static_cast<ImportedSegment&>(*segment).ask();
  return segment.release();
}

void Transport::probe(const ProbeTarget& target, std::function<void(Answer)> answered) {
  if (is_near(id_kind(target.type), target.eid, target.id)) {
    return shm::Transport::probe(target, std::move(answered));
  }
  wire().probe(target, std::move(answered));
}

void Transport::connect_ahead(const RemoteQueue& target) {
  if (is_near(id_kind(target.type), target.id.eid, target.id.id)) {
    return shm::Transport::connect_ahead(target);
  }
  wire().connect_ahead(target);
}

void Transport::lose_connection(const RemoteQueue& target, std::function<void()> lost) {
  if (is_near(id_kind(target.type), target.id.eid, target.id.id)) {
    return shm::Transport::lose_connection(target, std::move(lost));
  }
  wire().lose_connection(target, std::move(lost));
}

void Transport::for_watches(const std::function<void(PeerWatches*)>& act) {
  act(watches());
  act(wire().watches());
}

void Transport::watch_pending() {
  wire().asleep();
  shm::Transport::watch_pending();
}

std::vector<urma_ext_part_t> Transport::parts(const urma_target_seg_t& segment) const {
  const auto& handle = static_cast<const SegmentHandle&>(segment);
  const bool far = !handle.registered && static_cast<const ImportedSegment&>(handle).over_wire();
  return far ? moved_part(segment) : shm::Transport::parts(segment);
}

void Transport::list_connections(size_t most,
                                 std::vector<urma_ext_connection_t>* connections) const {
  const size_t before = connections->size();
  wire().list_connections(most, connections);
  for (size_t i = before; i < connections->size(); ++i) {
    copy_text((*connections)[i].device, kDeviceName);
  }
}

}  // namespace urma::bond
