/* SPDX-License-Identifier: MIT */

#include "ofi/domain.h"

#include "ofi/atomics.h"
#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/endpoint.h"
#include "ofi/fabric.h"
#include "ofi/info.h"
#include "ofi/mr.h"

namespace urma_fi {

fi_ops Domain::fid_ops_ = {sizeof(fi_ops), Domain::close, refuse, refuse, refuse, refuse, refuse};
fi_ops_domain Domain::domain_ops_ = {sizeof(fi_ops_domain),
                                     refuse,
                                     Cq::open,
                                     Endpoint::open,
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
  made->fabric_->users.take();
  *domain = made.release();
  return 0;
}

int Domain::close(fid_t head) {
  Domain* domain = object_of<Domain, fid_domain>(head);
  if (domain->users.in_use()) return -FI_EBUSY;
  domain->fabric_->users.drop();
  delete domain;
  return 0;
}

}  // namespace urma_fi
