// SPDX-License-Identifier: MIT
//
// The tcp provider as a module: its registration, its device, and its contexts.
#include <optional>

#include "jetty/ops.h"
#include "jetty/software_device.h"
#include "jetty/wire_transport.h"
#include "urma/base/guard.h"
#include "urma/base/host.h"
#include "urma/base/log.h"
#include "urma/base/provider_module.h"
#include "urma/providers/tcp/carrier.h"
#include "urma/providers/tcp/device.h"
#include "urma/providers/tcp/settings.h"
#include "urma/providers/tcp/wire.h"

namespace urma::tcp {
namespace {

urma_ops_t context_ops;

// The wire behind the device, if there is one.
class Network {
 public:
  Network(urma_provider_ops_t* ops, Device* device) : device_(*device) {
    host()->registry->add_device(ops, shown_.describe(device_.attr(), device_.eids()));
    context_ops = make_ops("tcp");
    engine_.add_post_ops(&context_ops);
  }
  ~Network() {
    device_.unwatch();
    engine_.stop();
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    wire_.open([this] {
      return make_socket_carrier(carrier_config(*host()->settings, device_.eids(), ports_));
    });
    device_.watch(
        host()->service, host()->registry,
        [this](const urma_eid_t& eid) { return wire_.listen_at(eid); },
        [this](urma_async_event_type_t type, uint32_t element) {
          if (type == URMA_EVENT_EID_CHANGE) show_eids();
          shown_.raise(type, element);
        });
    return shown_.open(&context_ops, device_.attr(), dev, eid_index);
  }
  SoftwareDevice* shown() { return &shown_; }

 private:
  // Queries after the event agree with it.
  void show_eids() {
    guarded(URMA_LOG_SITE, [this] { host()->registry->set_eids(kDeviceName, device_.eids()); });
  }

  Device& device_;
  const PortRange ports_ = port_range(*host()->settings);
  Wire wire_{device_.table(), device_.table(), ports_, host()->runtime()->nonce(),
             timeout_ms(*host()->settings)};
  WireTransport engine_{*host(), &wire_, kMaxTransfer};
  SoftwareDevice shown_{kDeviceName, &engine_};
};

class Provider {
 public:
  static constexpr char kName[] = "tcp";

  explicit Provider(urma_provider_ops_t* ops) {
    if (has_devices()) {
      network_.emplace(ops, &device_);
    } else {
      host()->registry->explain(ops, "the host has no address, or URMA_TCP_DEVICES=none");
    }
  }

  bool has_devices() const { return !device_.eids().empty(); }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return device_.attr(); }
  size_t eids_of(const urma_device_t& /*dev*/) const { return device_.eids().size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    return network_->open_context(dev, eid_index);
  }
  static void close_context(Provider* provider, urma_context_t* ctx) {
    SoftwareDevice::close(provider == nullptr ? nullptr : provider->network_->shown(), ctx);
  }

 private:
  Device device_{host()->settings->text("URMA_TCP_DEVICES")};
  std::optional<Network> network_;
};

}  // namespace
}  // namespace urma::tcp

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::ProviderModule<urma::tcp::Provider>::enter(version, host);
}
