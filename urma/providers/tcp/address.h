// SPDX-License-Identifier: MIT
//
// EIDs as IP addresses.
#ifndef URMA_PROVIDERS_TCP_ADDRESS_H_
#define URMA_PROVIDERS_TCP_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "urma/providers/tcp/carrier.h"

namespace urma::tcp {

bool is_ipv4(const urma_eid_t& eid);
// Of this machine only.
bool is_loopback(const urma_eid_t& eid);
// Valid on one link only, which an EID does not name.
bool is_link_local(const urma_eid_t& eid);
urma_eid_t mapped(const in_addr& ipv4);

std::string text_of(const urma_eid_t& eid);
std::string text_of(const Address& address);

// In the kernel's form: IPv4 as such, so that it works without IPv6.
class SocketAddress {
 public:
  explicit SocketAddress(const Address& address);
  static Address local_of(int fd);
  static Address peer_of(int fd);

  int family() const { return any_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&any_); }
  socklen_t size() const {
    return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }

 private:
  SocketAddress() = default;
  Address address() const;

  sockaddr_storage any_ = {};
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_ADDRESS_H_
