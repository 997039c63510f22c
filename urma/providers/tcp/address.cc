// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/address.h"

#include <algorithm>
#include <cstring>

#include "urma/base/fd.h"

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

Address SocketAddress::of(int fd, decltype(::getsockname)* ask) {
  SocketAddress found;
  socklen_t size = sizeof(found.any_);
  ask(fd, reinterpret_cast<sockaddr*>(&found.any_), &size);
  return found.address();
}

namespace {

// The address that packets to there leave from. All zero if there is no route.
urma_eid_t routed_source(const urma_eid_t& to) {
  constexpr uint16_t kAnyPort = 9;  // nothing is sent
  const SocketAddress there({to, kAnyPort});
  const Fd probe(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid() || ::connect(probe.get(), there.get(), there.size()) != 0) return {};
  return SocketAddress::local_of(probe.get()).eid;
}

}  // namespace

urma_eid_t loopback_beside(std::span<const urma_eid_t> own) {
  return loopback(
      std::any_of(own.begin(), own.end(), [](const urma_eid_t& eid) { return is_ipv4(eid); }));
}

urma_eid_t source_for(std::span<const urma_eid_t> own, const urma_eid_t& to) {
  const auto is_own = [&](const urma_eid_t& address) {
    return std::ranges::any_of(
        own, [&](const urma_eid_t& eid) { return bytes_of(eid) == bytes_of(address); });
  };
  const urma_eid_t routed = routed_source(to);
  if (is_own(routed)) return routed;
  if (is_own(to)) return to;
  // The first of those that fit best.
  return *std::ranges::max_element(own, {}, [&](const urma_eid_t& eid) {
    if (is_ipv4(eid) != is_ipv4(to)) return 0;
    return is_loopback(eid) == is_loopback(to) ? 2 : 1;
  });
}

}  // namespace urma::tcp
