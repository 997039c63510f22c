// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/address.h"

#include <arpa/inet.h>

#include <cstring>

#include "third_party/fmt/format.h"

namespace urma::tcp {
namespace {

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr uint8_t kLoopback[URMA_EID_SIZE] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

}  // namespace

bool Address::operator==(const Address& other) const {
  return port == other.port && std::memcmp(eid.raw, other.eid.raw, sizeof(eid.raw)) == 0;
}

bool is_ipv4(const urma_eid_t& eid) {
  return std::memcmp(eid.raw, kMappedPrefix, sizeof(kMappedPrefix)) == 0;
}

bool is_loopback(const urma_eid_t& eid) {
  if (is_ipv4(eid)) return eid.raw[sizeof(kMappedPrefix)] == 127;
  return std::memcmp(eid.raw, kLoopback, sizeof(kLoopback)) == 0;
}

bool is_link_local(const urma_eid_t& eid) {
  const uint8_t* ipv4 = eid.raw + sizeof(kMappedPrefix);
  if (is_ipv4(eid)) return ipv4[0] == 169 && ipv4[1] == 254;
  return eid.raw[0] == 0xfe && (eid.raw[1] & 0xc0) == 0x80;
}

urma_eid_t mapped(const in_addr& ipv4) {
  urma_eid_t eid;
  std::memcpy(eid.raw, kMappedPrefix, sizeof(kMappedPrefix));
  std::memcpy(eid.raw + sizeof(kMappedPrefix), &ipv4, sizeof(ipv4));
  return eid;
}

std::string text_of(const urma_eid_t& eid) {
  char text[INET6_ADDRSTRLEN];
  if (is_ipv4(eid)) {
    ::inet_ntop(AF_INET, eid.raw + sizeof(kMappedPrefix), text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, eid.raw, text, sizeof(text));
  }
  return text;
}

std::string text_of(const Address& address) {
  const std::string eid = text_of(address.eid);
  return is_ipv4(address.eid) ? urma::format("{}:{}", eid, address.port)
                              : urma::format("[{}]:{}", eid, address.port);
}

SocketAddress::SocketAddress(const Address& address) {
  if (is_ipv4(address.eid)) {
    auto* ipv4 = reinterpret_cast<sockaddr_in*>(&any_);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(address.port);
    std::memcpy(&ipv4->sin_addr, address.eid.raw + sizeof(kMappedPrefix), sizeof(in_addr));
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
