// SPDX-License-Identifier: MIT
//
// Whom a process talks to over TCP, and how: the secret and TLS, as the settings name them. Nothing
// that is wrong with either is passed over: the device is not there then.
#ifndef URMA_PROVIDERS_TCP_TRUST_H_
#define URMA_PROVIDERS_TCP_TRUST_H_

#include <memory>
#include <string>

#include "urma/base/settings.h"
#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/socket_carrier.h"
#include "urma/providers/tcp/tls.h"

namespace urma::tcp {

// NULL where no file is named. The other functions: of a secret that is there, all of it.
std::shared_ptr<const Secret> read_secret(const std::string& path);
std::shared_ptr<const Secret> make_secret(const std::string& bytes);

// As URMA_TCP_TLS says; NULL: off.
std::shared_ptr<const Tls> read_tls(const std::string& setting, const Secret* secret);

// As the settings say. Throws Error where they cannot be followed.
CarrierConfig carrier_config(const Settings& settings, const std::vector<urma_eid_t>& addresses);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_TRUST_H_
