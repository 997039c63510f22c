// SPDX-License-Identifier: MIT
//
// The kernel's TCP. Sockets never block, end with the process even if its children live on, and
// report a peer that owes an acknowledgement for too long.
#ifndef URMA_PROVIDERS_TCP_SOCKET_CARRIER_H_
#define URMA_PROVIDERS_TCP_SOCKET_CARRIER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "urma/providers/tcp/carrier.h"
#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/tls.h"

namespace urma::tcp {

struct CarrierConfig {
  std::vector<urma_eid_t> addresses;  // where it listens at first
  uint16_t first_port = 0;            // 0: any
  uint16_t last_port = 0;
  uint64_t timeout_ms = 1000;            // of a greeting, and of a missing acknowledgement
  std::shared_ptr<const Secret> secret;  // NULL: none
  std::shared_ptr<const Tls> tls;        // NULL: no encryption
};

// Throws Error if no port can be had.
std::unique_ptr<Carrier> make_socket_carrier(const CarrierConfig& config);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_SOCKET_CARRIER_H_
