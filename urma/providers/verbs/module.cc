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
#include "urma/base/provider_module.h"
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

urma_transport_type_t device_type() {
  return host()->settings->text("URMA_VERBS_TYPE") == "ib" ? URMA_TRANSPORT_IB : URMA_TRANSPORT_UB;
}

urma_target_seg_t* register_dmabuf(urma_context_t* ctx, urma_seg_cfg_t* cfg, int fd,
                                   uint64_t offset) {
  return guarded(URMA_LOG_SITE, [&] { return register_memory_of(ctx, cfg, fd, offset); });
}

// Before memory is registered, where the kernel does not copy pinned pages for children itself.
void prepare_for_fork(const Api& api) {
  const int error = api.fork_init();
  if (error != 0) {
    URMA_LOG(INFO, "RDMA memory is not prepared for a fork: {}", std::strerror(error));
  }
}

class Provider {
 public:
  static constexpr char kName[] = "verbs";

  explicit Provider(urma_provider_ops_t* ops) {
    std::string why;
    for (auto& info : find_devices(system_verbs(), &why)) {
      add_device(ops, info);
      ports_.push_back({std::move(info), {}});
    }
    if (!why.empty()) host()->registry->explain(ops, why);
    if (!ports_.empty()) prepare_for_fork(system_verbs());
  }

  bool has_devices() const { return !ports_.empty(); }
  const urma_device_attr_t& attr_of(const urma_device_t& dev) { return port_of(dev).info.attr; }
  size_t eids_of(const urma_device_t& dev) { return port_of(dev).info.eids.size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    return verbs::open_context(*host(), &inspector_, open_port(&port_of(*dev)), dev, eid_index);
  }
  static void close_context(Provider* /*provider*/, urma_context_t* ctx) {
    verbs::close_context(ctx);
  }

 private:
  void add_device(urma_provider_ops_t* ops, const DeviceInfo& info) const {
    std::vector<urma_eid_t> eids;
    for (const auto& address : info.eids) eids.push_back(address.eid);
    const DeviceDescription device = {info.name.c_str(),
                                      device_type(),
                                      info.attr,
                                      eids.data(),
                                      static_cast<uint32_t>(eids.size()),
                                      &inspector_,
                                      describe_further(info),
                                      register_dmabuf};
    host()->registry->add_device(ops, device);
  }

  Port& port_of(const urma_device_t& dev) {
    for (auto& port : ports_) {
      if (port.info.name == dev.name) return port;
    }
    fail(URMA_EINVAL, "{} is no device of the verbs provider", dev.name);
  }

  // One for all contexts of the port.
  std::shared_ptr<Device> open_port(Port* port) {
    const MutexLock lock(mutex_);
    auto device = port->open.lock();
    if (device == nullptr) {
      device = std::make_shared<Device>(&system_verbs(), host()->service, port->info);
      port->open = device;
    }
    return device;
  }

  Mutex mutex_;  // guards Port::open
  std::vector<Port> ports_;
  Inspector inspector_;
};

}  // namespace
}  // namespace urma::verbs

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::Module<urma::verbs::Provider>::enter(version, host);
}
