/* SPDX-License-Identifier: MIT */

#include "ofi/fabric.h"

#include "ofi/cq.h"
#include "ofi/domain.h"
#include "ofi/eq.h"
#include "ofi/passive.h"

namespace urma_fi {

fi_ops Fabric::fid_ops_ = {sizeof(fi_ops), Fabric::close, refuse, refuse, refuse, refuse, refuse};
fi_ops_fabric Fabric::fabric_ops_ = {
    sizeof(fi_ops_fabric), Domain::open, Passive::open, Eq::open, refuse, Fabric::try_wait, refuse};

int Fabric::open(fi_fabric_attr*, fid_fabric** fabric, void* context) {
  auto* made = new Fabric;
  made->fid = {FI_CLASS_FABRIC, context, &fid_ops_};
  made->ops = &fabric_ops_;
  *fabric = made;
  return 0;
}

int Fabric::close(fid_t head) {
  Fabric* fabric = object_of<Fabric, fid_fabric>(head);
  if (fabric->users.in_use()) return -FI_EBUSY;
  delete fabric;
  return 0;
}

int Fabric::try_wait(fid_fabric*, fid_t* fids, int count) {
  for (int i = 0; i < count; i++) {
    int error = -FI_EINVAL;
    if (fids[i]->fclass == FI_CLASS_CQ) error = object_of<Cq, fid_cq>(fids[i])->try_wait();
    if (fids[i]->fclass == FI_CLASS_EQ) error = object_of<Eq, fid_eq>(fids[i])->try_wait();
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace urma_fi
