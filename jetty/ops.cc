// SPDX-License-Identifier: MIT
#include "jetty/ops.h"

#include <algorithm>

#include "jetty/context.h"
#include "jetty/event_channel.h"
#include "jetty/notifier.h"
#include "jetty/queues.h"
#include "jetty/remote.h"
#include "urma/base/glue.h"
#include "urma/base/log.h"

namespace urma {
namespace {

template <auto Method>
constexpr auto kOnContext = &Slot<Method, urma_context_t>::call;

urma_status_t delete_jfce(urma_jfce_t* jfce) noexcept {
  auto* channel = static_cast<EventChannel*>(jfce);
  const urma_status_t forgotten = guarded(URMA_LOG_SITE, [&] {
    static_cast<Context*>(jfce->urma_ctx)->transport().forget_channel(channel);
    return URMA_SUCCESS;
  });
  if (forgotten == URMA_SUCCESS) delete channel;
  return forgotten;
}

int wait_jfc(urma_jfce_t* jfce, uint32_t count, int timeout_ms, urma_jfc_t** jfcs) noexcept {
  const auto wait = [&] { return static_cast<EventChannel*>(jfce)->wait(count, timeout_ms, jfcs); };
  return std::max(guarded_count(URMA_LOG_SITE, wait), -1);
}

void ack_jfc(urma_jfc_t** jfcs, uint32_t* events, uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; ++i) {
    if (jfcs[i] == nullptr || events[i] == 0) continue;
    static_cast<Jfc*>(jfcs[i])->ack_events(events[i]);
  }
}

urma_status_t unimport_queue(urma_target_jetty_t* target) noexcept {
  auto* queue = static_cast<RemoteQueue*>(target);
  if (queue->bound.load() != nullptr) {
    URMA_LOG_LIMITED(ERR, "unimport: a jetty is bound to target {:#x}; unbind it first",
                     queue->id.id);
    return URMA_FAIL;
  }
  return guarded(URMA_LOG_SITE, [&] {
    // Before the reference is dropped: afterwards a result would be about memory that is gone.
    if (queue->results != nullptr) queue->results->forget(queue);
    queue->end_import();
    queue->drop_ref();
    return URMA_SUCCESS;
  });
}

urma_status_t unimport_seg(urma_target_seg_t* target) noexcept {
  auto* ctx = static_cast<Context*>(target->urma_ctx);
  const bool same_address = target->seg.attr.bs.dsva == URMA_DSVA_ENABLE;
  static_cast<ImportedSegment*>(static_cast<SegmentHandle*>(target))->drop_ref();
  if (!same_address) return URMA_SUCCESS;
  // The address is free when this returns: the service thread may still be letting go of the
  // segment.
  return guarded(URMA_LOG_SITE, [ctx] {
    ctx->transport().service().run([] {});
    return URMA_SUCCESS;
  });
}

urma_status_t unregister_seg(urma_target_seg_t* target) noexcept {
  auto* segment = static_cast<Segment*>(static_cast<SegmentHandle*>(target));
  static_cast<Context*>(segment->urma_ctx)->transport().unregister(segment);
  delete segment;
  return URMA_SUCCESS;
}

urma_status_t free_token_id(urma_token_id_t* token) noexcept {
  auto* context = static_cast<Context*>(token->urma_ctx);
  context->transport().free_id(IdKind::kToken, context->own_eid(), token->token_id);
  delete static_cast<TokenId*>(token);
  return URMA_SUCCESS;
}

int poll_jfc(urma_jfc_t* jfc, int count, urma_cr_t* cr) noexcept {
  return static_cast<CompletionQueue*>(jfc)->poll(count, cr);
}

}  // namespace

urma_ops_t make_ops(const char* name) {
  urma_ops_t ops = {};
  ops.name = name;
  ops.create_jfce = kOnContext<&Context::create_jfce>;
  ops.delete_jfce = delete_jfce;
  ops.import_jfr = kOnContext<&Context::import_jfr>;
  ops.unimport_jfr = unimport_queue;
  ops.import_jetty = kOnContext<&Context::import_jetty>;
  ops.unimport_jetty = unimport_queue;
  ops.unbind_jetty = &Slot<&Jetty::unbind, urma_jetty_t>::call;
  ops.alloc_token_id_ex = kOnContext<&Context::alloc_token_id>;
  ops.alloc_token_id = [](urma_context_t* ctx) {
    return kOnContext<&Context::alloc_token_id>(ctx, {});
  };
  ops.free_token_id = free_token_id;
  ops.register_seg = kOnContext<&Context::register_seg>;
  ops.unregister_seg = unregister_seg;
  ops.import_seg = kOnContext<&Context::import_seg>;
  ops.unimport_seg = unimport_seg;
  ops.get_async_event = kOnContext<&Context::get_async_event>;
  ops.ack_async_event = [](urma_async_event_t* event) { AsyncEvents::acknowledge(*event); };
  ops.modify_jfc = &Slot<&CompletionQueue::modify, urma_jfc_t>::call;
  ops.rearm_jfc = &Slot<&CompletionQueue::arm, urma_jfc_t>::call;
  ops.wait_jfc = wait_jfc;
  ops.ack_jfc = ack_jfc;
  ops.poll_jfc = poll_jfc;
  add_queue_ops(&ops);
  add_control_ops(&ops);
  return ops;
}

}  // namespace urma
