// SPDX-License-Identifier: MIT
//
// What the settings say of the network, and which peers a process trusts there, and how. An error
// in the secret or TLS is not ignored: the device does not exist then.
#ifndef URMA_PROVIDERS_TCP_SETTINGS_H_
#define URMA_PROVIDERS_TCP_SETTINGS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "jetty/port_names.h"
#include "urma/base/settings.h"
#include "urma/providers/tcp/carrier.h"
#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/tls.h"
#include "urma_types.h"

namespace urma::tcp {

// These throw Error for a setting that makes no sense.
PortRange port_range(const Settings& settings);
uint64_t timeout_ms(const Settings& settings);
// Of a process with these addresses.
CarrierConfig carrier_config(const Settings& settings, std::span<const urma_eid_t> addresses,
                             const PortRange& ports);

// Of what URMA_TCP_SECRET_FILE holds, and as URMA_TCP_TLS says; NULL: off. Both throw Error.
std::shared_ptr<const Secret> make_secret(const std::string& bytes);
std::shared_ptr<const Tls> read_tls(const std::string& setting, const Secret* secret);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_SETTINGS_H_
