// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/context_factory.h"

#include <atomic>
#include <utility>

#include "jetty/context.h"
#include "jetty/ops.h"
#include "urma/base/guard.h"
#include "urma/providers/verbs/context_events.h"
#include "urma/providers/verbs/gpu_memory.h"
#include "urma/providers/verbs/receiver.h"
#include "urma/providers/verbs/sender.h"

namespace urma::verbs {
namespace {

urma_target_seg_t* register_seg(urma_context_t* ctx, urma_seg_cfg_t* cfg);
urma_status_t unregister_seg(urma_target_seg_t* segment);

urma_ops_t make_context_ops() {
  urma_ops_t ops = make_ops("verbs");
  ops.register_seg = register_seg;
  ops.unregister_seg = unregister_seg;
  add_post_ops<Sender, Receiver>(&ops);
  ops.poll_jfc = [](urma_jfc_t* jfc, int count, urma_cr_t* cr) {
    return static_cast<CompletionQueue*>(jfc)->poll_device(count, cr);
  };
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

// What has to be there before the context, and to stay until it has gone.
struct Ground {
  Ground(const urma_host& host, Inspector* shown_to, const std::shared_ptr<Device>& device,
         uint32_t eid_index)
      : transport(device, host.service, config_of(host, eid_index)), inspector(shown_to) {
    inspector->add(&transport);
  }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;
  ~Ground() { inspector->remove(&transport); }

  Transport transport;
  Inspector* const inspector;
};

class Context final : private Ground, public urma::Context {
 public:
  Context(const urma_host& host, Inspector* inspector, const std::shared_ptr<Device>& device,
          urma_device_t* dev, uint32_t eid_index)
      : Ground(host, inspector, device, eid_index),
        urma::Context(&static_cast<Ground*>(this)->transport, device->info().attr, dev, eid_index),
        told_(device.get(), host.registry, &events(), &static_cast<Ground*>(this)->transport,
              &static_cast<Ground*>(this)->transport.connections()),
        gpu_memory_(host.registry, &registrations(),
                    &static_cast<Ground*>(this)->transport.segments(), &events()) {}

  Registrations& registrations() { return static_cast<Ground*>(this)->transport.registrations(); }

  GpuMemory& gpu_memory() { return gpu_memory_; }

 private:
  ContextEvents told_;
  GpuMemory gpu_memory_;
};

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

}  // namespace

urma_context_t* open_context(const urma_host& host, Inspector* inspector,
                             const std::shared_ptr<Device>& device, urma_device_t* dev,
                             uint32_t eid_index) {
  static urma_ops_t ops = make_context_ops();
  auto context = std::make_unique<Context>(host, inspector, device, dev, eid_index);
  context->ops = &ops;
  return context.release();
}

urma_target_seg_t* register_memory_of(urma_context_t* ctx, urma_seg_cfg_t* cfg, int dmabuf,
                                      uint64_t offset) {
  auto* context = static_cast<Context*>(ctx);
  return context->register_foreign(cfg, [=](Segment* segment) {
    context->registrations().enter(static_cast<KeyedSegment*>(segment), dmabuf, offset);
  });
}

void close_context(urma_context_t* ctx) { delete static_cast<Context*>(ctx); }

}  // namespace urma::verbs
