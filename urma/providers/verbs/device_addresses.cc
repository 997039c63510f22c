// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/device_addresses.h"

#include <algorithm>
#include <cstring>

namespace urma::verbs {
namespace {

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_ipv4(const uint8_t* raw) {
  return std::memcmp(raw, kMappedPrefix, sizeof(kMappedPrefix)) == 0;
}

bool is_link_local(const uint8_t* raw) { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }

bool is_zero(const uint8_t* raw) {
  return std::all_of(raw, raw + URMA_EID_SIZE, [](uint8_t byte) { return byte == 0; });
}

// Of this machine only: iWARP's connections have no route to it.
bool is_loopback(const uint8_t* raw) {
  if (is_ipv4(raw)) return raw[12] == 127;
  return std::all_of(raw, raw + URMA_EID_SIZE - 1, [](uint8_t byte) { return byte == 0; }) &&
         raw[15] == 1;
}

// Smaller is better: what is reached from most places.
int rank(const PortAddress& address) {
  if (is_ipv4(address.eid.raw)) return 0;
  return is_link_local(address.eid.raw) ? 2 : 1;
}

void sort_and_limit(std::vector<PortAddress>* addresses) {
  std::stable_sort(addresses->begin(), addresses->end(),
                   [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (addresses->size() > URMA_MAX_EID_CNT) addresses->resize(URMA_MAX_EID_CNT);
}

PortAddress make_address(const uint8_t* raw, uint32_t gid_index, uint32_t netdev) {
  PortAddress address = {};
  std::memcpy(address.eid.raw, raw, URMA_EID_SIZE);
  address.gid_index = gid_index;
  address.netdev = netdev;
  return address;
}

std::vector<ibv_gid_entry> read_gids(const Api& api, ibv_context* context, uint8_t port) {
  std::vector<ibv_gid_entry> entries(URMA_MAX_EID_CNT);
  const ssize_t count = api.query_gid_table(context, entries.data(), entries.size());
  entries.resize(count > 0 ? static_cast<size_t>(count) : 0);
  std::erase_if(
      entries, [&](const auto& entry) { return entry.port_num != port || is_zero(entry.gid.raw); });
  return entries;
}

std::vector<PortAddress> of_type(const std::vector<ibv_gid_entry>& gids, uint32_t type) {
  std::vector<PortAddress> addresses;
  for (const auto& gid : gids) {
    if (gid.gid_type != type) continue;
    addresses.push_back(make_address(gid.gid.raw, gid.gid_index, gid.ndev_ifindex));
  }
  return addresses;
}

// The one GID of an iWARP port is the MAC of its interface, and its addresses are those that the
// interface has. Kernels before 6.4 do not tell which interface that is.
std::vector<PortAddress> iwarp_addresses(const Api& api, const std::vector<ibv_gid_entry>& gids) {
  std::vector<PortAddress> addresses;
  if (gids.empty()) return addresses;
  const auto& gid = gids.front();
  for (const auto& interface : api.interface_addresses()) {
    const bool same = gid.ndev_ifindex != 0
                          ? interface.ifindex == gid.ndev_ifindex
                          : std::memcmp(interface.mac, gid.gid.raw, sizeof(interface.mac)) == 0;
    if (!same || is_loopback(interface.ip)) continue;
    addresses.push_back(make_address(interface.ip, gid.gid_index, interface.ifindex));
  }
  return addresses;
}

}  // namespace

const char* link_text(LinkLayer link_layer) {
  switch (link_layer) {
    case LinkLayer::kRoce:
      return "RoCE";
    case LinkLayer::kInfiniband:
      return "InfiniBand";
    case LinkLayer::kIwarp:
      return "iWARP";
  }
  return "unknown";
}

std::vector<PortAddress> read_addresses(const Api& api, ibv_context* context, uint8_t port,
                                        LinkLayer link_layer) {
  const auto gids = read_gids(api, context, port);
  std::vector<PortAddress> addresses;
  switch (link_layer) {
    case LinkLayer::kIwarp:
      addresses = iwarp_addresses(api, gids);
      break;
    case LinkLayer::kInfiniband:
      // In the order of the device: all of them begin alike.
      return of_type(gids, IBV_GID_TYPE_IB);
    case LinkLayer::kRoce:
      addresses = of_type(gids, IBV_GID_TYPE_ROCE_V2);
      if (addresses.empty()) addresses = of_type(gids, IBV_GID_TYPE_ROCE_V1);
      break;
  }
  sort_and_limit(&addresses);
  return addresses;
}

}  // namespace urma::verbs
