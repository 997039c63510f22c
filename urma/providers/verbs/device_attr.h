// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_DEVICE_ATTR_H_
#define URMA_PROVIDERS_VERBS_DEVICE_ATTR_H_

#include "urma/providers/verbs/device.h"
#include "urma_ext.h"

namespace urma::verbs {

// What urma_query_device says of it: from its limits, port_attr, link_layer, port, max_inline and
// eids.
urma_device_attr_t describe_device(const DeviceInfo& info);

urma_port_state_t state_of(ibv_port_state state);

// What urma_ext_query_device tells of it.
urma_ext_device_t describe_further(const DeviceInfo& info);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_DEVICE_ATTR_H_
