// SPDX-License-Identifier: MIT
//
// The loopback provider as a module: its registration, its device, and its contexts.
#include <span>

#include "jetty/device_limits.h"
#include "jetty/ops.h"
#include "jetty/software_device.h"
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
    host()->registry->add_device(ops, device_.describe(attr_, eids_));
    context_ops = make_ops(kName);
    engine_.add_post_ops(&context_ops);
  }
  ~Provider() { engine_.stop(); }

  bool has_devices() const { return true; }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return attr_; }
  size_t eids_of(const urma_device_t& /*dev*/) const { return eids_.size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    return device_.open(&context_ops, attr_, dev, eid_index);
  }
  static void close_context(Provider* provider, urma_context_t* ctx) {
    SoftwareDevice::close(provider == nullptr ? nullptr : &provider->device_, ctx);
  }

 private:
  const std::span<const urma_eid_t> eids_ = host()->runtime()->eids();
  const urma_device_attr_t attr_ =
      software_device(kDeviceName, static_cast<uint32_t>(eids_.size()));
  Wire wire_;
  WireTransport engine_{*host(), &wire_, kMaxSoftwareMessage};
  SoftwareDevice device_{kDeviceName, &engine_};
};

}  // namespace
}  // namespace urma::loopback

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::ProviderModule<urma::loopback::Provider>::enter(version, host);
}
