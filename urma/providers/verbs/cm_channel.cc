// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/cm_channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "urma/base/error.h"
#include "urma/base/fd.h"
#include "urma/base/guard.h"

namespace urma::verbs {
namespace {

// In one turn of the service thread.
constexpr int kMaxEvents = 16;

rdma_event_channel* open_channel(const Device& device) {
  const Api& api = device.api();
  rdma_event_channel* channel = api.cm_create_event_channel();
  if (channel == nullptr) {
    fail_errno(URMA_FAIL,
               urma::format("{} is iWARP and needs /dev/infiniband/rdma_cm; load the kernel module "
                            "rdma_ucm, and give this user read and write access",
                            device.info().name));
  }
  if (make_nonblocking(channel->fd)) return channel;
  api.cm_destroy_event_channel(channel);
  fail_errno(URMA_FAIL, "preparing the events of connections");
}

CmEvent copy_event(const rdma_cm_event& from) {
  CmEvent event = {from.event, nullptr, {}};
  if (from.event == RDMA_CM_EVENT_CONNECT_REQUEST) event.caller = from.id;
  const auto* data = static_cast<const uint8_t*>(from.param.conn.private_data);
  if (data != nullptr) event.data.assign(data, data + from.param.conn.private_data_len);
  return event;
}

}  // namespace

CmChannel::CmChannel(const Device& device) : device_(device), channel_(open_channel(device)) {}

CmChannel::~CmChannel() { api().cm_destroy_event_channel(channel_); }

CmId CmChannel::make_id(CmHandler* handler) const {
  rdma_cm_id* id = nullptr;
  errno = api().cm_create_id(channel_, &id, handler);
  if (errno != 0) fail_errno(URMA_ENOMEM, "rdma_create_id");
  return {&api(), id};
}

void CmChannel::start() {
  device_.service().watch(channel_->fd, EPOLLIN, [this](uint32_t) { read_events(); });
  watched_ = true;
}

void CmChannel::stop() {
  if (std::exchange(watched_, false)) device_.service().unwatch(channel_->fd);
}

void CmChannel::read_events() {
  for (int i = 0; i < kMaxEvents && watched_; ++i) {
    rdma_cm_event* got = nullptr;
    if (api().cm_get_event(channel_, &got) != 0) return;
    auto* listening = got->listen_id;
    auto* handler = static_cast<CmHandler*>((listening != nullptr ? listening : got->id)->context);
    CmEvent event = copy_event(*got);
    // Before the handler: destroying an id waits until all its events are acknowledged.
    api().cm_ack_event(got);
    guarded(URMA_LOG_SITE, [&] { handler->cm_event(event); });
  }
}

void require_device(const Device& device, const rdma_cm_id& id) {
  const char* found = id.verbs == nullptr ? "none" : device.api().get_device_name(id.verbs->device);
  if (device.info().ibdev == found) return;
  fail(URMA_FAIL,
       "librdmacm picks RDMA device {} for the address of {}; remove one of the two from the "
       "network interface",
       found, device.info().name);
}

uint8_t reads_at_a_time(const Device& device, const LinkEnd& other) {
  const auto& limits = device.info().limits.orig_attr;
  const int own = std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom);
  return static_cast<uint8_t>(std::clamp<int>(own, 0, other.rd_atomic));
}

rdma_conn_param connection_param(uint32_t qp_number, uint8_t reads) {
  rdma_conn_param param = {};
  param.responder_resources = param.initiator_depth = reads;
  param.qp_num = qp_number;
  return param;
}

NetAddress peer_address(const rdma_cm_id& id) {
  SocketAddress address = {};
  const sockaddr_storage& peer = id.route.addr.dst_storage;
  std::memcpy(&address, &peer, sizeof(address));
  return from_socket_address(address);
}

}  // namespace urma::verbs
