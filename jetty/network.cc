// SPDX-License-Identifier: MIT
#include "jetty/network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/ip.h"

namespace urma {
namespace {

constexpr uint32_t kIpv4Bits = 32;
constexpr uint32_t kIpv6Bits = 128;
constexpr uint8_t kGroupBit = 1;  // of the first byte of a MAC address
constexpr uint8_t kLocalBit = 2;

}  // namespace

bool same_eid(const urma_eid_t& a, const urma_eid_t& b) {
  return std::memcmp(a.raw, b.raw, sizeof(a.raw)) == 0;
}

std::string hex_of(const urma_eid_t& eid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : eid.raw) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

// FNV-1a, folded to the width.
Mac mac_of(const urma_eid_t& eid) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t byte : eid.raw) hash = (hash ^ byte) * 0x100000001b3;
  hash ^= hash >> 48;
  Mac mac;
  for (uint8_t& byte : mac) {
    byte = static_cast<uint8_t>(hash);
    hash >>= 8;
  }
  mac[0] = static_cast<uint8_t>((mac[0] & ~kGroupBit) | kLocalBit);
  return mac;
}

urma_net_addr_t address_of(const urma_eid_t& eid) {
  if (is_zero(eid.raw))
    fail(URMA_EINVAL, "an EID of zeros has no address; pass the EID of a device");
  urma_net_addr_t address = {};
  if (is_ipv4(eid)) {
    address.sin_family = AF_INET;
    address.in4.s_addr = eid.in4.addr;
    address.prefix_len = kIpv4Bits;
  } else {
    address.sin_family = AF_INET6;
    std::memcpy(&address.in6, eid.raw, sizeof(address.in6));
    address.prefix_len = kIpv6Bits;
  }
  std::ranges::copy(mac_of(eid), address.mac);
  return address;
}

urma_eid_t eid_of(const urma_net_addr_t& address) {
  urma_eid_t eid = {};
  switch (address.sin_family) {
    case AF_INET:
      return mapped(address.in4);
    case AF_INET6:
      std::memcpy(eid.raw, &address.in6, sizeof(eid.raw));
      return eid;
    default:
      fail(URMA_EINVAL, "sin_family {} is not supported; use AF_INET ({}) or AF_INET6 ({})",
           address.sin_family, AF_INET, AF_INET6);
  }
}

}  // namespace urma
