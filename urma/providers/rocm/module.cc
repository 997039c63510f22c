// SPDX-License-Identifier: MIT
//
// The rocm provider as a module: its registration, its devices, and its contexts.
#include <cstring>
#include <memory>
#include <utility>

#include "jetty/context.h"
#include "jetty/ops.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/host.h"
#include "urma/providers/local/inspector.h"
#include "urma/providers/local/process_vm_copy.h"
#include "urma/providers/local/receiver.h"
#include "urma/providers/local/remote.h"
#include "urma/providers/local/sender.h"
#include "urma/providers/local/transport.h"
#include "urma/providers/rocm/device.h"
#include "urma/providers/rocm/engine.h"
#include "urma/providers/rocm/memory_calls.h"
#include "urma/providers/rocm/pins.h"
#include "urma/providers/rocm/runtime.h"

namespace urma::rocm {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

EngineSettings read_settings(const Settings& settings, const Topology& topology) {
  const std::string share = settings.text("URMA_ROCM_IPC");
  // Without a GPU the calls that share memory end with a signal on some kernels.
  return {share == "auto" ? topology.has_gpu() : share == "on",
          settings.number("URMA_ROCM_TIMEOUT_MS") * kNsPerMs,
          settings.number("URMA_ROCM_CPU_COPY")};
}

// Where there are devices. All of them share what leads to other processes.
struct Machinery {
  Machinery(const urma_host& host, std::unique_ptr<HsaRuntime> opened)
      : runtime(std::move(opened)),
        engine(&runtime->api(), &runtime->topology(), host.service,
               read_settings(*host.settings, runtime->topology())),
        transport("rocm", host, &copy, &engine),
        devices(list_devices(runtime->topology(), host.settings->flag("URMA_ROCM_CPU"),
                             static_cast<uint32_t>(transport.runtime().eids().size()))) {
    engine.start(&transport);
  }
  ~Machinery() {
    engine.stop();
    transport.stop();
  }

