/* SPDX-License-Identifier: MIT */

#include "ofi/cm_port.h"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>

#include "ofi/deadline.h"
#include "ofi/log.h"

namespace urma_fi {
namespace {

constexpr size_t kReceives = 512;  // peers that need not wait while nobody polls
constexpr size_t kSends = 64;
constexpr uint32_t kDepth = kReceives + kSends;
constexpr int kBatch = 16;
// Some seconds. A peer that stops receiving must not block messages to others.
constexpr uint8_t kRnrRetry = 6;
constexpr size_t kMaxWaiting = 4096;
constexpr int kFlushMs = 1000;

// Of a port that closes: peers that still come are told that nobody is here.
class LastAnswers final : public CmSink {
 public:
  void on_message(CmPort& port, const Address& from, const CmMessage& message) override {
    if (message.kind == CmKind::kRequest)
      port.send(from, make_message(CmKind::kReject, message.from, 0, 0, nullptr, 0));
    if (message.kind == CmKind::kAccept) port.send(from, make_shutdown(message.from, 0));
  }
  void on_undelivered(const CmMessage&, int, int) override {}
};

}  // namespace

std::unique_ptr<CmPort> CmPort::open(std::shared_ptr<Device> device, uint32_t id, int* error) {
  std::unique_ptr<CmPort> port(new CmPort(std::move(device)));
  errno = 0;
  if (port->make(id)) return port;
  // Of everything made here, only the requested id can belong to another process.
  *error = errno == EEXIST ? -FI_EADDRINUSE : error_of_errno();
  URMA_FI_WARN(FI_LOG_EP_CTRL, "no queue for connections at id %u: %s\n", id, fi_strerror(-*error));
  return nullptr;
}

bool CmPort::make(uint32_t id) {
  if (!make_buffers() || !make_queues(id)) return false;
  for (size_t slot = 0; slot < kReceives; slot++)
    if (!post_receive(slot)) return false;
  for (size_t slot = kReceives; slot < kDepth; slot++) free_.push_back(slot);
  return true;
}

bool CmPort::make_buffers() {
  slots_.resize(kDepth);
  receivers_.resize(kDepth);
  urma_seg_cfg_t cfg{};
  cfg.va = reinterpret_cast<uintptr_t>(slots_.data());
  cfg.len = slots_.size() * sizeof(CmMessage);
  cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  segment_ = urma_register_seg(device_->context(), &cfg);
  return segment_ != nullptr;
}

bool CmPort::make_queues(uint32_t id) {
  urma_context_t* context = device_->context();
  if ((events_ = urma_create_jfce(context)) == nullptr) return false;
  urma_jfc_cfg_t jfc{};
  jfc.depth = kDepth;
  jfc.jfce = events_;
  if ((records_ = urma_create_jfc(context, &jfc)) == nullptr) return false;
  urma_jfr_cfg_t jfr{};
  jfr.depth = kReceives;
  jfr.trans_mode = URMA_TM_RM;
  jfr.max_sge = 1;
  jfr.jfc = records_;
  if ((receives_ = urma_create_jfr(context, &jfr)) == nullptr) return false;
  urma_jetty_cfg_t cfg{};
  cfg.id = id;
  cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
  cfg.shared.jfr = receives_;
  cfg.jfs_cfg.depth = kSends;
  cfg.jfs_cfg.trans_mode = URMA_TM_RM;
  cfg.jfs_cfg.max_sge = 1;
  cfg.jfs_cfg.rnr_retry = kRnrRetry;
  cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfs_cfg.jfc = records_;
  jetty_ = urma_create_jetty(context, &cfg);
  return jetty_ != nullptr;
}

// What was sent may still be under way, or wait for a slot.
void CmPort::flush() {
  const Deadline deadline(kFlushMs);
  LastAnswers answers;
  poll(answers);
  while (!(peers_.empty() && waiting_.empty()) && !deadline.is_over()) {
    sched_yield();
    poll(answers);
  }
}

CmPort::~CmPort() {
  if (jetty_ != nullptr) flush();
  if (jetty_ != nullptr) urma_delete_jetty(jetty_);
  for (const auto& [name, peer] : peers_) urma_unimport_jetty(peer.target);
  if (receives_ != nullptr) urma_delete_jfr(receives_);
  if (records_ != nullptr) urma_delete_jfc(records_);
  if (events_ != nullptr) urma_delete_jfce(events_);
  if (segment_ != nullptr) urma_unregister_seg(segment_);
}

Address CmPort::address() const { return {jetty_->jetty_id.eid, jetty_->jetty_id.id}; }

bool CmPort::post_receive(size_t slot) {
  urma_sge_t piece{};
  piece.addr = reinterpret_cast<uintptr_t>(&slots_[slot]);
  piece.len = sizeof(CmMessage);
  piece.tseg = segment_;
  urma_jfr_wr_t request{};
  request.src = {&piece, 1};
  request.user_ctx = slot;
  urma_jfr_wr_t* bad = nullptr;
  return urma_post_jfr_wr(receives_, &request, &bad) == URMA_SUCCESS;
}

CmPort::Peer* CmPort::reach(const Address& address, int* error) {
  const std::string name = to_text(address);
  const auto found = peers_.find(name);
  if (found != peers_.end()) return &found->second;
  urma_rjetty_t remote{};
  remote.jetty_id.eid = address.eid;
  remote.jetty_id.id = address.id;
  remote.trans_mode = URMA_TM_RM;
  remote.type = URMA_JETTY;
  urma_target_jetty_t* target = urma_import_jetty(device_->context(), &remote, nullptr);
  if (target == nullptr) return *error = error_of_errno(), nullptr;
  return &peers_.emplace(name, Peer{name, target, 0}).first->second;
}

// Any stranger can make this port answer, so it keeps no state between messages.
void CmPort::release(Peer* peer) {
  if (peer->messages > 0) return;
  urma_unimport_jetty(peer->target);
  peers_.erase(std::string(peer->name));
}

int CmPort::send(const Address& to, const CmMessage& message) {
  const int error = waiting_.empty() ? post(to, message) : -FI_EAGAIN;
  if (error == -FI_EAGAIN && waiting_.size() < kMaxWaiting) {
    waiting_.emplace_back(to, message);
    return 0;
  }
  if (error != 0)
    URMA_FI_WARN(FI_LOG_EP_CTRL, "no connection message to %s: %s\n", to_text(to).c_str(),
                 fi_strerror(-error));
  return error;
}

void CmPort::send_waiting(CmSink& sink) {
  while (!waiting_.empty()) {
    const auto& [to, message] = waiting_.front();
    const int error = post(to, message);
    if (error == -FI_EAGAIN) return;
    if (error != 0) sink.on_undelivered(message, -error, 0);
    waiting_.pop_front();
  }
}

int CmPort::post(const Address& to, const CmMessage& message) {
  if (free_.empty()) return -FI_EAGAIN;
  int error = 0;
  Peer* peer = reach(to, &error);
  if (peer == nullptr) return error;
  error = post_to(peer, message);
  if (error == 0) {
    peer->messages++;
  } else {
    release(peer);
  }
  return error;
}

int CmPort::post_to(Peer* peer, const CmMessage& message) {
  const size_t slot = free_.back();
  slots_[slot] = message;
  urma_sge_t piece{};
  piece.addr = reinterpret_cast<uintptr_t>(&slots_[slot]);
  piece.len = static_cast<uint32_t>(size_of(message));
  piece.tseg = segment_;
  urma_jfs_wr_t request{};
  request.opcode = URMA_OPC_SEND;
  request.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  request.tjetty = peer->target;
  request.user_ctx = slot;
  request.send.src = {&piece, 1};
  urma_jfs_wr_t* bad = nullptr;
  const urma_status_t status = urma_post_jetty_send_wr(jetty_, &request, &bad);
  if (status == URMA_ENOMEM) return -FI_EAGAIN;
  if (status != URMA_SUCCESS) return error_of_status(status);
  receivers_[slot] = peer;
  free_.pop_back();
  return 0;
}

void CmPort::take_sent(CmSink& sink, const urma_cr_t& record) {
  const CmMessage message = slots_[record.user_ctx];
  Peer* peer = receivers_[record.user_ctx];
  free_.push_back(record.user_ctx);
  peer->messages--;
  release(peer);
  if (record.status == URMA_CR_SUCCESS) return;
  sink.on_undelivered(message, error_of_completion(record.status, false, false), record.status);
}

void CmPort::take_received(CmSink& sink, const urma_cr_t& record) {
  const CmMessage message = slots_[record.user_ctx];
  const Address from = {record.remote_id.eid, record.remote_id.id};
  const bool flushed = record.status == URMA_CR_WR_FLUSH_ERR;
  const bool valid = record.status == URMA_CR_SUCCESS && is_valid(message, record.completion_len);
  if (!flushed && !post_receive(record.user_ctx))
    FI_WARN_SPARSE(&provider, FI_LOG_EP_CTRL, "a receive for connection messages is lost\n");
  if (valid) {
    sink.on_message(*this, from, message);
  } else if (!flushed) {
    FI_WARN_SPARSE(&provider, FI_LOG_EP_CTRL,
                   "%s sent %u bytes that are not a connection message; dropped\n",
                   to_text(from).c_str(), record.completion_len);
  }
}

void CmPort::poll(CmSink& sink) {
  urma_cr_t records[kBatch];
  int count = kBatch;
  for (uint32_t taken = 0; count == kBatch && taken < kDepth; taken += kBatch) {
    count = urma_poll_jfc(records_, kBatch, records);
    for (int i = 0; i < count; i++) {
      const urma_cr_t& record = records[i];
      if (record.status == URMA_CR_WR_FLUSH_ERR_DONE) continue;
      record.flag.bs.s_r ? take_received(sink, record) : take_sent(sink, record);
    }
  }
  send_waiting(sink);
}

void CmPort::arm() {
  urma_jfc_t* raised = nullptr;
  uint32_t one = 1;
  while (urma_wait_jfc(events_, 1, 0, &raised) > 0) urma_ack_jfc(&raised, &one, 1);
  urma_rearm_jfc(records_, false);
}

}  // namespace urma_fi
