// SPDX-License-Identifier: MIT
//
// The loopback provider as a module: its registration, its device, and its contexts.
#include <memory>

#include "jetty/context.h"
#include "jetty/device_events.h"
#include "jetty/device_limits.h"
#include "jetty/mishaps.h"
#include "jetty/ops.h"
#include "jetty/wire_transport.h"
#include "urma/base/host.h"
#include "urma/base/provider_module.h"
#include "urma/providers/loopback/wire.h"

namespace urma::loopback {
namespace {

constexpr char kDeviceName[] = "urma_loopback0";

urma_ops_t context_ops;

class Provider {
 public:
  static constexpr char kName[] = "loopback";

  explicit Provider(urma_provider_ops_t* ops) {
    DeviceDescription device = {
        kDeviceName, URMA_TRANSPORT_UB, attr_, eids_.data(), static_cast<uint32_t>(eids_.size()),
        &engine_};
    device.ports = &mishaps_;
    host()->registry->add_device(ops, device);
    context_ops = make_ops(kName);
    engine_.add_post_ops(&context_ops);
  }
  ~Provider() { engine_.stop(); }

  bool has_devices() const { return true; }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return attr_; }
  size_t eids_of(const urma_device_t& /*dev*/) const { return eids_.size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    auto context = std::make_unique<Context>(&engine_, attr_, dev, eid_index);
    context->ops = &context_ops;
    events_.add(&context->events());
    mishaps_.begin();
    return context.release();
  }
  static void close_context(Provider* provider, urma_context_t* ctx) {
    auto* context = static_cast<Context*>(ctx);
    if (provider != nullptr) provider->events_.remove(&context->events());
    delete context;
  }

 private:
  const std::span<const urma_eid_t> eids_ = host()->runtime()->eids();
  const urma_device_attr_t attr_ =
      software_device(kDeviceName, static_cast<uint32_t>(eids_.size()));
  Wire wire_;
  WireTransport engine_{*host(), &wire_, kMaxSoftwareMessage};
  DeviceEvents events_;
  Mishaps mishaps_{kDeviceName, &engine_, host()->registry, &events_};
};

}  // namespace
}  // namespace urma::loopback

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::Module<urma::loopback::Provider>::enter(version, host);
}
