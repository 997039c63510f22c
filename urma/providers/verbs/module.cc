// SPDX-License-Identifier: MIT
//
// The verbs provider as a module: its registration, its devices, and its contexts.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/context_factory.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/device_attr.h"
#include "urma/providers/verbs/inspector.h"

namespace urma::verbs {
namespace {

struct Port {
  DeviceInfo info;
  std::weak_ptr<Device> open;  // by its contexts
};

// Between init and uninit. Never destroyed by exit().
struct Provider {
  Mutex mutex;  // guards Port::open
  std::vector<Port> ports;
  Inspector inspector;
};
Provider* provider = nullptr;

urma_provider_ops_t make_provider_ops();
urma_provider_ops_t provider_ops = make_provider_ops();

urma_transport_type_t device_type() {
  return host()->settings->text("URMA_VERBS_TYPE") == "ib" ? URMA_TRANSPORT_IB : URMA_TRANSPORT_UB;
}

urma_target_seg_t* register_dmabuf(urma_context_t* ctx, urma_seg_cfg_t* cfg, int fd,
                                   uint64_t offset) {
  return guarded(URMA_LOG_SITE, [&] { return register_memory_of(ctx, cfg, fd, offset); });
}

void add_device(const DeviceInfo& info, const Inspector& inspector) {
  std::vector<urma_eid_t> eids;
  for (const auto& address : info.eids) eids.push_back(address.eid);
  const DeviceDescription device = {info.name.c_str(),
                                    device_type(),
                                    info.attr,
                                    eids.data(),
                                    static_cast<uint32_t>(eids.size()),
                                    &inspector,
                                    describe_further(info),
                                    register_dmabuf};
  host()->registry->add_device(&provider_ops, device);
}

// Before memory is registered, where the kernel does not copy pinned pages for children itself.
void prepare_for_fork(const VerbsApi& api) {
  const int error = api.fork_init();
  if (error != 0) {
    URMA_LOG(INFO, "RDMA memory is not prepared for a fork: {}", std::strerror(error));
  }
}

urma_status_t init(urma_init_attr_t* /*conf*/) noexcept {
  return guarded(URMA_LOG_SITE, [] {
    if (provider != nullptr) fail(URMA_EEXIST, "the verbs provider is initialised already");
    auto made = std::make_unique<Provider>();
    std::string why;
    for (auto& info : find_devices(system_verbs(), &why)) {
      add_device(info, made->inspector);
      made->ports.push_back({std::move(info), {}});
    }
    if (!why.empty()) host()->registry->explain(&provider_ops, why);
    if (!made->ports.empty()) prepare_for_fork(system_verbs());
    provider = made.release();
    return URMA_SUCCESS;
  });
}

urma_status_t uninit() noexcept {
  delete std::exchange(provider, nullptr);
  return URMA_SUCCESS;
}

Port& port_of(const urma_device_t* dev) {
  if (provider == nullptr) fail(URMA_EINVAL, "the library is not initialised");
  for (auto& port : provider->ports) {
    if (port.info.name == dev->name) return port;
  }
  fail(URMA_EINVAL, "{} is no device of the verbs provider", dev->name);
}

urma_status_t query_device(urma_device_t* dev, urma_device_attr_t* attr) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    *attr = port_of(dev).info.attr;
    return URMA_SUCCESS;
  });
}

// One for all contexts of the port.
std::shared_ptr<Device> open_port(Port* port) {
  const MutexLock lock(provider->mutex);
  auto device = port->open.lock();
  if (device == nullptr) {
    device = std::make_shared<Device>(&system_verbs(), host()->service, port->info);
    port->open = device;
  }
  return device;
}

urma_context_t* create_context(urma_device_t* dev, uint32_t eid_index, int /*dev_fd*/) noexcept {
  return guarded(URMA_LOG_SITE, [&]() -> urma_context_t* {
    auto& port = port_of(dev);
    if (eid_index >= port.info.eids.size()) {
      fail(URMA_EINVAL, "create_context: eid_index {} is over the device's {} EIDs", eid_index,
           port.info.eids.size());
    }
    return open_context(*host(), &provider->inspector, open_port(&port), dev, eid_index);
  });
}

urma_status_t delete_context(urma_context_t* ctx) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    close_context(ctx);
    return URMA_SUCCESS;
  });
}

urma_status_t get_uasid(uint32_t* uasid) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    if (provider == nullptr || provider->ports.empty()) return URMA_FAIL;
    *uasid = host()->runtime()->uasid();
    return URMA_SUCCESS;
  });
}

urma_provider_ops_t make_provider_ops() {
  urma_provider_ops_t ops = {};
  ops.name = "verbs";
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
}  // namespace urma::verbs

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::enter_module(version, host, &urma::verbs::provider_ops);
}
