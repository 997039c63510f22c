// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/address.h"

#include <cstring>

namespace urma::tcp {

SocketAddress::SocketAddress(const Address& address) {
  if (is_ipv4(address.eid)) {
    auto* ipv4 = reinterpret_cast<sockaddr_in*>(&any_);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(address.port);
    std::memcpy(&ipv4->sin_addr, &address.eid.in4.addr, sizeof(in_addr));
  } else {
    auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&any_);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(address.port);
    std::memcpy(&ipv6->sin6_addr, address.eid.raw, sizeof(in6_addr));
  }
}

Address SocketAddress::address() const {
  Address address = {};
  if (any_.ss_family == AF_INET) {
    const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(&any_);
    address = {mapped(ipv4->sin_addr), ntohs(ipv4->sin_port)};
  } else {
    const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&any_);
    std::memcpy(address.eid.raw, &ipv6->sin6_addr, sizeof(in6_addr));
    address.port = ntohs(ipv6->sin6_port);
  }
  return address;
}

Address SocketAddress::local_of(int fd) {
  SocketAddress found;
  socklen_t size = sizeof(found.any_);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&found.any_), &size);
  return found.address();
}

Address SocketAddress::peer_of(int fd) {
  SocketAddress found;
  socklen_t size = sizeof(found.any_);
  ::getpeername(fd, reinterpret_cast<sockaddr*>(&found.any_), &size);
  return found.address();
}

}  // namespace urma::tcp
