// SPDX-License-Identifier: MIT
//
// Which peers a process trusts over TCP, and how: the secret and TLS, from the settings. An error
// in either is not ignored: the device does not exist then.
#ifndef URMA_PROVIDERS_TCP_TRUST_H_
#define URMA_PROVIDERS_TCP_TRUST_H_

#include <memory>
#include <string>

#include "urma/base/settings.h"
#include "urma/providers/tcp/carrier.h"
#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/tls.h"

namespace urma::tcp {

// NULL if no file is set.
std::shared_ptr<const Secret> read_secret(const std::string& path);
std::shared_ptr<const Secret> make_secret(const std::string& bytes);

// As URMA_TCP_TLS says; NULL: off.
std::shared_ptr<const Tls> read_tls(const std::string& setting, const Secret* secret);

// Both, from the settings. All throw Error on failure.
void read_trust(const Settings& settings, CarrierConfig* config);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_TRUST_H_
