// SPDX-License-Identifier: MIT
//
// The shm provider as a module: its registration, its device, and its contexts.
#include <cstring>
#include <memory>

#include "jetty/context.h"
#include "jetty/device_events.h"
#include "jetty/ops.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/host.h"
#include "urma/providers/local/faulty.h"
#include "urma/providers/local/inspector.h"
#include "urma/providers/local/process_vm_copy.h"
#include "urma/providers/local/receiver.h"
#include "urma/providers/local/sender.h"
#include "urma/providers/local/transport.h"
#include "urma/providers/shm/device.h"
#include "urma/providers/shm/mishaps.h"

namespace urma::shm {
namespace {

// Between init and uninit. Never destroyed by exit(): the service thread may be using it.
struct Provider {
  explicit Provider(const urma_host& host)
      : transport("shm", host, &copy),
        attr(device_attr(static_cast<uint32_t>(transport.runtime().eids().size()))) {}

  local::ProcessVmCopy copy;
  local::Transport transport;
  local::Inspector inspector{&transport};
  urma_device_attr_t attr;
  DeviceEvents events;
  Mishaps mishaps{&transport, host()->registry, &events};
};
Provider* provider = nullptr;
urma_ops_t context_ops;

urma_provider_ops_t make_provider_ops();
urma_provider_ops_t provider_ops = make_provider_ops();

urma_status_t init(urma_init_attr_t* /*conf*/) noexcept {
  return guarded(URMA_LOG_SITE, [] {
    if (provider != nullptr) fail(URMA_EEXIST, "the shm provider is initialised already");
    auto made = std::make_unique<Provider>(*host());
    const auto& runtime = made->transport.runtime();
    DeviceDescription device = {kDeviceName,
                                URMA_TRANSPORT_UB,
                                made->attr,
                                runtime.all_eids().data(),
                                static_cast<uint32_t>(runtime.eids().size()),
                                &made->inspector};
    device.ports = &made->mishaps;
    device.aggregated_eid = device.eid_count;
    host()->registry->add_device(&provider_ops, device);
    context_ops = make_ops("shm");
    if (made->transport.faults() != nullptr) {
      local::add_faulty_post_ops(&context_ops);
    } else {
      add_post_ops<local::Sender, local::Receiver>(&context_ops);
    }
    provider = made.release();
    return URMA_SUCCESS;
  });
}

urma_status_t uninit() noexcept {
  return guarded(URMA_LOG_SITE, [] {
    if (provider == nullptr) return URMA_SUCCESS;
    std::unique_ptr<Provider> ended(std::exchange(provider, nullptr));
    ended->transport.stop();
    return URMA_SUCCESS;
  });
}

urma_status_t query_device(urma_device_t* /*dev*/, urma_device_attr_t* attr) noexcept {
  if (provider == nullptr) return URMA_FAIL;
  *attr = provider->attr;
  return URMA_SUCCESS;
}

urma_context_t* create_context(urma_device_t* dev, uint32_t eid_index, int /*dev_fd*/) noexcept {
  return guarded(URMA_LOG_SITE, [&]() -> urma_context_t* {
    if (provider == nullptr) fail(URMA_EINVAL, "create_context: the library is not initialised");
    const size_t eids = provider->transport.eids().size();
    if (eid_index >= eids) {
      fail(URMA_EINVAL, "create_context: eid_index {} is over the device's {} EIDs", eid_index,
           eids);
    }
    auto context = std::make_unique<Context>(&provider->transport, provider->attr, dev, eid_index);
    context->ops = &context_ops;
    provider->events.add(&context->events());
    provider->mishaps.begin();
    return context.release();
  });
}

urma_status_t delete_context(urma_context_t* ctx) noexcept {
  auto* context = static_cast<Context*>(ctx);
  if (provider != nullptr) provider->events.remove(&context->events());
  delete context;
  return URMA_SUCCESS;
}

urma_status_t get_uasid(uint32_t* uasid) noexcept {
  if (provider == nullptr) return URMA_FAIL;
  *uasid = provider->transport.runtime().uasid();
  return URMA_SUCCESS;
}

urma_provider_ops_t make_provider_ops() {
  urma_provider_ops_t ops = {};
  ops.name = "shm";
  ops.attr = {1, URMA_TRANSPORT_UB};
  ops.init = init;
  ops.uninit = uninit;
  ops.query_device = query_device;
  ops.create_context = create_context;
  ops.delete_context = delete_context;
  ops.get_uasid = get_uasid;
  return ops;
}

}  // namespace
}  // namespace urma::shm

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::enter_module(version, host, &urma::shm::provider_ops);
}
