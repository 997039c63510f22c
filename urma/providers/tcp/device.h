// SPDX-License-Identifier: MIT
//
// The device: the host's network, with an EID for each address and a port for each interface.
#ifndef URMA_PROVIDERS_TCP_DEVICE_H_
#define URMA_PROVIDERS_TCP_DEVICE_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jetty/eid_table.h"
#include "urma/base/host.h"
#include "urma/providers/tcp/host_network.h"

namespace urma::tcp {

inline constexpr char kDeviceName[] = "urma_net0";
inline constexpr uint32_t kMaxTransfer = 1U << 31;

class Device {
 public:
  // Whether the process can be reached at a new address: it becomes an EID then.
  using Appeared = std::function<bool(const urma_eid_t&)>;
  // PORT_ACTIVE, PORT_DOWN or EID_CHANGE, and the number of the port or EID.
  using Changed = std::function<void(urma_async_event_type_t, uint32_t)>;

  // The addresses that URMA_TCP_DEVICES selects; without EIDs if it says none, or if it is empty
  // and the host has no address. Throws Error if nothing matches it, or a name in it is empty.
  //
  // `name` is that of a device whose ports from `first_port` on are these.
  explicit Device(std::string_view chosen, const char* name = kDeviceName, uint32_t first_port = 0);
  ~Device() { unwatch(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Those found at the start, then those that have come since watch(). Any thread.
  std::span<const urma_eid_t> eids() const { return eids_.all(); }
  const EidTable& table() const { return eids_; }
  // As found at the start.
  const urma_device_attr_t& attr() const { return attr_; }

  // Reports the current state of the ports to the registry, and later changes to both. Only the
  // first call counts; both outlive it, or its unwatch(). Any thread.
  void watch(Service* service, Registry* registry, const Appeared& appeared,
             const Changed& changed);
  void unwatch();

 private:
  void look_until_it_succeeds();
  void look();
  void look_for_more(const HostNetwork& network);
  void eid_changed(uint32_t index, const char* how);
  void port_changed(uint32_t port, bool running);

  const std::string chosen_;
  const char* const name_;
  const uint32_t first_port_;
  EidTable eids_;
  std::vector<std::string> ports_;  // interfaces
  urma_device_attr_t attr_ = {};

  // For the service thread only, from the first watch() on.
  Service* service_ = nullptr;
  Registry* registry_ = nullptr;
  Appeared appeared_;
  Changed changed_;
  std::optional<NetworkNews> news_;
  std::optional<Service::TimerId> again_;  // a look, until one succeeds
  std::vector<bool> has_eid_;
  std::vector<bool> running_;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_DEVICE_H_