  std::unique_ptr<HsaRuntime> runtime;
  Pins pins{&runtime->api(), &runtime->topology()};
  local::ProcessVmCopy copy;
  Engine engine;
  local::Transport transport;
  local::Inspector inspector{&transport};
  std::vector<DeviceInfo> devices;
};

// Between init and uninit. Never destroyed by exit(): the service thread may be using it.
struct Provider {
  std::unique_ptr<Machinery> machinery;  // NULL where there are no devices
};
Provider* provider = nullptr;
urma_ops_t context_ops;

urma_provider_ops_t make_provider_ops();
urma_provider_ops_t provider_ops = make_provider_ops();

const DeviceInfo& info_of(const urma_device_t* dev) {
  if (provider == nullptr) fail(URMA_EINVAL, "the library is not initialised");
  if (provider->machinery != nullptr) {
    for (const DeviceInfo& info : provider->machinery->devices) {
      if (info.name == dev->name) return info;
    }
  }
  fail(URMA_EINVAL, "{} is no device of the rocm provider", dev->name);
}

// -------------------------------------------------------------------------------------------------
// Memory
// -------------------------------------------------------------------------------------------------

void* allocate_memory(urma_context_t* ctx, urma_ext_pool_t pool, uint64_t bytes) {
  return guarded(URMA_LOG_SITE, [&] {
    const HsaRuntime& runtime = *provider->machinery->runtime;
    return allocate(runtime.api(), runtime.topology(), *info_of(ctx->dev).agent, pool, bytes);
  });
}

urma_status_t deallocate_memory(void* memory) {
  return guarded(URMA_LOG_SITE, [&] {
    deallocate(provider->machinery->runtime->api(), memory);
    return URMA_SUCCESS;
  });
}

urma_status_t query_memory(const void* address, urma_ext_address_t* info) {
  return guarded(URMA_LOG_SITE, [&] {
    const HsaRuntime& runtime = *provider->machinery->runtime;
    query(runtime.api(), runtime.topology(), provider->machinery->devices, address, info);
    return URMA_SUCCESS;
  });
}

// Where it is attached, once that is clear; 0 where it is not, or is something else.
uint64_t attached_as(Kind kind, urma_target_seg_t* segment) {
  auto* const remote = static_cast<local::RemoteSegment*>(segment);
  const uint64_t found = remote->wait_attached();
  const local::Grant* const granted = remote->grant();
  if (found == 0 || granted->device == nullptr) return 0;
  if (Attachments::kind_of(*granted->device) != kind) return 0;
  // A part of a signal is none.
  const bool whole = found == reinterpret_cast<uint64_t>(granted->device->start());
  return kind == kMemory || whole ? found : 0;
}

void* attached_memory(urma_target_seg_t* segment) {
  return guarded(URMA_LOG_SITE,
                 [&] { return reinterpret_cast<void*>(attached_as(kMemory, segment)); });
}

urma_target_seg_t* register_signal(urma_context_t* ctx, urma_seg_cfg_t* cfg, uint64_t signal) {
  return guarded(URMA_LOG_SITE, [&]() -> urma_target_seg_t* {
    Machinery& machinery = *provider->machinery;
    auto shared = machinery.engine.share_signal({signal});
    cfg->va = reinterpret_cast<uint64_t>(shared->name);
    cfg->len = kSignalBytes;
    return static_cast<Context*>(ctx)->register_foreign(cfg, [&](Segment* segment) {
      static_cast<RocmSegment*>(segment)->signal = std::move(shared);
      segment->device_len = std::exchange(segment->len, 0);
      machinery.transport.segments().add(segment);
    });
  });
}

uint64_t attached_signal(urma_target_seg_t* segment) {
  uint64_t found = 0;
  guarded(URMA_LOG_SITE, [&] { found = attached_as(kSignal, segment); });
  return found;
}

constexpr DeviceMemoryCalls kMemoryCalls = {allocate_memory, deallocate_memory, query_memory,
                                            attached_memory, register_signal,   attached_signal};

void add_devices(const Machinery& machinery) {
  const auto eids = host()->runtime()->eids();
  for (const DeviceInfo& info : machinery.devices) {
    const DeviceDescription device = {info.name.c_str(),
                                      URMA_TRANSPORT_UB,
                                      info.attr,
                                      eids.data(),
                                      static_cast<uint32_t>(eids.size()),
                                      &machinery.inspector,
                                      ordinary_details(),
                                      nullptr,
                                      &kMemoryCalls};
    host()->registry->add_device(&provider_ops, device);
  }
}

urma_status_t init(urma_init_attr_t* /*conf*/) noexcept {
  return guarded(URMA_LOG_SITE, [] {
    if (provider != nullptr) fail(URMA_EEXIST, "the rocm provider is initialised already");
    auto made = std::make_unique<Provider>();
    const Settings& settings = *host()->settings;
    std::string why;
    auto runtime =
        HsaRuntime::open(settings.text("URMA_ROCM_LIBRARY"), settings.flag("URMA_ROCM_CPU"), &why);
    if (!why.empty()) host()->registry->explain(&provider_ops, why);
    if (runtime != nullptr) {
      made->machinery = std::make_unique<Machinery>(*host(), std::move(runtime));
      add_devices(*made->machinery);
      if (made->machinery->runtime->topology().has_gpu()) {
        host()->registry->set_rdma_interface(Pins::interface());
      }
    }
    context_ops = make_ops("rocm");
    add_post_ops<local::Sender, local::Receiver>(&context_ops);
    provider = made.release();
    return URMA_SUCCESS;
  });
}

urma_status_t uninit() noexcept {
  return guarded(URMA_LOG_SITE, [] {
    host()->registry->set_rdma_interface(nullptr);
    delete std::exchange(provider, nullptr);
    return URMA_SUCCESS;
  });
}

urma_status_t query_device(urma_device_t* dev, urma_device_attr_t* attr) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    *attr = info_of(dev).attr;
    return URMA_SUCCESS;
  });
}

urma_context_t* create_context(urma_device_t* dev, uint32_t eid_index, int /*dev_fd*/) noexcept {
  return guarded(URMA_LOG_SITE, [&]() -> urma_context_t* {
    const DeviceInfo& info = info_of(dev);
    if (eid_index >= info.attr.dev_cap.max_eid_cnt) {
      fail(URMA_EINVAL, "create_context: eid_index {} is over the device's {} EIDs", eid_index,
           info.attr.dev_cap.max_eid_cnt);
    }
    auto context =
        std::make_unique<Context>(&provider->machinery->transport, info.attr, dev, eid_index);
    context->ops = &context_ops;
    return context.release();
  });
}

urma_status_t delete_context(urma_context_t* ctx) noexcept {
  delete static_cast<Context*>(ctx);
  return URMA_SUCCESS;
}

urma_status_t get_uasid(uint32_t* uasid) noexcept {
  if (provider == nullptr || provider->machinery == nullptr) return URMA_FAIL;
  *uasid = provider->machinery->transport.runtime().uasid();
  return URMA_SUCCESS;
}

urma_provider_ops_t make_provider_ops() {
  urma_provider_ops_t ops = {};
  ops.name = "rocm";
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
}  // namespace urma::rocm

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::enter_module(version, host, &urma::rocm::provider_ops);
}
