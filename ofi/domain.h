/* SPDX-License-Identifier: MIT */

#ifndef OFI_DOMAIN_H
#define OFI_DOMAIN_H

#include <rdma/fi_domain.h>

#include <memory>

#include "ofi/device.h"
#include "ofi/fid.h"
#include "ofi/lock.h"

namespace urma_fi {

class Fabric;

class Domain final : public fid_domain {
 public:
  static int open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);

  const std::shared_ptr<Device>& device() const { return device_; }
  // Of addresses in address vectors.
  uint32_t address_format() const { return address_format_; }
  // Guards endpoints for datagrams, their address vectors and their completions.
  Lock& lock() { return lock_; }

  Needed users;

 private:
  explicit Domain(Fabric* fabric) : fabric_(fabric) {}
  static int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** ep, void* context);
  static int close(fid_t head);

  static fi_ops fid_ops_;
  static fi_ops_domain domain_ops_;

  Fabric* fabric_;
  std::shared_ptr<Device> device_;
  uint32_t address_format_ = FI_SOCKADDR_IN6;
  Lock lock_;
};

}  // namespace urma_fi

#endif  // OFI_DOMAIN_H
