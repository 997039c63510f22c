// SPDX-License-Identifier: MIT
//
// The fake connection manager: what librdmacm does for iWARP.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "test/verbs/fake_verbs_state.h"

namespace urma::verbs {
namespace {

constexpr uint16_t kFirstPort = 40000;

FakeCmId* fake(rdma_cm_id* id) { return static_cast<FakeCmId*>(id); }
FakeCmChannel* channel_of(const FakeCmId& id) { return static_cast<FakeCmChannel*>(id.channel); }

NetAddress address_from(const sockaddr* address) {
  SocketAddress any = {};
  std::memcpy(&any, address,
              address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return from_socket_address(any);
}

void store_address(const NetAddress& from, sockaddr_storage* to) {
  SocketAddress any;
  to_socket_address(from, 0, &any);
  std::memcpy(to, &any, sizeof(any));
}

// The open device with this address.
ibv_context* find_device(const FakeFabric& fabric, const NetAddress& address) {
  for (const auto& device : fabric.devices) {
    for (const auto& gid : device->options.gids) {
      SocketAddress ip = {};
      ip.v4.sin_family = AF_INET;
      if (::inet_pton(AF_INET, gid.ip.c_str(), &ip.v4.sin_addr) != 1) {
        ip.v6.sin6_family = AF_INET6;
        ::inet_pton(AF_INET6, gid.ip.c_str(), &ip.v6.sin6_addr);
      }
      NetAddress found = from_socket_address(ip);
      found.port = address.port;
      if (found == address && !device->contexts.empty()) return *device->contexts.begin();
    }
  }
  return nullptr;
}

void tell(FakeCmId* id, rdma_cm_event_type type, int error = 0, std::vector<uint8_t> data = {},
          FakeCmId* caller = nullptr) {
  auto* event = new FakeCmEvent{};
  event->id = caller != nullptr ? caller : id;
  event->listen_id = caller != nullptr ? id : nullptr;
  event->event = type;
  event->status = -error;
  event->data = std::move(data);
  event->param.conn.private_data = event->data.data();
  event->param.conn.private_data_len = static_cast<uint8_t>(event->data.size());
  channel_of(*id)->events.push(event);
}

FakeCmId* make_id(FakeFabric* fabric, rdma_event_channel* channel, void* context) {
  auto* id = new FakeCmId{};
  id->channel = channel;
  id->context = context;
  id->ps = RDMA_PS_TCP;
  fabric->cm_ids.insert(id);
  ++channel_of(*id)->ids;
  ++fabric->objects;
  return id;
}

void delete_id(FakeFabric* fabric, FakeCmId* id) {
  fabric->cm_ids.erase(id);
  --channel_of(*id)->ids;
  --fabric->objects;
  delete id;
}

rdma_event_channel* create_event_channel() {
  FakeCall call("cm_create_event_channel");
  if (call.error() != 0) return fake_null(call.error());
  auto* channel = new FakeCmChannel{};
  channel->fd = channel->events.fd.get();
  ++call->objects;
  return channel;
}

void destroy_event_channel(rdma_event_channel* base) {
  FakeCall call("cm_destroy_event_channel");
  auto* channel = static_cast<FakeCmChannel*>(base);
  EXPECT_EQ(channel->ids, 0U) << "a channel ends before its ids";
  --call->objects;
  delete channel;
}

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context) {
  FakeCall call("cm_create_id");
  if (call.error() != 0) return call.error();
  *id = make_id(&call.fabric(), channel, context);
  return 0;
}

// What a caller gets if no one answers any more.
void hang_up(FakeCmId* called) {
  if (called->peer == nullptr) return;
  called->peer->state = FakeCmState::kIdle;
  tell(called->peer, RDMA_CM_EVENT_REJECTED, ECONNRESET);
  called->peer->peer = nullptr;
  called->peer = nullptr;
}

// Unanswered calls end with their listener.
void drop_calls(FakeFabric* fabric, FakeCmId* listening) {
  channel_of(*listening)->events.remove_if([&](FakeCmEvent* event) {
    if (event->listen_id != listening) return false;
    hang_up(fake(event->id));
    delete_id(fabric, fake(event->id));
    delete event;
    return true;
  });
}

int destroy_id(rdma_cm_id* base) {
  FakeCall call("cm_destroy_id");
  if (call.error() != 0) return call.error();
  auto* id = fake(base);
  call->acked.wait(call.lock(), [id] { return id->unacked == 0; });
  switch (id->state) {
    case FakeCmState::kListening:
      call->cm_listening.erase(id->local);
      drop_calls(&call.fabric(), id);
      break;
    case FakeCmState::kCalling:
      // The kernel would wait for the other end here.
      ++call->cm_waits;
      if (id->peer != nullptr) id->peer->peer = nullptr;
      break;
    case FakeCmState::kCalled:
      hang_up(id);
      break;
    case FakeCmState::kConnected:
      call->disconnect(id->qp_num);
      break;
    case FakeCmState::kIdle:
      break;
  }
  channel_of(*id)->events.remove_if([&](FakeCmEvent* event) {
    if (event->id != id) return false;
    delete event;
    return true;
  });
  delete_id(&call.fabric(), id);
  return 0;
}

int bind_addr(rdma_cm_id* base, sockaddr* address) {
  FakeCall call("cm_bind_addr");
  if (call.error() != 0) return call.error();
  auto* id = fake(base);
  id->local = address_from(address);
  id->verbs = find_device(call.fabric(), id->local);
  if (id->verbs == nullptr) return ENODEV;
  if (id->local.port == 0) {
    id->local.port = static_cast<uint16_t>(kFirstPort + call->cm_ports++);
  }
  return 0;
}

int listen(rdma_cm_id* base, int /*backlog*/) {
  FakeCall call("cm_listen");
  if (call.error() != 0) return call.error();
  auto* id = fake(base);
  if (!call->cm_listening.emplace(id->local, id).second) return EADDRINUSE;
  id->state = FakeCmState::kListening;
  return 0;
}

uint16_t get_src_port(rdma_cm_id* id) { return fake(id)->local.port; }

int resolve_addr(rdma_cm_id* base, sockaddr* source, sockaddr* target, int /*timeout_ms*/) {
  FakeCall call("cm_resolve_addr");
  if (call.error() != 0) return call.error();
  auto* id = fake(base);
  id->local = address_from(source);
  id->verbs = find_device(call.fabric(), id->local);
  id->local.port = static_cast<uint16_t>(kFirstPort + call->cm_ports++);
  store_address(id->local, &id->route.addr.src_storage);
  store_address(address_from(target), &id->route.addr.dst_storage);
  tell(id, id->verbs == nullptr ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

int resolve_route(rdma_cm_id* id, int /*timeout_ms*/) {
  FakeCall call("cm_resolve_route");
  if (call.error() != 0) return call.error();
  tell(fake(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int connect(rdma_cm_id* base, rdma_conn_param* param) {
  FakeCall call("cm_connect");
  if (call.error() != 0) return call.error();
  auto* id = fake(base);
  if (call->queue_pair(param->qp_num) == nullptr) return EINVAL;
  const NetAddress target = address_from(&id->route.addr.dst_addr);
  const auto listening = call->cm_listening.find(target);
  if (listening == call->cm_listening.end()) return ECONNREFUSED;
  id->state = FakeCmState::kCalling;
  id->qp_num = param->qp_num;
  auto* called = make_id(&call.fabric(), listening->second->channel, listening->second->context);
  called->verbs = listening->second->verbs;
  called->local = target;
  called->state = FakeCmState::kCalled;
  called->peer = id;
  id->peer = called;
  store_address(id->local, &called->route.addr.dst_storage);
  const auto* data = static_cast<const uint8_t*>(param->private_data);
  tell(listening->second, RDMA_CM_EVENT_CONNECT_REQUEST, 0, {data, data + param->private_data_len},
       called);
  return 0;
}

void join(FakeQp* qp, const FakeQp& other, const rdma_conn_param& param) {
  qp->attr.dest_qp_num = other.qp_num;
  qp->attr.max_rd_atomic = param.initiator_depth;
  qp->attr.max_dest_rd_atomic = param.responder_resources;
  qp->current = IBV_QPS_RTS;
  qp->state = IBV_QPS_RTS;
}

int accept(rdma_cm_id* base, rdma_conn_param* param) {
  FakeCall call("cm_accept");
  if (call.error() != 0) return call.error();
  auto* id = fake(base);
  if (id->state != FakeCmState::kCalled || id->peer == nullptr) return ECONNRESET;
  auto* here = call->queue_pair(param->qp_num);
  auto* there = call->queue_pair(id->peer->qp_num);
  if (here == nullptr || there == nullptr || here->current != IBV_QPS_INIT) return EINVAL;
  join(here, *there, *param);
  join(there, *here, *param);
  here->waits_for_first = true;
  id->qp_num = param->qp_num;
  for (FakeCmId* end : {id, id->peer}) {
    end->state = FakeCmState::kConnected;
    tell(end, RDMA_CM_EVENT_ESTABLISHED);
  }
  return 0;
}

int reject(rdma_cm_id* base, const void* data, uint8_t bytes) {
  FakeCall call("cm_reject");
  if (call.error() != 0) return call.error();
  auto* id = fake(base);
  if (id->state != FakeCmState::kCalled) return EINVAL;
  id->state = FakeCmState::kIdle;
  if (id->peer == nullptr) return 0;
  const auto* from = static_cast<const uint8_t*>(data);
  id->peer->state = FakeCmState::kIdle;
  tell(id->peer, RDMA_CM_EVENT_REJECTED, ECONNRESET, {from, from + bytes});
  id->peer->peer = nullptr;
  id->peer = nullptr;
  return 0;
}

FakeCmId* whose(const rdma_cm_event& event) {
  return fake(event.listen_id != nullptr ? event.listen_id : event.id);
}

int get_event(rdma_event_channel* channel, rdma_cm_event** event) {
  FakeCall call("cm_get_event");
  if (call.error() != 0) return call.error();
  FakeCmEvent* taken = nullptr;
  const int error = static_cast<FakeCmChannel*>(channel)->events.take(&call.lock(), &taken);
  if (error != 0) return error;
  ++whose(*taken)->unacked;
  *event = taken;
  return 0;
}

int ack_event(rdma_cm_event* event) {
  FakeCall call("cm_ack_event");
  --whose(*event)->unacked;
  call->acked.notify_all();
  delete static_cast<FakeCmEvent*>(event);
  return 0;
}

}  // namespace

// Both ends are notified, and their queue pairs break.
void FakeFabric::disconnect(uint32_t qp_num) {
  const auto found = std::find_if(cm_ids.begin(), cm_ids.end(), [&](const FakeCmId* id) {
    return id->state == FakeCmState::kConnected && id->qp_num == qp_num;
  });
  if (found == cm_ids.end()) return;
  FakeCmId* ends[2] = {*found, (*found)->peer};
  for (FakeCmId* end : ends) {
    end->state = FakeCmState::kIdle;
    end->peer = nullptr;
    tell(end, RDMA_CM_EVENT_DISCONNECTED);
  }
  for (FakeCmId* end : ends) {
    if (FakeQp* qp = queue_pair(end->qp_num)) enter_error(qp);
  }
}

void FakeVerbs::break_connection(uint32_t qp_num) {
  const FakeLock lock(fabric_->mutex);
  fabric_->disconnect(qp_num);
  fabric_->kick();
}

void FakeVerbs::give_up_calls() {
  const FakeLock lock(fabric_->mutex);
  for (FakeCmId* id : fabric_->cm_ids) {
    if (id->state != FakeCmState::kCalling) continue;
    id->state = FakeCmState::kIdle;
    if (id->peer != nullptr) id->peer->peer = nullptr;
    id->peer = nullptr;
    tell(id, RDMA_CM_EVENT_UNREACHABLE, ETIMEDOUT);
  }
}

uint64_t FakeVerbs::waits_for_calls() const {
  const FakeLock lock(fabric_->mutex);
  return fabric_->cm_waits;
}

void fill_fake_cm(Api* api) {
  api->cm_create_event_channel = create_event_channel;
  api->cm_destroy_event_channel = destroy_event_channel;
  api->cm_create_id = create_id;
  api->cm_destroy_id = destroy_id;
  api->cm_bind_addr = bind_addr;
  api->cm_listen = listen;
  api->cm_get_src_port = get_src_port;
  api->cm_resolve_addr = resolve_addr;
  api->cm_resolve_route = resolve_route;
  api->cm_connect = connect;
  api->cm_accept = accept;
  api->cm_reject = reject;
  api->cm_get_event = get_event;
  api->cm_ack_event = ack_event;
}

}  // namespace urma::verbs
