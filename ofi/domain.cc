/* SPDX-License-Identifier: MIT */

#include "ofi/domain.h"

#include <rdma/fi_errno.h>

#include "ofi/atomics.h"
#include "ofi/av.h"
#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/endpoint.h"
#include "ofi/fabric.h"
#include "ofi/info.h"
#include "ofi/log.h"
#include "ofi/mr.h"
#include "ofi/rdm_endpoint.h"

namespace urma_fi {

fi_ops Domain::fid_ops_ = {sizeof(fi_ops), Domain::close, refuse, refuse, refuse, refuse, refuse};
fi_ops_domain Domain::domain_ops_ = {sizeof(fi_ops_domain),
                                     Av::open,
                                     Cq::open,
                                     Domain::open_endpoint,
                                     refuse,
                                     Cntr::open,
                                     refuse,
                                     refuse,
                                     refuse,
                                     query_atomic,
                                     refuse,
                                     refuse};

int Domain::open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  std::unique_ptr<Domain> made(new Domain(static_cast<Fabric*>(fabric)));
  Address address;
  const int error = open_device(info, &made->device_, &address);
  if (error != 0) return error;
  made->fid = {FI_CLASS_DOMAIN, context, &fid_ops_};
  made->ops = &domain_ops_;
  made->mr = &Mr::ops;
  made->address_format_ = info->addr_format;
  made->lock_.set_needed(info->domain_attr->threading != FI_THREAD_DOMAIN);
  made->fabric_->users.take();
  *domain = made.release();
  return 0;
}

int Domain::open_endpoint(fid_domain* domain, fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || info->ep_attr == nullptr || info->tx_attr == nullptr ||
      info->rx_attr == nullptr) {
    return -FI_EINVAL;
  }
  switch (info->ep_attr->type) {
    case FI_EP_MSG:
      return Endpoint::open(domain, info, ep, context);
    case FI_EP_RDM:
      return RdmEndpoint::open(domain, info, ep, context);
    default:
      URMA_FI_WARN(FI_LOG_EP_CTRL, "endpoint type is neither FI_EP_MSG nor FI_EP_RDM\n");
      return -FI_EINVAL;
  }
}

int Domain::close(fid_t head) {
  Domain* domain = object_of<Domain, fid_domain>(head);
  if (domain->users.in_use()) return -FI_EBUSY;
  domain->fabric_->users.drop();
  delete domain;
  return 0;
}

}  // namespace urma_fi
