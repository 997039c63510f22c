// SPDX-License-Identifier: MIT
//
// The tcp provider as a module: its registration, its device, and its contexts.
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "jetty/context.h"
#include "jetty/device_events.h"
#include "jetty/mishaps.h"
#include "jetty/ops.h"
#include "jetty/wire_transport.h"
#include "urma/base/error.h"
#include "urma/base/host.h"
#include "urma/base/provider_module.h"
#include "urma/providers/tcp/device.h"
#include "urma/providers/tcp/socket_carrier.h"
#include "urma/providers/tcp/trust.h"
#include "urma/providers/tcp/wire.h"

namespace urma::tcp {
namespace {

constexpr PortRange kPorts = {20000, 28191};

PortRange parse_ports(const std::string& text) {
  if (text.empty()) return kPorts;
  unsigned first = 0;
  unsigned last = 0;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, first);
  last = first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, last);
  }
  if (read.ec != std::errc() || read.ptr != end || first == 0 || last < first || last > 65535) {
    fail(URMA_EINVAL, "URMA_TCP_PORT={}: give one port, or low-high, of 1 to 65535", text);
  }
  return {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

urma_ops_t context_ops;

// The wire behind the device, if there is one.
class Network {
 public:
  Network(urma_provider_ops_t* ops, Device* device) : device_(*device) {
    DeviceDescription description = {kDeviceName,
                                     URMA_TRANSPORT_UB,
                                     device_.attr(),
                                     device_.eids().data(),
                                     static_cast<uint32_t>(device_.eids().size()),
                                     &engine_};
    description.ports = &mishaps_;
    host()->registry->add_device(ops, description);
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
    wire_.open([this] { return make_carrier(); });
    auto context = std::make_unique<Context>(&engine_, device_.attr(), dev, eid_index);
    context->ops = &context_ops;
    events_.add(&context->events());
    mishaps_.begin();
    device_.watch(
        host()->service, host()->registry,
        [this](urma_async_event_type_t type, uint32_t element) { events_.raise(type, element); });
    return context.release();
  }
  void leave(Context* context) { events_.remove(&context->events()); }

 private:
  std::unique_ptr<Carrier> make_carrier() const {
    CarrierConfig config;
    config.addresses = device_.eids();
    config.first_port = ports_.first;
    config.last_port = ports_.last;
    config.timeout_ms = timeout_ms_;
    read_trust(*host()->settings, &config);
    return make_socket_carrier(config);
  }

  Device& device_;
  const PortRange ports_ = parse_ports(host()->settings->text("URMA_TCP_PORT"));
  const uint64_t timeout_ms_ = host()->settings->number("URMA_TCP_TIMEOUT_MS");
  TcpWire wire_{device_.eids(), ports_, host()->runtime()->nonce(), timeout_ms_};
  WireTransport engine_{*host(), &wire_, kMaxTransfer};
  DeviceEvents events_;
  Mishaps mishaps_{kDeviceName, &engine_, host()->registry, &events_};
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
    auto* context = static_cast<Context*>(ctx);
    if (provider != nullptr) provider->network_->leave(context);
    delete context;
  }

 private:
  Device device_{host()->settings->text("URMA_TCP_DEVICES")};
  std::optional<Network> network_;
};

}  // namespace
}  // namespace urma::tcp

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::Module<urma::tcp::Provider>::enter(version, host);
}
