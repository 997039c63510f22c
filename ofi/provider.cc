/* SPDX-License-Identifier: MIT */

// The entry point that libfabric looks up in liburma-fi.so.

#include <rdma/providers/fi_prov.h>

#include "ofi/device.h"
#include "ofi/fabric.h"
#include "ofi/info.h"
#include "ofi/log.h"
#include "ofi/settings.h"

namespace urma_fi {

fi_provider provider = {
    FI_VERSION(1, 0),
    FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    {},
    "urma",
    get_info,
    Fabric::open,
    end_library,
};

}  // namespace urma_fi

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  [[maybe_unused]] static const bool defined = (urma_fi::define_settings(), true);
  return &urma_fi::provider;
}
