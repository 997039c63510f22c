// SPDX-License-Identifier: MIT
//
// The bond provider as a module: a device whose processes meet by shared memory or by the network.
// It is loaded only where URMA_BOND asks for it.
#include <memory>

#include "jetty/device_limits.h"
#include "jetty/faulty.h"
#include "jetty/ops.h"
#include "jetty/software_device.h"
#include "urma/base/error.h"
#include "urma/base/host.h"
#include "urma/base/ip.h"
#include "urma/base/log.h"
#include "urma/base/provider_module.h"
#include "urma/providers/bond/ids.h"
#include "urma/providers/bond/sender.h"
#include "urma/providers/bond/transport.h"
#include "urma/providers/tcp/device.h"
#include "urma/providers/tcp/settings.h"
#include "urma/providers/tcp/wire.h"

namespace urma::bond {
namespace {

urma_ops_t context_ops;

// The port of shared memory, then those of the network.
constexpr uint32_t kNetworkPort = 1;

// Peers of this directory need none: the device exists all the same.
tcp::Device find_network() {
  try {
    return tcp::Device(host()->settings->text("URMA_TCP_DEVICES"), kDeviceName, kNetworkPort);
  } catch (const Error& error) {
    URMA_LOG(WARNING, "{} reaches only the processes of its runtime directory: {}", kDeviceName,
             error.what());
  }
  return tcp::Device("none", kDeviceName, kNetworkPort);
}

class Provider {
 public:
  static constexpr char kName[] = "bond";

  explicit Provider(urma_provider_ops_t* ops) {
    host()->registry->add_device(ops, device_.describe(attr_, {&eid_, 1}));
    context_ops = make_ops(kName);
    add_post_ops<Sender, NearPath, Receiver>(transport_.faults() != nullptr, &context_ops);
  }
  ~Provider() {
    network_.unwatch();
    transport_.stop();
  }
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  static bool has_devices() { return true; }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return attr_; }
  static size_t eids_of(const urma_device_t& /*dev*/) { return 1; }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    start();
    if (has_network()) watch_network();
    return device_.open(&context_ops, attr_, dev, eid_index);
  }
  static void close_context(Provider* provider, urma_context_t* ctx) {
    SoftwareDevice::close(provider == nullptr ? nullptr : &provider->device_, ctx);
  }

 private:
  bool has_network() const { return !network_.eids().empty(); }
  // Every host has the address of loopback: it names none.
  bool is_alone() const { return !has_network() || is_loopback(network_.eids().front()); }
  urma_eid_t own_eid() const {
    return is_alone() ? host()->runtime()->all_eids().back() : network_.eids().front();
  }
  urma_device_attr_t make_attr() const;
  void start();
  std::unique_ptr<tcp::Carrier> make_carrier();
  void watch_network();

  tcp::Device network_ = find_network();
  const urma_eid_t eid_ = own_eid();
  const EidTable eids_{eid_};
  const urma_device_attr_t attr_ = make_attr();
  const PortRange ports_ = tcp::port_range(*host()->settings);
  tcp::Wire wire_{eids_, network_.table(), ports_, host()->runtime()->nonce(),
                  tcp::timeout_ms(*host()->settings)};
  Ids ids_{host()->runtime(), eid_, has_network() ? &wire_.port_names() : nullptr};
  bool started_ = false;  // on the service thread
  Transport transport_{*host(), eid_, &wire_, &ids_};
  SoftwareDevice device_{kDeviceName, &transport_};
};

urma_device_attr_t Provider::make_attr() const {
  urma_device_attr_t attr = software_device(kDeviceName, 1);
  const urma_device_attr_t& far = network_.attr();
  for (uint32_t i = 0; i < far.port_cnt && attr.port_cnt < MAX_PORT_CNT; ++i) {
    attr.port_attr[attr.port_cnt++] = far.port_attr[i];
  }
  return attr;
}

// Peers can reach this process from now on.
void Provider::start() {
  if (has_network()) return wire_.open([this] { return make_carrier(); });
  host()->service->run([this] {
    if (started_) return;
    ids_.start(/*number=*/0);
    started_ = true;
  });
}

// Its port is the number of this process in the directory, too. A process that shares the directory
// and lives in another network may have it.
std::unique_ptr<tcp::Carrier> Provider::make_carrier() {
  tcp::CarrierConfig config = tcp::carrier_config(*host()->settings, network_.eids(), ports_);
  for (;;) {
    std::unique_ptr<tcp::Carrier> carrier = tcp::make_socket_carrier(config);
    if (ids_.start(carrier->port())) return carrier;
    if (carrier->port() >= config.last_port) {
      fail(URMA_FAIL,
           "processes of {} have all ports of {}-{}, or ids with these numbers; give more by "
           "URMA_TCP_PORT, or another URMA_RUNTIME_DIR",
           host()->runtime()->path(), ports_.first, ports_.last);
    }
    config.first_port = static_cast<uint16_t>(carrier->port() + 1);
  }
}

// What becomes of its addresses is nothing to peers of this directory, and its one EID is of those
// that were there at the start. The network may have one port more than there is room for.
void Provider::watch_network() {
  network_.watch(
      host()->service, host()->registry, [](const urma_eid_t& /*eid*/) { return false; },
      [this](urma_async_event_type_t type, uint32_t element) {
        if (type != URMA_EVENT_EID_CHANGE && element < attr_.port_cnt) device_.raise(type, element);
      });
}

}  // namespace
}  // namespace urma::bond

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::ProviderModule<urma::bond::Provider>::enter(version, host);
}
