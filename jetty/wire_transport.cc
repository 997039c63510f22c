// SPDX-License-Identifier: MIT
#include "jetty/wire_transport.h"

#include <algorithm>
#include <utility>

#include "jetty/faulty.h"
#include "jetty/process_barrier.h"
#include "jetty/wire_path.h"

namespace urma {

WireSender::WireSender(WireTransport* transport, const urma_jfs_cfg_t& cfg,
                       const QueueIdentity& identity, const urma_jetty_id_t& id)
    : Sender(transport, cfg, identity, id, transport->max_message()), half_(&transport->engine()) {}

std::unique_ptr<TargetPath> WireSender::make_path(RemoteQueue* target, uint32_t hint) {
  return std::make_unique<OnlyWirePath>(this, target, hint);
}

bool WireSender::has_path(const TargetPath* path) const {
  return std::any_of(paths().begin(), paths().end(),
                     [=](const auto& other) { return other.get() == path; });
}

// Requests to one target leave together.
urma_status_t WireSender::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  OwnerScope scope(lock());
  TargetPath* last = nullptr;
  urma_status_t status = URMA_SUCCESS;
  for (; wr != nullptr && status == URMA_SUCCESS; wr = wr->next) {
    TargetPath* path = nullptr;
    status = take_in(*wr, &path);
    // A path without requests may have made room for another.
    if (last != path && !has_path(last)) last = nullptr;
    if (last != nullptr && path != last) static_cast<WirePath*>(last)->push();
    if (path != nullptr) {
      last = path;
      half_.posting = true;
      go_on(path);
      half_.posting = false;
    }
    if (status == URMA_SUCCESS) {
      queue().count_post();
    } else {
      queue().count_refused();
      *bad_wr = wr;
    }
  }
  if (last != nullptr) static_cast<WirePath*>(last)->push();
  return status;
}

void WireTransport::add_post_ops(urma_ops_t* ops) {
  urma::add_post_ops<WireSender, OnlyWirePath, WireReceiver>(faults() != nullptr, ops);
}

WireTransport::WireTransport(const urma_host& host, Wire* wire, uint64_t max_message)
    : DirectoryTransport(host, Faults::parse(host.settings->text("URMA_FAULT"))),
      engine_(this, wire, &add_wire_way<WireReceiver>),
      names_(wire->names()),
      max_message_(max_message) {
  enter_process_barrier();
  wire->start(&engine_);
}

void WireTransport::stop() {
  if (stopped()) return;
  service().run([this] {
    end_service();
    wire().stop();
  });
  // What was posted while that ran is done before anything it refers to goes.
  service().run([this] { cancel_timers(); });
}

uint32_t WireTransport::take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) {
  return names_ != nullptr ? names_->take_id(kind, eid_index, chosen)
                           : DirectoryTransport::take_id(kind, eid_index, chosen);
}

void WireTransport::free_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (names_ != nullptr) return names_->free_id(kind, eid_index, id);
  DirectoryTransport::free_id(kind, eid_index, id);
}

std::unique_ptr<Sender> WireTransport::make_sender(const urma_jfs_cfg_t& cfg,
                                                   const QueueIdentity& identity,
                                                   const urma_jetty_id_t& id) {
  return make_own_sender<WireSender, OnlyWirePath>(faults(), this, cfg, identity, id);
}

std::unique_ptr<Receiver> WireTransport::make_receiver(const urma_jfr_cfg_t& cfg,
                                                       const QueueIdentity& identity,
                                                       const urma_eid_t& /*eid*/,
                                                       EventSubject* subject) {
  return std::make_unique<WireReceiver>(&wire(), cfg, identity, subject, this);
}

void WireTransport::enter(Segment* segment) {
  require_writable(*segment);
  segments().add(segment);
}

void WireTransport::unregister(Segment* segment) {
  segments().remove(segment);
  // A queue checks its memory, and lends it to the wire, under one lock, for which this waits: what
  // was lent is known to the wire afterwards, and nothing more of this memory will be.
  quiesce();
  wire().unregistered(segment->ref);
}

// Asks at once, so that the first request usually finds the answer there. With va 0 it is not known
// yet which memory is meant.
ImportedSegment* WireTransport::import_segment(urma_context_t* ctx, const urma_seg_t& seg,
                                               urma_token_t token, uint32_t /*access*/) {
  ImportRef<WireSegment> segment(new WireSegment(&engine_, ctx, seg, token));
  if (seg.ubva.va != 0) static_cast<ImportedSegment&>(*segment).ask();
  return segment.release();
}

void WireTransport::probe(const ProbeTarget& target, std::function<void(Answer)> answered) {
  wire().probe(target, std::move(answered));
}

}  // namespace urma
