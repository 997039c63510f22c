// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/host_network.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "jetty/device_limits.h"
#include "jetty/network.h"
#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/base/text.h"
#include "urma/providers/tcp/address.h"

namespace urma::tcp {
namespace {

// Assumed for links that do not report their speed, as most of virtual machines.
constexpr uint64_t kUsualMegabits = 10'000;
constexpr int kUsualMtu = 1500;

// False if it is not an address of an EID.
bool take_address(const sockaddr* address, urma_eid_t* eid) {
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET) {
    *eid = mapped(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(eid->raw, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr,
                sizeof(eid->raw));
  } else {
    return false;
  }
  return !is_link_local(*eid);
}

// Queries an interface; false if it does not answer.
bool ask(const std::string& interface, unsigned long what, ifreq* request) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  copy_text(request->ifr_name, interface);
  return ::ioctl(socket.get(), what, request) == 0;
}

uint64_t megabits_of(const std::string& interface) {
  ethtool_cmd settings = {};
  settings.cmd = ETHTOOL_GSET;
  ifreq request = {};
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (!ask(interface, SIOCETHTOOL, &request)) return kUsualMegabits;
  const uint32_t megabits = ethtool_cmd_speed(&settings);
  return megabits == 0 || megabits == static_cast<uint32_t>(SPEED_UNKNOWN) ? kUsualMegabits
                                                                           : megabits;
}

urma_mtu_t mtu_of(const std::string& interface) {
  ifreq request = {};
  const int bytes = ask(interface, SIOCGIFMTU, &request) ? request.ifr_mtu : kUsualMtu;
  int mtu = URMA_MTU_8192;
  while (mtu > URMA_MTU_256 && bytes < 128 << mtu) --mtu;
  return static_cast<urma_mtu_t>(mtu);
}

bool has_eid(const std::vector<HostAddress>& addresses, const urma_eid_t& eid) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const HostAddress& address) { return same_eid(address.eid, eid); });
}

}  // namespace

bool HostNetwork::has(const urma_eid_t& eid) const { return has_eid(addresses, eid); }

bool HostNetwork::running(const std::string& interface) const {
  const auto found = interfaces.find(interface);
  return found != interfaces.end() && found->second.running;
}

bool HostNetwork::matches(const HostAddress& address, std::string_view name) const {
  return interfaces.at(address.interface).up &&
         (name.empty() || address.interface == name || text_of(address.eid) == name);
}

HostNetwork read_host_network() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail_errno(URMA_FAIL, "listing the interfaces of the host");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  HostNetwork network;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0;
    network.interfaces[entry->ifa_name] = {up, up && (entry->ifa_flags & IFF_RUNNING) != 0};
    urma_eid_t eid;
    if (!take_address(entry->ifa_addr, &eid) || network.has(eid)) continue;
    network.addresses.push_back({eid, entry->ifa_name});
  }
  return network;
}

std::vector<HostAddress> choose_addresses(const HostNetwork& network, std::string_view devices) {
  std::vector<HostAddress> chosen;
  for (const std::string_view name : split_at_commas(devices)) {
    for (const HostAddress& address : network.addresses) {
      if (network.matches(address, name) && !has_eid(chosen, address.eid)) {
        chosen.push_back(address);
      }
    }
  }
  std::stable_partition(chosen.begin(), chosen.end(),
                        [](const HostAddress& address) { return !is_loopback(address.eid); });
  if (chosen.size() > URMA_MAX_EID_CNT) chosen.resize(URMA_MAX_EID_CNT);
  return chosen;
}

void check_names(const HostNetwork& network, std::string_view devices) {
  const auto names = split_at_commas(devices);
  if (names.size() > 1 && std::ranges::find(names, "") != names.end()) {
    fail(URMA_FAIL, "URMA_TCP_DEVICES={:.64}: a name between its commas is empty; leave it out",
         devices);
  }
  for (const std::string_view name : names) {
    const auto matches = [&](const HostAddress& address) { return network.matches(address, name); };
    if (name.empty() || std::ranges::any_of(network.addresses, matches)) continue;
    URMA_LOG(WARNING,
             "URMA_TCP_DEVICES: {:.64} is neither an interface that is up and has a global "
             "address, nor such an address",
             name);
  }
}

urma_port_attr_t port_attr(const std::string& interface, bool running) {
  const urma_mtu_t mtu = mtu_of(interface);
  return {mtu, running ? URMA_PORT_ACTIVE : URMA_PORT_DOWN, URMA_LINK_X1,
          speed_of(megabits_of(interface)), mtu};
}

NetworkNews::NetworkNews()
    : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd_.valid() ||
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail_errno(URMA_FAIL, "watching the host's addresses");
  }
}

// The contents do not matter: the state is queried anew. An overrun is an error reported once.
void NetworkNews::read() {
  std::array<char, 8192> message;
  while (::recv(fd_.get(), message.data(), message.size(), MSG_DONTWAIT) > 0 || errno == ENOBUFS) {
  }
}

}  // namespace urma::tcp
