/* SPDX-License-Identifier: MIT */

#include "ofi/endpoint.h"

#include <rdma/fi_tagged.h>

#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/domain.h"
#include "ofi/eq.h"
#include "ofi/info.h"
#include "ofi/log.h"

namespace urma_fi {

fi_ops Endpoint::fid_ops_ = {sizeof(fi_ops), Endpoint::close, Endpoint::bind, Endpoint::control,
                             refuse,         refuse,          refuse};
fi_ops_ep Endpoint::ep_ops_ = {
    sizeof(fi_ops_ep),  refuse, get_option, refuse, refuse, refuse, Endpoint::receive_room,
    Endpoint::send_room};
fi_ops_tagged Endpoint::tagged_ops_ = {
    sizeof(fi_ops_tagged), refuse, refuse, refuse, refuse, refuse, refuse, refuse, refuse, refuse};

int Endpoint::open(fid_domain* domain, fi_info* info, fid_ep** ep, void* context) {
  std::unique_ptr<Endpoint> made(new Endpoint(static_cast<Domain*>(domain)));
  made->fid = {FI_CLASS_EP, context, &fid_ops_};
  made->ops = &ep_ops_;
  made->cm = &cm_ops_;
  made->msg = &msg_ops_;
  made->rma = &rma_ops_;
  made->tagged = &tagged_ops_;
  made->atomic = &atomic_ops_;
  made->collective = nullptr;
  made->device_ = made->domain_->device();
  made->info_ = fi_dupinfo(info);
  if (made->info_ == nullptr) return -FI_ENOMEM;
  made->request_ = find_request(info->handle);
  made->domain_->users.take();
  *ep = made.release();
  return 0;
}

Endpoint::~Endpoint() { fi_freeinfo(info_); }

int Endpoint::close(fid_t head) {
  Endpoint* endpoint = object_of<Endpoint, fid_ep>(head);
  endpoint->turn_away();
  if (endpoint->number != 0) {
    endpoint->say_goodbye();
    // A destroyed queue drops its records, but its peer was told that its messages had arrived.
    endpoint->drain();
  }
  endpoint->drop_queues();
  // Another thread may still process records that it took before the queues were destroyed.
  if (endpoint->number != 0) endpoint->drain();
  endpoint->drop_bound_queues();
  if (endpoint->eq_ != nullptr) endpoint->eq_->users.drop();
  endpoint->domain_->users.drop();
  delete endpoint;
  return 0;
}

int Endpoint::bind(fid_t head, fid_t other, uint64_t flags) {
  Endpoint* endpoint = object_of<Endpoint, fid_ep>(head);
  if (endpoint->number != 0) return -FI_EOPBADSTATE;
  switch (other->fclass) {
    case FI_CLASS_CQ:
      return endpoint->bind_queue(object_of<Cq, fid_cq>(other), flags);
    case FI_CLASS_CNTR:
      return endpoint->bind_counter(object_of<Cntr, fid_cntr>(other), flags,
                                    FI_SEND | FI_RECV | FI_READ | FI_WRITE);
    case FI_CLASS_EQ:
      if (endpoint->eq_ != nullptr) return -FI_EINVAL;
      endpoint->eq_ = object_of<Eq, fid_eq>(other);
      endpoint->eq_->users.take();
      return 0;
    default:
      return -FI_EINVAL;
  }
}

int Endpoint::make_queues() {
  urma_jfr_cfg_t jfr{};
  jfr.depth = static_cast<uint32_t>(info_->rx_attr->size);
  jfr.trans_mode = URMA_TM_RC;
  jfr.max_sge = static_cast<uint8_t>(info_->rx_attr->iov_limit);
  jfr.jfc = receive_cq_->jfc();
  if ((jfr_ = urma_create_jfr(device_->context(), &jfr)) == nullptr) return error_of_errno();
  urma_jetty_cfg_t cfg{};
  cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
  cfg.shared.jfr = jfr_;
  cfg.user_ctx = reinterpret_cast<uintptr_t>(static_cast<JettyOwner*>(this));
  cfg.jfs_cfg.depth = static_cast<uint32_t>(info_->tx_attr->size);
  cfg.jfs_cfg.trans_mode = URMA_TM_RC;
  cfg.jfs_cfg.max_sge = static_cast<uint8_t>(info_->tx_attr->iov_limit);
  cfg.jfs_cfg.max_rsge = 1;
  cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfs_cfg.jfc = send_cq_->jfc();
  if ((jetty_ = urma_create_jetty(device_->context(), &cfg)) == nullptr) return error_of_errno();
  sends_.make(info_->tx_attr->size);
  receives_.make(info_->rx_attr->size);
  return (info_->caps & FI_ATOMIC) != 0 ? register_results() : 0;
}

int Endpoint::register_results() {
  urma_seg_cfg_t cfg{};
  cfg.va = reinterpret_cast<uintptr_t>(sends_.all().data());
  cfg.len = sends_.all().size_bytes();
  cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  results_ = urma_register_seg(device_->context(), &cfg);
  return results_ == nullptr ? error_of_errno() : 0;
}

void Endpoint::drain() {
  for (Cq* cq : {receive_cq_, send_cq_}) cq->drain();
}

void Endpoint::drop_queues() {
  if (bound_.exchange(false)) urma_unbind_jetty(jetty_);
  const urma_status_t jetty = jetty_ == nullptr ? URMA_SUCCESS : urma_delete_jetty(jetty_);
  const urma_status_t jfr = jfr_ == nullptr ? URMA_SUCCESS : urma_delete_jfr(jfr_);
  if (jetty != URMA_SUCCESS || jfr != URMA_SUCCESS)
    URMA_FI_WARN(FI_LOG_EP_CTRL,
                 "queues of an endpoint were not deleted: status %d of its jetty, %d of its jfr\n",
                 jetty, jfr);
  jetty_ = nullptr;
  jfr_ = nullptr;
  drop_imports();
  if (results_ != nullptr) urma_unregister_seg(results_);
  results_ = nullptr;
  part();
}

int Endpoint::enable() {
  if (number != 0) return 0;
  if (eq_ == nullptr) return -FI_ENOEQ;
  if (send_cq_ == nullptr || receive_cq_ == nullptr) return -FI_ENOCQ;
  int error = make_queues();
  const uint64_t given = error == 0 ? eq_->enroll(this, device_, &error) : 0;
  if (given == 0) {
    URMA_FI_WARN(FI_LOG_EP_CTRL, "endpoint cannot be enabled: %s\n", fi_strerror(-error));
    drop_queues();
    sends_.clear();
    receives_.clear();
    may_turn_away_ = false;
    return error;
  }
  number = given;
  start_counters();
  return 0;
}

int Endpoint::control(fid_t head, int command, void* argument) {
  Endpoint* endpoint = object_of<Endpoint, fid_ep>(head);
  switch (command) {
    case FI_ENABLE:
      return endpoint->enable();
    case FI_GETOPSFLAG: {
      auto* flags = static_cast<uint64_t*>(argument);
      *flags = (*flags & FI_TRANSMIT) != 0 ? endpoint->info_->tx_attr->op_flags
                                           : endpoint->info_->rx_attr->op_flags;
      return 0;
    }
    default:
      return -FI_ENOSYS;
  }
}

ssize_t Endpoint::send_room(fid_ep* ep) { return static_cast<ssize_t>(of(ep)->sends_.free()); }

ssize_t Endpoint::receive_room(fid_ep* ep) {
  return static_cast<ssize_t>(of(ep)->receives_.free());
}

}  // namespace urma_fi
