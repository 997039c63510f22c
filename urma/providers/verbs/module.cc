// SPDX-License-Identifier: MIT
//
// The verbs provider as a module: its registration, its devices, and its contexts.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "jetty/context.h"
#include "jetty/faulty.h"
#include "jetty/mishaps.h"
#include "jetty/ops.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/base/provider_module.h"
#include "urma/providers/verbs/context_events.h"
#include "urma/providers/verbs/datagram_queue.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/gpu_memory.h"
#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/receiver.h"
#include "urma/providers/verbs/sender.h"
#include "urma/providers/verbs/transport.h"

namespace urma::verbs {
namespace {

// For all contexts, which may outlive the provider.
urma_ops_t context_ops;

// Tells which queues and segments the contexts of this provider have.
class Inspector final : public SegmentInspector {
 public:
  void add(Transport* transport) {
    const MutexLock lock(mutex_);
    transports_.push_back(transport);
  }
  // On return, nobody looks at it any more.
  void remove(Transport* transport) {
    const MutexLock lock(mutex_);
    std::erase(transports_, transport);
  }

  // The library ends before these contexts.
  void abandon() {
    const MutexLock lock(mutex_);
    for (Transport* transport : transports_) {
      guarded(URMA_LOG_SITE, [transport] { transport->abandon(); });
    }
  }

  std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const override {
    return moved_part(segment);
  }
  void list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const override {
    const MutexLock lock(mutex_);
    for (const Transport* transport : transports_) transport->list_queues(most, queues);
  }
  void list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const override {
    const MutexLock lock(mutex_);
    for (const Transport* transport : transports_) transport->list_segments(most, segments);
  }
  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override {
    const MutexLock lock(mutex_);
    for (const Transport* transport : transports_) transport->list_connections(most, connections);
  }

 private:
  mutable Mutex mutex_;
  std::vector<Transport*> transports_ URMA_GUARDED_BY(mutex_);
};

struct Port {
  DeviceInfo info;
  std::weak_ptr<Device> open;  // owned by its contexts
};

urma_transport_type_t device_type() {
  return host()->settings->text("URMA_VERBS_TYPE") == "ib" ? URMA_TRANSPORT_IB : URMA_TRANSPORT_UB;
}

// Each context has its own planned faults and counts.
std::unique_ptr<Faults> planned_faults(const urma_host& host) {
  return Faults::parse(host.settings->text("URMA_FAULT"));
}

urma_target_seg_t* register_seg(urma_context_t* ctx, urma_seg_cfg_t* cfg);
urma_status_t unregister_seg(urma_target_seg_t* segment);

urma_ops_t make_context_ops(bool faulty) {
  urma_ops_t ops = make_ops("verbs");
  ops.register_seg = register_seg;
  ops.unregister_seg = unregister_seg;
  add_post_ops<Sender, Path, Receiver, DatagramPath>(faulty, &ops);
  return ops;
}

// Contexts of one process at one EID differ in their nonces, too.
uint64_t next_nonce(const Runtime& runtime) {
  static std::atomic<uint64_t> contexts{0};
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  const uint64_t nonce = runtime.nonce() + kStep * contexts.fetch_add(1, std::memory_order_relaxed);
  return nonce == 0 ? kStep / 2 : nonce;
}

TransportConfig config_of(const urma_host& host, uint32_t eid_index) {
  constexpr uint64_t kNsPerMs = 1'000'000;
  const Runtime& runtime = *host.runtime();
  TransportConfig config = {};
  config.eid_index = eid_index;
  config.nonce = next_nonce(runtime);
  config.uasid = runtime.uasid();
  config.silence_ns = host.settings->number("URMA_VERBS_TIMEOUT_MS") * kNsPerMs;
  config.most_senders = static_cast<uint32_t>(host.settings->number("URMA_VERBS_MAX_CONN"));
  return config;
}

// What must exist before the context, and until it has gone.
struct Ground {
  Ground(const urma_host& host, Inspector* shown_to, const std::shared_ptr<Device>& device,
         uint32_t eid_index)
      : mishaps(device->info().name.c_str(), &transport, host.registry, &told),
        transport(device, host.service, config_of(host, eid_index), planned_faults(host)),
        inspector(shown_to) {
    inspector->add(&transport);
  }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;
  ~Ground() { inspector->remove(&transport); }

