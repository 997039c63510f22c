/* SPDX-License-Identifier: MIT */

// What libfabric looks up in liburma-fi.so.

#include <rdma/providers/fi_prov.h>

#include "ofi/device.h"
#include "ofi/fabric.h"
#include "ofi/info.h"
#include "ofi/log.h"

namespace urma_fi {

fi_provider provider = {
    FI_VERSION(1, 0), FI_VERSION(1, 17), {}, "urma", get_info, Fabric::open, end_library,
};

}  // namespace urma_fi

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  return &urma_fi::provider;
}
