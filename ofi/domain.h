/* SPDX-License-Identifier: MIT */

#ifndef OFI_DOMAIN_H
#define OFI_DOMAIN_H

#include <rdma/fi_domain.h>

#include <memory>

#include "ofi/device.h"
#include "ofi/fid.h"

namespace urma_fi {

class Fabric;

class Domain final : public fid_domain {
 public:
  static int open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);

  const std::shared_ptr<Device>& device() const { return device_; }

  Needed users;

 private:
  explicit Domain(Fabric* fabric) : fabric_(fabric) {}
  static int close(fid_t head);

  static fi_ops fid_ops_;
  static fi_ops_domain domain_ops_;

  Fabric* fabric_;
  std::shared_ptr<Device> device_;
};

}  // namespace urma_fi

#endif  // OFI_DOMAIN_H
