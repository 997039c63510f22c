// SPDX-License-Identifier: MIT
//
// The shm provider as a module: its registration, its device, and its contexts.
#include "jetty/device_limits.h"
#include "jetty/faulty.h"
#include "jetty/ops.h"
#include "jetty/software_device.h"
#include "urma/base/host.h"
#include "urma/base/provider_module.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

constexpr char kDeviceName[] = "urma_shm0";

urma_ops_t context_ops;

class Provider {
 public:
  static constexpr char kName[] = "shm";

  explicit Provider(urma_provider_ops_t* ops) {
    const size_t eids = transport_.runtime().eids().size();
    DeviceDescription described = device_.describe(attr_, transport_.eids().first(eids));
    described.aggregated_eid = described.eid_count;
    host()->registry->add_device(ops, described);
    context_ops = make_ops(kName);
    add_post_ops<Sender, QueuePath, Receiver>(transport_.faults() != nullptr, &context_ops);
  }
  ~Provider() { transport_.stop(); }

  bool has_devices() const { return true; }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return attr_; }
  size_t eids_of(const urma_device_t& /*dev*/) const { return transport_.eids().size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    return device_.open(&context_ops, attr_, dev, eid_index);
  }
  static void close_context(Provider* provider, urma_context_t* ctx) {
    SoftwareDevice::close(provider == nullptr ? nullptr : &provider->device_, ctx);
  }

 private:
  Transport transport_{"shm", *host()};
  const urma_device_attr_t attr_ =
      software_device(kDeviceName, static_cast<uint32_t>(transport_.runtime().eids().size()));
  SoftwareDevice device_{kDeviceName, &transport_};
};

}  // namespace
}  // namespace urma::shm

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::ProviderModule<urma::shm::Provider>::enter(version, host);
}