  DeviceEvents told;  // of injected faults
  Mishaps mishaps;
  Transport transport;
  Inspector* const inspector;
};

class Context final : private Ground, public urma::Context {
 public:
  Context(const urma_host& host, Inspector* inspector, const std::shared_ptr<Device>& device,
          urma_device_t* dev, uint32_t eid_index)
      : Ground(host, inspector, device, eid_index),
        urma::Context(&static_cast<Ground*>(this)->transport, device->info().attr, dev, eid_index),
        events_of_device_(device.get(), host.registry, &events(),
                          &static_cast<Ground*>(this)->transport,
                          &static_cast<Ground*>(this)->transport.connections()),
        gpu_memory_(host.registry, &registrations(),
                    &static_cast<Ground*>(this)->transport.segments(), &events()) {
    told.add(&events());
    mishaps.begin();
  }
  ~Context() { told.remove(&events()); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Registrations& registrations() { return static_cast<Ground*>(this)->transport.registrations(); }

  GpuMemory& gpu_memory() { return gpu_memory_; }

 private:
  ContextEvents events_of_device_;
  GpuMemory gpu_memory_;
};

// In memory that lies at `offset` in a dma-buf.
urma_target_seg_t* register_memory_of(urma_context_t* ctx, urma_seg_cfg_t* cfg, int dmabuf,
                                      uint64_t offset) {
  auto* context = static_cast<Context*>(ctx);
  return context->register_foreign(cfg, [=](Segment* segment) {
    context->registrations().enter(static_cast<KeyedSegment*>(segment), dmabuf, offset);
  });
}

urma_target_seg_t* register_seg(urma_context_t* ctx, urma_seg_cfg_t* cfg) {
  return guarded(URMA_LOG_SITE, [&] {
    auto* const context = static_cast<Context*>(ctx);
    if (!context->gpu_memory().has(cfg->va)) return context->register_seg(cfg);
    return context->gpu_memory().enter(
        cfg->va, cfg->len, ctx->dev->name,
        [=](int dmabuf, uint64_t offset) { return register_memory_of(ctx, cfg, dmabuf, offset); });
  });
}

urma_status_t unregister_seg(urma_target_seg_t* segment) {
  static const auto kUnregister = make_ops("verbs").unregister_seg;
  return guarded(URMA_LOG_SITE, [&] {
    const auto unpin = static_cast<Context*>(segment->urma_ctx)->gpu_memory().leave(segment);
    const urma_status_t status = kUnregister(segment);
    if (unpin != nullptr) unpin();
    return status;
  });
}

urma_target_seg_t* register_dmabuf(urma_context_t* ctx, urma_seg_cfg_t* cfg, int fd,
                                   uint64_t offset) {
  return guarded(URMA_LOG_SITE, [&] { return register_memory_of(ctx, cfg, fd, offset); });
}

class Provider {
 public:
  static constexpr char kName[] = "verbs";

  explicit Provider(urma_provider_ops_t* ops) {
    context_ops = make_context_ops(planned_faults(*host()) != nullptr);
    std::string why;
    for (auto& info : find_devices(system_verbs(), &why)) {
      add_device(ops, info);
      ports_.push_back({std::move(info), {}});
    }
    if (!why.empty()) host()->registry->explain(ops, why);
  }
  ~Provider() { inspector_.abandon(); }
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  bool has_devices() const { return !ports_.empty(); }
  const urma_device_attr_t& attr_of(const urma_device_t& dev) { return port_of(dev).info.attr; }
  size_t eids_of(const urma_device_t& dev) { return port_of(dev).info.eids.size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    auto context =
        std::make_unique<Context>(*host(), &inspector_, open_port(&port_of(*dev)), dev, eid_index);
    context->ops = &context_ops;
    return context.release();
  }
  static void close_context(Provider* /*provider*/, urma_context_t* ctx) {
    delete static_cast<Context*>(ctx);
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
    fail(URMA_EINVAL, "{} is not a device of the verbs provider", dev.name);
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
  return urma::ProviderModule<urma::verbs::Provider>::enter(version, host);
}
