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
  bool up;       // administratively up
  bool running;  // link present
};

struct HostNetwork {
  std::vector<HostAddress> addresses;  // those valid on every link; IPv4 first
  std::map<std::string, HostInterface> interfaces;

  bool has(const urma_eid_t& eid) const;
  bool running(const std::string& interface) const;
  // Whether its interface is up, and the address or the interface has this name; all have an empty
  // one.
  bool matches(const HostAddress& address, std::string_view name) const;
};

// Throws Error.
HostNetwork read_host_network();

// The interfaces that are up and that URMA_TCP_DEVICES selects, in its order: names or addresses,
// separated by commas; all if it is empty. Loopback addresses come last.
std::vector<HostAddress> choose_addresses(const HostNetwork& network, std::string_view devices);
// Throws Error if an entry among several is empty, which would stand for all interfaces. Logs those
// that match nothing.
void check_names(const HostNetwork& network, std::string_view devices);

urma_port_attr_t port_attr(const std::string& interface, bool running);

// Readable after a change, until read.
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
