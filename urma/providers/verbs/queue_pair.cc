// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/queue_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/base/random.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {
namespace {

constexpr uint32_t kPsnMask = 0xFFFFFF;
// 7 would be indefinite on Soft-RoCE: it would go on sending to a peer that gave the connection up
// while the network was down.
constexpr uint8_t kRetries = 6;
// The largest values of the fields, which have 5 and 3 bits: a program may ask for more.
constexpr uint8_t kLongestTimer = 31;
constexpr uint8_t kRetryForEver = 7;
constexpr uint8_t kHopLimit = 64;
// 0 would be indefinite.
constexpr uint8_t kDefaultTimeout = 17;

// A subnet manager may have changed it since urma_init.
uint16_t lid_of(const Device& device) {
  ibv_port_attr port = {};
  const bool may_change = device.info().link_layer == LinkLayer::kInfiniband;
  if (!may_change || device.api().query_port(device.context(), device.port(), &port) != 0) {
    return device.info().port_attr.lid;
  }
  return port.lid;
}

uint8_t most_rd_atomic(int limit) { return static_cast<uint8_t>(std::clamp(limit, 0, 255)); }

}  // namespace

ibv_ah_attr address_vector(const Device& device, const PortAddress& origin, const LinkEnd& peer,
                           uint8_t service_level) {
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  std::memcpy(&attr.grh.dgid, &peer.gid, sizeof(attr.grh.dgid));
  // An address that went and came back may have another index in the table.
  const PortAddress own = device.find_address(origin.eid).value_or(origin);
  attr.grh.sgid_index = static_cast<uint8_t>(own.gid_index);
  attr.grh.hop_limit = kHopLimit;
  attr.dlid = peer.lid;
  attr.sl = service_level;
  attr.port_num = device.port();
  return attr;
}

QueuePair::QueuePair(const Device& device, ibv_qp_type type, std::shared_ptr<CqPump> pump,
                     std::shared_ptr<ibv_srq> srq, const QueuePairLimits& limits,
                     const PortAddress& origin, uint32_t qkey, std::function<void()> broken)
    : device_(&device),
      type_(type),
      pump_(std::move(pump)),
      origin_(origin),
      qkey_(qkey),
      broken_(std::move(broken)),
      srq_(std::move(srq)) {
  pump_->require();
  ibv_qp_init_attr init = {};
  init.qp_context = static_cast<QueueListener*>(this);
  init.send_cq = pump_->cq();
  init.recv_cq = pump_->cq();
  init.srq = srq_.get();
  init.qp_type = type;
  init.cap = {limits.sends, limits.receives, limits.send_sges, limits.receive_sges,
              limits.inline_bytes};
  // The library of Soft-iWARP crashes if a queue pair can receive nothing at all.
  if (srq_ == nullptr) init.cap.max_recv_wr = std::max(init.cap.max_recv_wr, 1U);
  qp_ = {&device.api(), device.api().create_qp(device.pd(), &init)};
  if (!qp_) {
    fail_device(device.info(),
                urma::format("making a queue pair of {} sends and {} receives", limits.sends,
                             limits.receives),
                errno);
  }
  number_ = qp_->qp_num;
  sends_ = std::max(init.cap.max_send_wr, limits.sends);
  inline_bytes_ = init.cap.max_inline_data;
  const DeviceInfo& info = device.info();
  address_.gid = origin.eid;
  address_.qpn = number_;
  address_.psn = random_value<uint32_t>() & kPsnMask;
  address_.lid = lid_of(device);
  address_.link_layer = info.link_layer;
  address_.mtu = static_cast<uint8_t>(info.port_attr.active_mtu);
  address_.rd_atomic = most_rd_atomic(info.limits.orig_attr.max_qp_rd_atom);
  initialize();
}

void QueuePair::initialize() {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = device_->port();
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (type_ == IBV_QPT_UD) {
    attr.qkey = qkey_;
    mask |= IBV_QP_QKEY;
  } else {
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    // iWARP has no atomics.
    if (!device_->info().iwarp()) attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  change(&attr, mask, "INIT");
}

void QueuePair::change(ibv_qp_attr* attr, int mask, const char* into) const {
  const int error = device_->api().modify_qp(qp_.get(), attr, mask);
  if (error == 0) return;
  fail_device(device_->info(), urma::format("queue pair {} into {}", number_, into), error);
}

void QueuePair::receive_from(const LinkEnd& peer, const Patience& patience) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(peer.mtu, address_.mtu));
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn & kPsnMask;
  attr.max_dest_rd_atomic = address_.rd_atomic;
  attr.min_rnr_timer = std::min(patience.min_rnr_timer, kLongestTimer);
  attr.ah_attr = address_vector(*device_, origin_, peer, patience.service_level);
  change(&attr,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");
}

void QueuePair::send_to(const LinkEnd& peer, const Patience& patience) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout =
      patience.timeout != 0 ? std::min(patience.timeout, kLongestTimer) : kDefaultTimeout;
  attr.retry_cnt = kRetries;
  attr.rnr_retry = std::min(patience.rnr_retry, kRetryForEver);
  attr.sq_psn = address_.psn;
  const int most = device_->info().limits.orig_attr.max_qp_init_rd_atom;
  attr.max_rd_atomic = std::min(most_rd_atomic(most), peer.rd_atomic);
  change(&attr,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

void QueuePair::open() {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTR;
  change(&attr, IBV_QP_STATE, "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = address_.psn;
  change(&attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

void QueuePair::reopen() {
  pump_->require();
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RESET;
  change(&attr, IBV_QP_STATE, "RESET");
  initialize();
  open();
}

bool QueuePair::go_to(ibv_qp_state state) {
  ibv_qp_attr attr = {};
  attr.qp_state = state;
  return device_->api().modify_qp(qp_.get(), &attr, IBV_QP_STATE) == 0;
}

void QueuePair::close() {
  const MutexLock lock(mutex_);
  closing_ = true;
  if (!held_) destroy();
}

void QueuePair::hold() {
  const MutexLock lock(mutex_);
  held_ = true;
}

void QueuePair::let_go() {
  const MutexLock lock(mutex_);
  held_ = false;
  if (closing_) destroy();
}

void QueuePair::destroy() {
  qp_.reset();
  srq_.reset();
}

void QueuePair::queue_event(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      URMA_LOG_LIMITED(WARNING, "queue pair {} has failed: device event {}", number_,
                       static_cast<int>(type));
      broken_();
      break;
    default:
      break;
  }
}

}  // namespace urma::verbs
