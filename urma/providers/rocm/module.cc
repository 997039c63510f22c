// SPDX-License-Identifier: MIT
//
// The rocm provider as a module: its registration, its devices, and its contexts.
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "jetty/context.h"
#include "jetty/faulty.h"
#include "jetty/ops.h"
#include "jetty/software_device.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/host.h"
#include "urma/base/provider_module.h"
#include "urma/providers/rocm/device.h"
#include "urma/providers/rocm/memory_calls.h"
#include "urma/providers/rocm/path.h"
#include "urma/providers/rocm/pins.h"
#include "urma/providers/rocm/runtime.h"
#include "urma/providers/rocm/transport.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/remote.h"
#include "urma/providers/shm/sender.h"

namespace urma::rocm {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

TransportSettings read_settings(const Settings& settings, const Topology& topology) {
  const std::string share = settings.text("URMA_ROCM_IPC");
  // Without a GPU the calls that share memory end with a signal on some kernels.
  return {share == "auto" ? topology.has_gpu() : share == "on",
          settings.number("URMA_ROCM_TIMEOUT_MS") * kNsPerMs,
          settings.number("URMA_ROCM_CPU_COPY")};
}

// Exists if there are devices. All of them share the connections to other processes.
struct Machinery {
  Machinery(const urma_host& host, std::unique_ptr<HsaRuntime> opened)
      : runtime(std::move(opened)),
        transport(host, runtime.get(), read_settings(*host.settings, runtime->topology())),
        infos(list_devices(runtime->topology(), host.settings->flag("URMA_ROCM_CPU"),
                           static_cast<uint32_t>(transport.runtime().eids().size()))) {
    for (const DeviceInfo& info : infos) {
      devices.emplace_back(info.name.c_str(), &transport,
                           Faults::parse(host.settings->text("URMA_FAULT")));
    }
  }
  ~Machinery() { transport.stop(); }

  std::unique_ptr<HsaRuntime> runtime;
  Pins pins{runtime.get()};
  Transport transport;
  const std::vector<DeviceInfo> infos;
  std::deque<SoftwareDevice> devices;  // in the same order
};

urma_ops_t context_ops;

// The provider's, for calls without a context.
Machinery& machinery();
const DeviceInfo& info_of(const urma_device_t& dev);

// -------------------------------------------------------------------------------------------------
// Memory
// -------------------------------------------------------------------------------------------------

void* allocate_memory(urma_context_t* ctx, urma_ext_pool_t pool, uint64_t bytes) {
  return guarded(URMA_LOG_SITE, [&] {
    return allocate(*machinery().runtime, *info_of(*ctx->dev).agent, pool, bytes);
  });
}

urma_status_t deallocate_memory(void* memory) {
  return guarded(URMA_LOG_SITE, [&] {
    deallocate(machinery().runtime->api(), memory);
    return URMA_SUCCESS;
  });
}

urma_status_t query_memory(const void* address, urma_ext_address_t* info) {
  return guarded(URMA_LOG_SITE, [&] {
    query(*machinery().runtime, machinery().infos, address, info);
    return URMA_SUCCESS;
  });
}

// Its address here once attached; 0 if it is not attached, or is of another kind.
uint64_t attached_as(Kind kind, urma_target_seg_t* segment) {
  uint64_t address = 0;
  static_cast<shm::RemoteSegment*>(segment)->wait_settled([&](const shm::Grant* granted) {
    if (granted == nullptr) return;
    const uint64_t found = granted->attached_at(segment->seg.ubva.va, segment->seg.len);
    if (found == 0 || Attachments::kind_of(*granted->attached) != kind) return;
    // Part of a signal is not a signal.
    const bool whole = found == reinterpret_cast<uint64_t>(granted->attached->start);
    if (kind == kMemory || whole) address = found;
  });
  return address;
}

void* attached_memory(urma_target_seg_t* segment) {
  return guarded(URMA_LOG_SITE,
                 [&] { return reinterpret_cast<void*>(attached_as(kMemory, segment)); });
}

urma_target_seg_t* register_signal(urma_context_t* ctx, urma_seg_cfg_t* cfg, uint64_t signal) {
  return guarded(URMA_LOG_SITE, [&]() -> urma_target_seg_t* {
    auto shared = machinery().transport.share_signal({signal});
    cfg->va = reinterpret_cast<uint64_t>(shared->name);
    cfg->len = kSignalBytes;
    return static_cast<Context*>(ctx)->register_foreign(cfg, [&](urma::Segment* segment) {
      static_cast<Segment*>(segment)->signal = std::move(shared);
      segment->opaque_len = std::exchange(segment->len, 0);
      machinery().transport.segments().add(segment);
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

class Provider {
 public:
  static constexpr char kName[] = "rocm";

  explicit Provider(urma_provider_ops_t* ops) {
    context_ops = make_ops(kName);
    const Settings& settings = *host()->settings;
    const bool faulty = !settings.text("URMA_FAULT").empty();
    add_post_ops<shm::Sender, Path, shm::Receiver>(faulty, &context_ops);
    std::string why;
    auto runtime =
        HsaRuntime::open(settings.text("URMA_ROCM_LIBRARY"), settings.flag("URMA_ROCM_CPU"), &why);
    if (!why.empty()) host()->registry->explain(ops, why);
    if (runtime == nullptr) return;
    machinery_ = std::make_unique<Machinery>(*host(), std::move(runtime));
    add_devices(ops);
    if (machinery_->runtime->topology().has_gpu()) {
      host()->registry->set_rdma_interface(Pins::interface());
    }
  }
  ~Provider() { host()->registry->set_rdma_interface(nullptr); }

  bool has_devices() const { return machinery_ != nullptr; }
  Machinery& machinery() const { return *machinery_; }
  const DeviceInfo& info_of(const urma_device_t& dev) const {
    if (machinery_ != nullptr) {
      for (const DeviceInfo& info : machinery_->infos) {
        if (info.name == dev.name) return info;
      }
    }
    fail(URMA_EINVAL, "{} is not a device of the rocm provider", dev.name);
  }
  const urma_device_attr_t& attr_of(const urma_device_t& dev) const { return info_of(dev).attr; }
  size_t eids_of(const urma_device_t& dev) const { return attr_of(dev).dev_cap.max_eid_cnt; }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    return device_of(*dev).open(&context_ops, attr_of(*dev), dev, eid_index);
  }
  static void close_context(Provider* provider, urma_context_t* ctx) {
    SoftwareDevice::close(provider == nullptr ? nullptr : &provider->device_of(*ctx->dev), ctx);
  }

 private:
  SoftwareDevice& device_of(const urma_device_t& dev) {
    return machinery_->devices[static_cast<size_t>(&info_of(dev) - machinery_->infos.data())];
  }
  void add_devices(urma_provider_ops_t* ops) const {
    const auto eids = host()->runtime()->eids();
    for (size_t i = 0; i < machinery_->devices.size(); ++i) {
      DeviceDescription described =
          machinery_->devices[i].describe(machinery_->infos[i].attr, eids);
      described.memory = &kMemoryCalls;
      host()->registry->add_device(ops, described);
    }
  }

  std::unique_ptr<Machinery> machinery_;  // NULL if there are no devices
};

Machinery& machinery() { return ProviderModule<Provider>::provider().machinery(); }

const DeviceInfo& info_of(const urma_device_t& dev) {
  return ProviderModule<Provider>::provider().info_of(dev);
}

}  // namespace
}  // namespace urma::rocm

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::ProviderModule<urma::rocm::Provider>::enter(version, host);
}
