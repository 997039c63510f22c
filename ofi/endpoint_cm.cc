/* SPDX-License-Identifier: MIT */

// Endpoints: connecting and disconnecting.

#include "ofi/cm_message.h"
#include "ofi/endpoint.h"
#include "ofi/eq.h"
#include "ofi/log.h"

namespace urma_fi {

fi_ops_cm Endpoint::cm_ops_ = {sizeof(fi_ops_cm),  refuse, Endpoint::get_name, Endpoint::get_peer,
                               Endpoint::connect,  refuse, Endpoint::accept,   refuse,
                               Endpoint::shutdown, refuse};

int Endpoint::join(uint32_t peer_jetty) {
  urma_rjetty_t remote{};
  remote.jetty_id.eid = peer.eid;
  remote.jetty_id.id = peer_jetty;
  remote.trans_mode = URMA_TM_RC;
  remote.type = URMA_JETTY;
  target_ = urma_import_jetty(device_->context(), &remote, nullptr);
  int error = target_ == nullptr ? error_of_errno() : 0;
  if (error == 0) {
    const urma_status_t status = urma_bind_jetty(jetty_, target_);
    if (status != URMA_SUCCESS) {
      error = error_of_status(status);
      urma_unimport_jetty(target_);
      target_ = nullptr;
    }
  }
  if (error != 0)
    URMA_FI_WARN(FI_LOG_EP_CTRL, "no connection to jetty %u at %s: %s\n", peer_jetty,
                 to_text(peer).c_str(), fi_strerror(-error));
  // Pairs with the acquire of post: a sender sees the jetty bound.
  bound_.store(error == 0, std::memory_order_release);
  return error;
}

void Endpoint::part() {
  if (bound_.exchange(false)) urma_unbind_jetty(jetty_);
  if (target_ != nullptr) urma_unimport_jetty(target_);
  target_ = nullptr;
}

int Endpoint::connect(fid_ep* ep, const void* address, const void* data, size_t size) {
  Endpoint* self = of(ep);
  Address to;
  const void* bytes = address != nullptr ? address : self->info_->dest_addr;
  // Addresses have no size argument: a string has an end, and a socket address its family.
  const size_t length = address != nullptr ? SIZE_MAX : self->info_->dest_addrlen;
  if (size > kCmDataSize || !decode(self->info_->addr_format, bytes, length, &to)) {
    URMA_FI_WARN(FI_LOG_EP_CTRL, "not a URMA address, or %zu bytes of data exceed %zu\n", size,
                 kCmDataSize);
    return -FI_EINVAL;
  }
  const int error = self->enable();
  if (error != 0) return error;
  std::lock_guard lock(self->eq_->mutex());
  if (self->state != State::kIdle) return -FI_EOPBADSTATE;
  const CmMessage request =
      make_message(CmKind::kRequest, 0, self->number, self->jetty_->jetty_id.id, data, size);
  const int sent = self->eq_->send(self->device(), to, request);
  if (sent != 0) return sent;
  self->peer = to;
  self->state = State::kConnecting;
  self->eq_->expect_answer(self);
  return 0;
}

int Endpoint::accept(fid_ep* ep, const void* data, size_t size) {
  Endpoint* self = of(ep);
  if (!self->request_stands() || size > kCmDataSize) return -FI_EINVAL;
  const int error = self->answer(data, size);
  if (error != 0) {
    self->may_turn_away_ = false;
    return error;
  }
  end_request(self->request_->handle);
  return 0;
}

int Endpoint::answer(const void* data, size_t size) {
  int error = enable();
  if (error != 0) return error;
  std::lock_guard lock(eq_->mutex());
  if (state != State::kIdle) return -FI_EOPBADSTATE;
  peer = request_->from;
  peer_number = request_->number;
  if ((error = join(request_->jetty)) != 0) return error;
  const CmMessage yes =
      make_message(CmKind::kAccept, peer_number, number, jetty_->jetty_id.id, data, size);
  if ((error = eq_->send(device(), peer, yes)) != 0) {
    part();
    return error;
  }
  state = State::kAccepting;
  return 0;
}

// Another request may have its handle by now.
bool Endpoint::request_stands() const {
  if (!request_.has_value()) return false;
  const std::optional<Request> found = find_request(request_->handle);
  return found.has_value() && found->number == request_->number;
}

// Rejects the request that the endpoint was made for, and that nobody has answered.
void Endpoint::turn_away() {
  if (!may_turn_away_ || !request_stands()) return;
  end_request(request_->handle);
  int error = 0;
  const std::unique_ptr<CmPort> port = CmPort::open(device_, 0, &error);
  if (port == nullptr) return;
  port->send(request_->from, make_message(CmKind::kReject, request_->number, 0, 0, nullptr, 0));
}

int Endpoint::shutdown(fid_ep* ep, uint64_t) {
  Endpoint* self = of(ep);
  if (self->number == 0) return -FI_EOPBADSTATE;
  std::lock_guard lock(self->eq_->mutex());
  if (self->state != State::kConnected && self->state != State::kAccepting) return -FI_ENOTCONN;
  const CmMessage bye = make_shutdown(self->peer_number, self->number);
  self->state = State::kShut;
  // Outstanding requests come back flushed.
  urma_jetty_attr_t jetty{};
  jetty.mask = JETTY_STATE;
  jetty.state = URMA_JETTY_STATE_ERROR;
  urma_modify_jetty(self->jetty_, &jetty);
  urma_jfr_attr_t jfr{};
  jfr.mask = JFR_STATE;
  jfr.state = URMA_JFR_STATE_ERROR;
  urma_modify_jfr(self->jfr_, &jfr);
  return self->eq_->send(self->device(), self->peer, bye);
}

// Tells the peer, if there is one, and leaves the event queue. Progress there makes room for what
// the next endpoint has to tell.
void Endpoint::say_goodbye() {
  {
    std::lock_guard lock(eq_->mutex());
    if (state == State::kConnected || state == State::kAccepting) {
      eq_->send(device(), peer, make_shutdown(peer_number, number));
      state = State::kShut;
    }
  }
  eq_->forget(this);
  eq_->progress();
}

void Endpoint::on_peer_lost() { eq_->lost(this); }

int Endpoint::get_name(fid_t head, void* room, size_t* size) {
  const Endpoint* self = object_of<Endpoint, fid_ep>(head);
  const Address here = {self->device_->eid(),
                        self->jetty_ == nullptr ? 0 : self->jetty_->jetty_id.id};
  return give_address(self->info_->addr_format, here, room, size);
}

int Endpoint::get_peer(fid_ep* ep, void* room, size_t* size) {
  Endpoint* self = of(ep);
  if (self->number == 0) return -FI_ENOTCONN;
  std::lock_guard lock(self->eq_->mutex());
  if (self->state != State::kConnected) return -FI_ENOTCONN;
  return give_address(self->info_->addr_format, self->peer, room, size);
}

}  // namespace urma_fi
