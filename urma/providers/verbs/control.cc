// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/control.h"

#include <utility>

#include "urma/providers/verbs/control_engine.h"

namespace urma::verbs {

const char* loss_text(PeerLoss loss) {
  switch (loss) {
    case PeerLoss::kRefused:
      return "its host says that it has ended";
    case PeerLoss::kSilent:
      return "it does not answer";
    case PeerLoss::kRestarted:
      return "it has been started anew";
  }
  return "unknown";
}

Control::Control(Service* service, DatagramNetwork* network, ControlServer* server,
                 const ControlConfig& config)
    : engine_(std::make_unique<ControlEngine>(service, network, server, config)),
      port_(engine_->port()) {}

Control::~Control() = default;

void Control::reserve(IdKind kind, uint32_t id) { engine_->names().reserve(kind, id); }
void Control::release(IdKind kind, uint32_t id) { engine_->names().release(kind, id); }
bool Control::claim_block(uint32_t block) { return engine_->names().claim_block(block); }
void Control::release_block(uint32_t block) { engine_->names().release_block(block); }
bool Control::is_reserved(IdKind kind, uint32_t id) const {
  return engine_->names().is_reserved(kind, id);
}
bool Control::is_claimed(uint32_t block) const { return engine_->names().is_claimed(block); }

Control::RequestId Control::request(const urma_eid_t& eid, IdKind kind, uint32_t id,
                                    const Request& request, uint64_t timeout_ns, OnReply on_reply) {
  return engine_->request(eid, kind, id, request, timeout_ns, std::move(on_reply));
}

Control::RequestId Control::request(const PeerRef& peer, const Request& request,
                                    uint64_t timeout_ns, OnReply on_reply) {
  return engine_->request(peer, request, timeout_ns, std::move(on_reply));
}

void Control::cancel(RequestId id) { engine_->cancel(id); }
void Control::watch(const PeerRef& peer) { engine_->watch().watch(peer); }
void Control::unwatch(const PeerRef& peer) { engine_->watch().unwatch(peer); }

}  // namespace urma::verbs
