// SPDX-License-Identifier: MIT
//
// The interfaces of the host and their addresses, as the kernel lists them.
#ifndef URMA_PROVIDERS_TCP_HOST_NETWORK_H_
#define URMA_PROVIDERS_TCP_HOST_NETWORK_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "urma/base/fd.h"
#include "urma_types.h"

namespace urma::tcp {

struct HostAddress {
  urma_eid_t eid;
  std::string interface;
};

struct HostInterface {
  bool up;       // somebody has switched it on
  bool running;  // and its link is there
};

struct HostNetwork {
  std::vector<HostAddress> addresses;  // those that mean the same on every link; IPv4 first
  std::map<std::string, HostInterface> interfaces;

  bool has(const urma_eid_t& eid) const;
  bool running(const std::string& interface) const;
};

// Throws Error.
HostNetwork read_host_network();

// Of interfaces that are up, those that URMA_TCP_DEVICES names, as it is ordered: names or
// addresses, separated by commas; all where it is empty. Loopback addresses come last. What names
// nothing is logged.
std::vector<HostAddress> choose_addresses(const HostNetwork& network, std::string_view devices);

urma_port_attr_t port_attr(const std::string& interface, bool running);

// Readable when something has changed, until read.
class NetworkNews {
 public:
  NetworkNews();  // throws Error
  int fd() const { return fd_.get(); }
  void read();

 private:
  Fd fd_;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_HOST_NETWORK_H_
