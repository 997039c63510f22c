// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_DEVICE_ADDRESSES_H_
#define URMA_PROVIDERS_VERBS_DEVICE_ADDRESSES_H_

#include <vector>

#include "urma/providers/verbs/device.h"

namespace urma::verbs {

// The addresses of a port as they are now, the best first. Empty where the port has none, or the
// device does not answer.
std::vector<PortAddress> read_addresses(const Api& api, ibv_context* context, uint8_t port,
                                        LinkLayer link_layer);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_DEVICE_ADDRESSES_H_
