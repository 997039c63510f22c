/* SPDX-License-Identifier: MIT */

#ifndef OFI_FABRIC_H
#define OFI_FABRIC_H

#include <rdma/fabric.h>

#include "ofi/fid.h"

namespace urma_fi {

class Fabric final : public fid_fabric {
 public:
  // fi_provider.fabric.
  static int open(fi_fabric_attr* attr, fid_fabric** fabric, void* context);

  Needed users;

 private:
  static int close(fid_t head);
  static int try_wait(fid_fabric* fabric, fid_t* fids, int count);

  static fi_ops fid_ops_;
  static fi_ops_fabric fabric_ops_;
};

}  // namespace urma_fi

#endif  // OFI_FABRIC_H
