// SPDX-License-Identifier: MIT
//
// The shm provider as a module: its registration, its device, and its contexts.
#include <memory>

#include "jetty/context.h"
#include "jetty/device_events.h"
#include "jetty/faulty.h"
#include "jetty/mishaps.h"
#include "jetty/ops.h"
#include "urma/base/host.h"
#include "urma/base/provider_module.h"
#include "urma/providers/shm/device.h"
#include "urma/providers/shm/peer.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

urma_ops_t context_ops;

class Provider {
 public:
  static constexpr char kName[] = "shm";

  explicit Provider(urma_provider_ops_t* ops) {
    DeviceDescription device = {kDeviceName,
                                URMA_TRANSPORT_UB,
                                attr_,
                                transport_.eids().data(),
                                static_cast<uint32_t>(transport_.runtime().eids().size()),
                                &transport_};
    device.ports = &mishaps_;
    device.aggregated_eid = device.eid_count;
    host()->registry->add_device(ops, device);
    context_ops = make_ops(kName);
    if (transport_.faults() != nullptr) {
      add_faulty_post_ops<Sender, QueuePath, Receiver>(&context_ops);
    } else {
      add_post_ops<Sender, Receiver>(&context_ops);
    }
  }
  ~Provider() { transport_.stop(); }

  bool has_devices() const { return true; }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return attr_; }
  size_t eids_of(const urma_device_t& /*dev*/) const { return transport_.eids().size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    auto context = std::make_unique<Context>(&transport_, attr_, dev, eid_index);
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
  ProcessVmCopy copy_;
  Transport transport_{"shm", *host(), &copy_};
  const urma_device_attr_t attr_ =
      device_attr(static_cast<uint32_t>(transport_.runtime().eids().size()));
  DeviceEvents events_;
  Mishaps mishaps_{kDeviceName, &transport_, host()->registry, &events_};
};

}  // namespace
}  // namespace urma::shm

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::Module<urma::shm::Provider>::enter(version, host);
}
