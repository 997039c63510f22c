// SPDX-License-Identifier: MIT
//
// EIDs as IP addresses.
#ifndef URMA_PROVIDERS_TCP_ADDRESS_H_
#define URMA_PROVIDERS_TCP_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "urma/base/ip.h"

namespace urma::tcp {

inline auto bytes_of(const urma_eid_t& eid) {
  std::array<uint8_t, sizeof(urma_eid_t)> bytes;
  std::memcpy(bytes.data(), &eid, bytes.size());
  return bytes;
}

// Where a process listens. An EID is an IPv6 address, that of IPv4 as ::ffff:a.b.c.d.
struct Address {
  urma_eid_t eid;
  uint16_t port;

  friend auto operator<=>(const Address& a, const Address& b) {
    return std::pair(bytes_of(a.eid), a.port) <=> std::pair(bytes_of(b.eid), b.port);
  }
  friend bool operator==(const Address& a, const Address& b) { return std::is_eq(a <=> b); }
};

using urma::text_of;
inline std::string text_of(const Address& address) {
  return text_of(address.eid.raw, address.port);
}

// In the kernel's form: IPv4 as such, so that it works without IPv6.
class SocketAddress {
 public:
  explicit SocketAddress(const Address& address);
  static Address local_of(int fd) { return of(fd, ::getsockname); }
  // All zero if it is not connected any more.
  static Address peer_of(int fd) { return of(fd, ::getpeername); }

  int family() const { return any_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&any_); }
  socklen_t size() const {
    return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }

 private:
  SocketAddress() = default;
  static Address of(int fd, decltype(::getsockname)* ask);
  Address address() const;

  sockaddr_storage any_ = {};
};

// Where to look for processes whose EID is one of a runtime directory, since they have no other
// address: on this host, by the kind of address that it has.
urma_eid_t loopback_beside(std::span<const urma_eid_t> own);
// The own address to reach the given one from: the one that the routes of this host choose, if it
// is among them.
urma_eid_t source_for(std::span<const urma_eid_t> own, const urma_eid_t& to);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_ADDRESS_H_
