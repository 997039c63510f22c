/* SPDX-License-Identifier: MIT */

#include "ofi/rdm_endpoint.h"

#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>

#include "ofi/deadline.h"
#include "ofi/info.h"
#include "ofi/log.h"
#include "ofi/passive.h"

namespace urma_fi {
namespace {

constexpr int kBatch = 16;
constexpr uint32_t kRecordDepth = 8192;
// A peer that is waited for is probed at most this often; the clock is read once in kPollsPerLook
// polls without an arrival.
constexpr std::chrono::milliseconds kLookAfter{100};
constexpr uint32_t kPollsPerLook = 1024;
// Failures and the records of probes are looked for once in this number of polls.
constexpr uint32_t kPollsPerSweep = 16;
constexpr int kFlushMs = 1000;

}  // namespace

fi_ops RdmEndpoint::fid_ops_ = {
    sizeof(fi_ops), RdmEndpoint::close, RdmEndpoint::bind, RdmEndpoint::control, refuse, refuse,
    refuse};
fi_ops_ep RdmEndpoint::ep_ops_ = {
    sizeof(fi_ops_ep), RdmEndpoint::cancel, refuse, refuse, refuse, refuse, refuse, refuse};
fi_ops_cm RdmEndpoint::cm_ops_ = {sizeof(fi_ops_cm),
                                  refuse,
                                  RdmEndpoint::get_name,
                                  refuse,
                                  refuse,
                                  refuse,
                                  refuse,
                                  refuse,
                                  refuse,
                                  refuse};
fi_ops_rma RdmEndpoint::rma_ops_ = {
    sizeof(fi_ops_rma), refuse, refuse, refuse, refuse, refuse, refuse, refuse, refuse, refuse};
fi_ops_atomic RdmEndpoint::atomic_ops_ = {sizeof(fi_ops_atomic),
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse,
                                          refuse};

int RdmEndpoint::open(fid_domain* domain, fi_info* info, fid_ep** ep, void* context) {
  std::unique_ptr<RdmEndpoint> made(new RdmEndpoint(static_cast<Domain*>(domain)));
  made->fid = {FI_CLASS_EP, context, &fid_ops_};
  made->ops = &ep_ops_;
  made->cm = &cm_ops_;
  made->msg = &msg_ops_;
  made->rma = &rma_ops_;
  made->tagged = &tagged_ops_;
  made->atomic = &atomic_ops_;
  made->collective = nullptr;
  const int error = open_device(info, &made->device_, &made->source_);
  if (error != 0) return error;
  made->info_ = fi_dupinfo(info);
  if (made->info_ == nullptr) return -FI_ENOMEM;
  made->directed_ = (info->caps & FI_DIRECTED_RECV) != 0;
  made->domain_->users.take();
  *ep = made.release();
  return 0;
}

RdmEndpoint::~RdmEndpoint() { fi_freeinfo(info_); }

int RdmEndpoint::close(fid_t head) {
  RdmEndpoint* self = object_of<RdmEndpoint, fid_ep>(head);
  if (self->enabled_) self->flush();
  {
    std::lock_guard lock(self->domain_->lock());
    self->drop_queues();
    if (self->av_ != nullptr) self->av_->leave(self);
    for (Cq* cq : {self->send_cq_, self->receive_cq_})
      if (cq != nullptr) cq->release(self);
  }
  self->drop_bound_queues();
  self->domain_->users.drop();
  delete self;
  return 0;
}

int RdmEndpoint::bind(fid_t head, fid_t other, uint64_t flags) {
  RdmEndpoint* self = object_of<RdmEndpoint, fid_ep>(head);
  if (self->enabled_) return -FI_EOPBADSTATE;
  switch (other->fclass) {
    case FI_CLASS_CQ:
      return self->bind_queue(object_of<Cq, fid_cq>(other), flags);
    case FI_CLASS_CNTR:
      return self->bind_counter(object_of<Cntr, fid_cntr>(other), flags, FI_SEND | FI_RECV);
    case FI_CLASS_EQ:
      return 0;  // nothing happens there
    case FI_CLASS_AV: {
      if (self->av_ != nullptr) return -FI_EINVAL;
      std::lock_guard lock(self->domain_->lock());
      self->av_ = object_of<Av, fid_av>(other);
      self->av_->join(self);
      return 0;
    }
    default:
      return -FI_EINVAL;
  }
}

int RdmEndpoint::make_queues() {
  urma_context_t* context = device_->context();
  const urma_device_cap_t& cap = device_->cap();
  const int error = buffers_.make(context);
  if (error != 0) return error;
  // The lock of the domain guards all of them.
  urma_jfc_cfg_t jfc{};
  jfc.flag.bs.lock_free = 1;
  jfc.jfce = receive_cq_->events();
  jfc.depth = kBounces;
  if ((arrivals_ = urma_create_jfc(context, &jfc)) == nullptr) return error_of_errno();
  jfc.depth = std::min(kRecordDepth, cap.max_jfc_depth);
  if ((records_ = urma_create_jfc(context, &jfc)) == nullptr) return error_of_errno();
  urma_jfr_cfg_t jfr{};
  jfr.depth = kBounces;
  jfr.flag.bs.lock_free = 1;
  jfr.trans_mode = URMA_TM_RM;
  jfr.max_sge = 1;
  jfr.jfc = arrivals_;
  if ((jfr_ = urma_create_jfr(context, &jfr)) == nullptr) return error_of_errno();
  const int bad = make_jetty();
  return bad != 0 ? bad : buffers_.post_all(jfr_);
}

// It has the address, and receives; each peer is sent to from a queue of its own.
int RdmEndpoint::make_jetty() {
  urma_jetty_cfg_t cfg{};
  cfg.id = source_.id;
  cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
  cfg.shared.jfr = jfr_;
  cfg.jfs_cfg.depth = 1;
  cfg.jfs_cfg.flag.bs.lock_free = 1;
  cfg.jfs_cfg.trans_mode = URMA_TM_RM;
  cfg.jfs_cfg.max_sge = 1;
  cfg.jfs_cfg.jfc = records_;
  errno = 0;
  if ((jetty_ = urma_create_jetty(device_->context(), &cfg)) == nullptr)
    return errno == EEXIST ? -FI_EADDRINUSE : error_of_errno();
  inline_size_ = std::min<size_t>(device_->cap().max_jfs_inline_len, kMostInline);
  if (inline_size_ < kMaxHead + sizeof(GrantBody)) return -FI_ENOSYS;
  // 0 stands for a peer that nothing has come from.
  const auto incarnation = static_cast<uint16_t>(random_number() % UINT16_MAX + 1);
  origin_ = {jetty_->jetty_id.id, incarnation};
  return 0;
}

int RdmEndpoint::enable() {
  if (enabled_) return 0;
  if (av_ == nullptr) return -FI_ENOAV;
  if (send_cq_ == nullptr || receive_cq_ == nullptr) return -FI_ENOCQ;
  if (send_cq_ != receive_cq_ && send_cq_->events() != nullptr) {
    URMA_FI_WARN(
        FI_LOG_EP_CTRL,
        "completions of sends cannot be waited for in a queue of their own: bind one queue "
        "for both, or use FI_WAIT_NONE\n");
    return -FI_ENOSYS;
  }
  {
    std::lock_guard lock(domain_->lock());
    const int error = make_queues();
    if (error != 0) {
      URMA_FI_WARN(FI_LOG_EP_CTRL, "endpoint cannot be enabled: %s\n", fi_strerror(-error));
      drop_queues();
      return error;
    }
    enabled_ = true;
    receive_cq_->drive(this);
    if (send_cq_ != receive_cq_) send_cq_->drive(this);
  }
  start_counters();
  return 0;
}

// What was sent without a record may still wait for room at its receiver. Other threads may use
// the domain meanwhile.
void RdmEndpoint::flush() {
  const Deadline deadline(kFlushMs);
  bool flushed = false;
  while (!flushed && !deadline.is_over()) {
    {
      std::lock_guard lock(domain_->lock());
      progress_all();
      flushed = flush_all();
    }
    sched_yield();
  }
}

// True: nothing waits any more.
bool RdmEndpoint::flush_all() {
  bool flushed = true;
  for (Peer& peer : peers_.all()) flushed = settle(&peer) && flushed;
  return flushed;
}

// Ends what leads to the peer, and its lane.
void RdmEndpoint::drop_ways(Peer* peer) {
  if (peer->queue != nullptr) urma_delete_jfs(peer->queue);
  for (urma_target_jetty_t* target : {peer->target, peer->out.target})
    if (target != nullptr) urma_unimport_jetty(target);
  if (peer->in.queue != nullptr) urma_delete_jfr(peer->in.queue);
  peer->queue = nullptr;
  peer->target = peer->out.target = nullptr;
  peer->in.queue = nullptr;
  peer->proven = false;
}

void RdmEndpoint::drop_queues() {
  if (jetty_ != nullptr) urma_delete_jetty(jetty_);
  for (Peer& peer : peers_.all()) {
    drop_ways(&peer);
    for (Receive* receive; (receive = peer.in.granted.pop_front()) != nullptr;)
      unregister(&receive->registered);
  }
  for (Send& send : sends_.all()) unregister(&send.registered);
  if (jfr_ != nullptr) urma_delete_jfr(jfr_);
  for (urma_jfc_t* jfc : {arrivals_, records_})
    if (jfc != nullptr) urma_delete_jfc(jfc);
  jetty_ = nullptr;
  jfr_ = nullptr;
  arrivals_ = records_ = nullptr;
  buffers_.drop();
}

int RdmEndpoint::control(fid_t head, int command, void* argument) {
  RdmEndpoint* self = object_of<RdmEndpoint, fid_ep>(head);
  switch (command) {
    case FI_ENABLE:
      return self->enable();
    case FI_GETOPSFLAG: {
      auto* flags = static_cast<uint64_t*>(argument);
      *flags = (*flags & FI_TRANSMIT) != 0 ? self->info_->tx_attr->op_flags
                                           : self->info_->rx_attr->op_flags;
      return 0;
    }
    default:
      return -FI_ENOSYS;
  }
}

int RdmEndpoint::get_name(fid_t head, void* room, size_t* size) {
  const RdmEndpoint* self = object_of<RdmEndpoint, fid_ep>(head);
  if (!self->enabled_) return -FI_EOPBADSTATE;
  const Address here = {self->jetty_->jetty_id.eid, self->jetty_->jetty_id.id};
  return give_address(self->info_->addr_format, here, room, size);
}

void RdmEndpoint::on_insert(fi_addr_t number, const Address& address) {
  Peer* peer = peers_.at(address.eid, address.id);
  if (peer->number == FI_ADDR_NOTAVAIL) peer->number = number;
  peer->proven = false;
  if (peers_by_number_.size() <= number) peers_by_number_.resize(number + 1);
  peers_by_number_[number] = peer;
}

void RdmEndpoint::on_remove(fi_addr_t number) {
  Peer* peer = peers_by_number_[number];
  peers_by_number_[number] = nullptr;
  if (peer->number != number) return;
  // It may have been inserted more than once.
  const auto other = std::find(peers_by_number_.begin(), peers_by_number_.end(), peer);
  peer->number = other == peers_by_number_.end()
                     ? FI_ADDR_NOTAVAIL
                     : static_cast<fi_addr_t>(other - peers_by_number_.begin());
}

void RdmEndpoint::take(const urma_cr_t& record) {
  if (record.status == URMA_CR_WR_FLUSH_ERR_DONE || record.status == URMA_CR_WR_SUSPEND_DONE)
    return;
  const uint64_t object = record.user_ctx & ~uint64_t{kOwnerMask};
  switch (record.user_ctx & kOwnerMask) {
    case kBounce:
      return take_bounce(record);
    case kLane:
      return take_lane(reinterpret_cast<Receive*>(object), record);
    case kSend:
      return take_sent(reinterpret_cast<Send*>(object), record);
    case kProbe:
      return take_probed(reinterpret_cast<Peer*>(object), record);
    default:
      return lose(reinterpret_cast<Peer*>(object), record.status);
  }
}

int RdmEndpoint::take_from(urma_jfc_t* jfc) {
  urma_cr_t records[kBatch];
  const int count = urma_poll_jfc(jfc, kBatch, records);
  for (int i = 0; i < count; i++) take(records[i]);
  return count;
}

// What has arrived comes first: it may be for receives that the failure of a send would end.
void RdmEndpoint::progress_all() {
  progress();
  take_from(records_);
}

void RdmEndpoint::progress() {
  const bool idle = take_from(arrivals_) <= 0;
  if (expected_ != 0 || !delayed_.empty() || ++polls_ % kPollsPerSweep == 0) take_from(records_);
  if (!delayed_.empty()) send_delayed();
  if (idle && ++idle_ % kPollsPerLook == 0) look_after_peers();
}

void RdmEndpoint::look_after_peers() {
  const Clock::time_point now = Clock::now();
  if (now - looked_after_ < kLookAfter) return;
  looked_after_ = now;
  for (Peer& peer : peers_.all()) {
    if (peer.awaited > 0) {
      if (!peer.probed) probe(&peer);
    } else if (peer.removed() && peer.queue != nullptr && settle(&peer)) {
      drop_ways(&peer);
    }
  }
}

bool RdmEndpoint::watches_peers() const {
  const std::deque<Peer>& peers = peers_.all();
  return std::any_of(peers.begin(), peers.end(), [](const Peer& peer) {
    return peer.awaited > 0 ||
           (peer.removed() && peer.queue != nullptr && peer.delayed_grants.empty());
  });
}

bool RdmEndpoint::prepare_to_sleep() {
  for (urma_jfc_t* jfc : {arrivals_, records_}) urma_rearm_jfc(jfc, false);
  look_after_peers();
  progress_all();
  // Room in a send queue raises no event.
  return delayed_.empty();
}

}  // namespace urma_fi
