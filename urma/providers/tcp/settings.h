// SPDX-License-Identifier: MIT
//
// What the settings say of the network.
#ifndef URMA_PROVIDERS_TCP_SETTINGS_H_
#define URMA_PROVIDERS_TCP_SETTINGS_H_

#include <cstdint>
#include <span>

#include "jetty/port_names.h"
#include "urma/base/settings.h"
#include "urma/providers/tcp/carrier.h"
#include "urma_types.h"

namespace urma::tcp {

// These throw Error for a setting that makes no sense.
PortRange port_range(const Settings& settings);
uint64_t timeout_ms(const Settings& settings);
// Of a process with these addresses.
CarrierConfig carrier_config(const Settings& settings, std::span<const urma_eid_t> addresses,
                             const PortRange& ports);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_SETTINGS_H_
