// SPDX-License-Identifier: MIT
//
// The operations table: C functions that lead into the C++ objects.
#include <algorithm>

#include "jetty/event_channel.h"
#include "urma/base/glue.h"
#include "urma/base/log.h"
#include "urma/providers/local/context.h"
#include "urma/providers/local/queues.h"
#include "urma/providers/local/remote.h"

namespace urma::local {
namespace {

template <auto Method>
constexpr auto kOnContext = &Slot<Method, urma_context_t>::call;

template <typename Object, typename Handle>
urma_status_t destroy(Handle* handle) noexcept {
  delete static_cast<Object*>(handle);
  return URMA_SUCCESS;
}

urma_status_t delete_jfc(urma_jfc_t* jfc) noexcept {
  if (static_cast<Jfc*>(jfc)->attached()) {
    URMA_LOG_LIMITED(ERR, "delete_jfc: jfc {:#x} is still used; delete its queues first",
                     jfc->jfc_id.id);
    return URMA_EAGAIN;
  }
  const urma_status_t ended =
      guarded(URMA_LOG_SITE, [jfc] { return static_cast<Jfc*>(jfc)->end_events(); });
  return ended == URMA_SUCCESS ? destroy<Jfc>(jfc) : ended;
}

urma_status_t delete_jfce(urma_jfce_t* jfce) noexcept {
  auto* channel = static_cast<EventChannel*>(jfce);
  const urma_status_t forgotten = guarded(URMA_LOG_SITE, [&] {
    static_cast<Context*>(jfce->urma_ctx)->transport().forget_channel(channel);
    return URMA_SUCCESS;
  });
  return forgotten == URMA_SUCCESS ? destroy<EventChannel>(jfce) : forgotten;
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

urma_status_t delete_jfr(urma_jfr_t* jfr) noexcept {
  if (static_cast<Jfr*>(jfr)->shared()) {
    URMA_LOG_LIMITED(ERR, "delete_jfr: jfr {:#x} is shared by a jetty; delete the jetty first",
                     jfr->jfr_id.id);
    return URMA_EAGAIN;
  }
  return destroy<Jfr>(jfr);
}

urma_status_t unimport_queue(urma_target_jetty_t* target) noexcept {
  auto* queue = static_cast<RemoteQueue*>(target);
  if (queue->bound.load() != nullptr) {
    URMA_LOG_LIMITED(ERR, "unimport: a jetty is bound to target {:#x}; unbind it first",
                     queue->id.id);
    return URMA_FAIL;
  }
  queue->imported.store(false);
  queue->drop_ref();
  return URMA_SUCCESS;
}

urma_status_t bind_jetty(urma_jetty_t* jetty, urma_target_jetty_t* target) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    return static_cast<Jetty*>(jetty)->bind(static_cast<RemoteQueue*>(target));
  });
}

urma_status_t unbind_jetty(urma_jetty_t* jetty) noexcept {
  return guarded(URMA_LOG_SITE, [&] { return static_cast<Jetty*>(jetty)->unbind(); });
}

urma_status_t unimport_seg(urma_target_seg_t* target) noexcept {
  static_cast<RemoteSegment*>(static_cast<SegmentHandle*>(target))->drop_ref();
  return URMA_SUCCESS;
}

urma_status_t unregister_seg(urma_target_seg_t* target) noexcept {
  auto* segment = static_cast<Segment*>(static_cast<SegmentHandle*>(target));
  Transport& transport = static_cast<Context*>(segment->urma_ctx)->transport();
  transport.segments().remove(segment);
  transport.quiesce();
  if (segment->pages != 0) transport.pages()->remove(segment->pages);
  delete segment;
  return URMA_SUCCESS;
}

urma_status_t free_token_id(urma_token_id_t* token) noexcept {
  static_cast<Context*>(token->urma_ctx)
      ->transport()
      .runtime()
      .free_id(IdKind::kToken, token->urma_ctx->eid_index, token->token_id);
  return destroy<TokenId>(token);
}

urma_status_t post_jfs_wr(urma_jfs_t* jfs, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  return guarded(URMA_LOG_SITE, [&] { return static_cast<Jfs*>(jfs)->sender().post(wr, bad_wr); });
}

urma_status_t post_jetty_send_wr(urma_jetty_t* jetty, urma_jfs_wr_t* wr,
                                 urma_jfs_wr_t** bad_wr) noexcept {
  return guarded(URMA_LOG_SITE,
                 [&] { return static_cast<Jetty*>(jetty)->sender().post(wr, bad_wr); });
}

urma_status_t post_jfr_wr(urma_jfr_t* jfr, urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  return guarded(URMA_LOG_SITE,
                 [&] { return static_cast<Jfr*>(jfr)->receiver().post(wr, bad_wr); });
}

urma_status_t post_jetty_recv_wr(urma_jetty_t* jetty, urma_jfr_wr_t* wr,
                                 urma_jfr_wr_t** bad_wr) noexcept {
  return guarded(URMA_LOG_SITE,
                 [&] { return static_cast<Jetty*>(jetty)->jfr().receiver().post(wr, bad_wr); });
}

}  // namespace

urma_ops_t make_ops(const char* name) {
  urma_ops_t ops = {};
  ops.name = name;
  ops.create_jfce = kOnContext<&Context::create_jfce>;
  ops.delete_jfce = delete_jfce;
  ops.create_jfc = kOnContext<&Context::create_jfc>;
  ops.delete_jfc = delete_jfc;
  ops.create_jfs = kOnContext<&Context::create_jfs>;
  ops.delete_jfs = destroy<Jfs, urma_jfs_t>;
  ops.create_jfr = kOnContext<&Context::create_jfr>;
  ops.delete_jfr = delete_jfr;
  ops.create_jetty = kOnContext<&Context::create_jetty>;
  ops.delete_jetty = destroy<Jetty, urma_jetty_t>;
  ops.import_jfr = kOnContext<&Context::import_jfr>;
  ops.unimport_jfr = unimport_queue;
  ops.import_jetty = kOnContext<&Context::import_jetty>;
  ops.unimport_jetty = unimport_queue;
  ops.bind_jetty = bind_jetty;
  ops.unbind_jetty = unbind_jetty;
  ops.alloc_token_id = kOnContext<&Context::alloc_token_id>;
  ops.alloc_token_id_ex = kOnContext<&Context::alloc_token_id_ex>;
  ops.free_token_id = free_token_id;
  ops.register_seg = kOnContext<&Context::register_seg>;
  ops.unregister_seg = unregister_seg;
  ops.import_seg = kOnContext<&Context::import_seg>;
  ops.unimport_seg = unimport_seg;
  ops.post_jfs_wr = post_jfs_wr;
  ops.post_jfr_wr = post_jfr_wr;
  ops.post_jetty_send_wr = post_jetty_send_wr;
  ops.post_jetty_recv_wr = post_jetty_recv_wr;
  ops.modify_jfc = &Slot<&CompletionQueue::modify, urma_jfc_t>::call;
  ops.rearm_jfc = &Slot<&CompletionQueue::arm, urma_jfc_t>::call;
  ops.wait_jfc = wait_jfc;
  ops.ack_jfc = ack_jfc;
  ops.poll_jfc = &CountSlot<&CompletionQueue::poll, urma_jfc_t>::call;
  return ops;
}

}  // namespace urma::local
