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

// NULL where no file is named.
std::shared_ptr<const Secret> read_secret(const std::string& path);
std::shared_ptr<const Secret> make_secret(const std::string& bytes);

// As URMA_TCP_TLS says; NULL: off.
std::shared_ptr<const Tls> read_tls(const std::string& setting, const Secret* secret);

// Both, as the settings say. All throw Error where that cannot be.
void read_trust(const Settings& settings, CarrierConfig* config);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_TRUST_H_
