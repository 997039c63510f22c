// SPDX-License-Identifier: MIT
//
// RDMA devices: which exist, what each can do, and one that is open.
#ifndef URMA_PROVIDERS_VERBS_DEVICE_H_
#define URMA_PROVIDERS_VERBS_DEVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "urma/base/service.h"
#include "urma/providers/verbs/api.h"
#include "urma/providers/verbs/handles.h"
#include "urma_ext.h"
#include "urma_types.h"

namespace urma::verbs {

// One address of a port. The index in DeviceInfo::eids is the eid_index.
struct PortAddress {
  urma_eid_t eid;      // the GID; for iWARP an IP address of its interface
  uint32_t gid_index;  // what sgid_index takes
  uint32_t netdev;     // index of its network interface, 0: none; the scope of a link-local address
};

enum class LinkLayer { kRoce, kInfiniband, kIwarp };
const char* link_text(LinkLayer link_layer);

// Limits and abilities of one port of one RDMA device. Besides the attributes:
struct DeviceInfo {
  std::string name;  // of the URMA device: urma_<ibdev>, or urma_<ibdev>_<port> beyond port 1
  std::string ibdev;
  uint8_t port;
  LinkLayer link_layer;
  urma_device_attr_t attr;
  std::vector<PortAddress> eids;  // RoCE v2 by IP first, link-local last
  ibv_device_attr_ex limits;
  ibv_port_attr port_attr;
  uint32_t max_inline;  // bytes that our queue pairs get
  bool has_dmabuf;

  bool iwarp() const { return link_layer == LinkLayer::kIwarp; }
  // siw, by its vendor's number. It sends in the kernel, on the poster's thread.
  bool soft_iwarp() const { return iwarp() && limits.orig_attr.vendor_id == 0x626d74; }
  bool has_immediates() const { return !iwarp(); }
  bool has_solicited() const { return !iwarp(); }
  bool has_datagrams() const { return !iwarp(); }
  bool has_atomics() const { return attr.dev_cap.max_cas_size != 0; }
  bool has_on_demand() const { return attr.dev_cap.feature.bs.non_pin != 0; }
};

// The usable ports. If there are none, *why says so in one line for urma_admin; it also names the
// first one left out. Never throws; logs at level INFO and below only.
std::vector<DeviceInfo> find_devices(const Api& api, std::string* why);

// The current addresses of a port, the best first. Empty if the port has none, or the device does
// not answer.
std::vector<PortAddress> read_addresses(const Api& api, ibv_context* context, uint8_t port,
                                        LinkLayer link_layer);

// What urma_query_device says of it: from its limits, port_attr, link_layer, port, max_inline and
// eids.
urma_device_attr_t describe_device(const DeviceInfo& info);
urma_port_state_t state_of(ibv_port_state state);
// What urma_ext_query_device tells of it.
urma_ext_device_t describe_further(const DeviceInfo& info);

// Throws Error for what a device has refused with this errno number: with the status of the
// contract, and a text that says what to do.
[[noreturn]] void fail_device(const DeviceInfo& info, const std::string& doing, int error);
// "65536 bytes", or "unlimited": how much memory this process may lock.
std::string locked_limit();

// Hears events of a port or a device. On the service thread.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  virtual void port_changed(bool active) = 0;
  // The GID table changed: Device::addresses() has the new one.
  virtual void addresses_changed() = 0;
  virtual void device_failed() = 0;
};

// Hears events of one queue. The cq_context, qp_context and srq_context of everything made on a
// Device point to one of these (cast to this very class), or are NULL. On the service thread. The
// destroy verb of the queue waits until the call has returned, so the listener has to live only
// until then, and must not destroy the queue itself: it posts that.
class QueueListener {
 public:
  virtual ~QueueListener() = default;
  virtual void queue_event(ibv_event_type type) = 0;
};

// One port, open. Its events are read on the service thread.
class Device {
 public:
  // Throws Error if it cannot be opened.
  Device(const Api* api, Service* service, const DeviceInfo& info);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // Destroyed after everything made on it.
  ~Device();

  const Api& api() const { return *api_; }
  Service& service() const { return *service_; }
  const DeviceInfo& info() const { return info_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  uint8_t port() const { return info_.port; }

  // The current state of that EID; none if it is gone.
  std::optional<PortAddress> find_address(const urma_eid_t& eid) const;
  // The current table, in the order of DeviceInfo::eids.
  std::vector<PortAddress> addresses() const;

  // From any thread. The listener is not called after remove_listener() returns.
  void add_listener(DeviceListener* listener);
  void remove_listener(DeviceListener* listener);
  // Service thread: no listener is called any more.
  void stop_events();

 private:
  void read_events();
  void dispatch(const ibv_async_event& event);
  template <typename Call>
  void tell(Call call);

  const Api* const api_;
  Service* const service_;
  const DeviceInfo info_;
  ContextHandle context_;
  PdHandle pd_;
  bool watched_ = false;                    // the service thread's
  std::vector<DeviceListener*> listeners_;  // the service thread's
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_DEVICE_H_
