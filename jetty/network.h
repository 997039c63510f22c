// SPDX-License-Identifier: MIT
//
// Network addresses of a device that has no network: an EID is an IPv6 address, or an IPv4 address
// mapped into one, and a MAC address follows from it.
#ifndef JETTY_NETWORK_H_
#define JETTY_NETWORK_H_

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "urma_types.h"

namespace urma {

using Mac = std::array<uint8_t, URMA_MAC_BYTES>;

// Belongs to no real card: locally administered, and the same in every process.
Mac mac_of(const urma_eid_t& eid);

// Both throw Error(URMA_EINVAL) for an argument that is not an address.
urma_net_addr_t address_of(const urma_eid_t& eid);
urma_eid_t eid_of(const urma_net_addr_t& address);

bool same_eid(const urma_eid_t& a, const urma_eid_t& b);
// An EID as a key of maps.
using EidKey = std::array<uint64_t, sizeof(urma_eid_t) / sizeof(uint64_t)>;
inline EidKey key_of(const urma_eid_t& eid) { return std::bit_cast<EidKey>(eid); }
// All bytes, in hexadecimal.
std::string hex_of(const urma_eid_t& eid);

}  // namespace urma

#endif  // JETTY_NETWORK_H_
