// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>

#include "jetty/channels.h"
#include "jetty/context.h"
#include "jetty/groups.h"
#include "jetty/network.h"
#include "jetty/notifier.h"
#include "jetty/ops.h"
#include "jetty/queues.h"
#include "jetty/remote.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

Context& context_of(const urma_context_t* ctx) {
  return *static_cast<Context*>(const_cast<urma_context_t*>(ctx));
}
RemoteQueue& queue_of(urma_target_jetty_t* target) { return *static_cast<RemoteQueue*>(target); }

// -------------------------------------------------------------------------------------------------
// Channels
// -------------------------------------------------------------------------------------------------

urma_status_t get_tp_list(urma_context_t* ctx, urma_get_tp_cfg_t* cfg, uint32_t* count,
                          urma_tp_info_t* list) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    if (!same_eid(cfg->local_eid, ctx->eid)) {
      fail(URMA_EINVAL, "get_tp_list: local_eid is not the EID of this context; pass ctx->eid");
    }
    const auto& flag = cfg->flag.bs;
    const bool any = flag.rtp == 0 && flag.ctp == 0 && flag.utp == 0;
    const std::pair<urma_tp_type_t, bool> types[] = {
        {URMA_RTP, flag.rtp != 0}, {URMA_CTP, flag.ctp != 0}, {URMA_UTP, flag.utp != 0}};
    uint32_t found = 0;
    for (const auto& [type, wished] : types) {
      if ((!any && !wished) || !type_allowed(cfg->trans_mode, type) || found == *count) continue;
      list[found++].tp_handle =
          context_of(ctx)
              .channels()
              .at(ChannelKey{cfg->local_eid, cfg->peer_eid, cfg->trans_mode, type})
              .handle;
    }
    if (found == 0) {
      fail(URMA_EINVAL, "get_tp_list: flag {:#x} has no channel type of trans_mode {}",
           cfg->flag.value, static_cast<uint32_t>(cfg->trans_mode));
    }
    *count = found;
    return URMA_SUCCESS;
  });
}

urma_status_t set_tp_attr(const urma_context_t* ctx, uint64_t handle, uint8_t /*count*/,
                          uint32_t bitmap, const urma_tp_attr_value_t* attr) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    context_of(ctx).channels().set(handle, bitmap, *attr);
    return URMA_SUCCESS;
  });
}

urma_status_t get_tp_attr(const urma_context_t* ctx, uint64_t handle, uint8_t* count,
                          uint32_t* bitmap, urma_tp_attr_value_t* attr) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    *attr = context_of(ctx).channels().at(handle).attr;
    *bitmap = ChannelTable::members();
    *count = static_cast<uint8_t>(std::popcount(*bitmap));
    return URMA_SUCCESS;
  });
}

// A channel has no device behind it that could change, so every allowed call succeeds.
int modify_tp(urma_context_t* ctx, uint32_t number, urma_tp_cfg_t* /*cfg*/, urma_tp_attr_t* attr,
              urma_tp_attr_mask_t mask) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    if (!context_of(ctx).channels().in_use(number)) {
      fail(URMA_EINVAL, "modify_tp: tpn {} is not a channel of this context", number);
    }
    if (mask.bs.reserved != 0) {
      fail(URMA_EINVAL, "modify_tp: mask {:#x} has undefined bits; see urma_tp_attr_mask_t",
           mask.value);
    }
    if (mask.bs.state != 0 && static_cast<uint32_t>(attr->state) > URMA_TP_STATE_ERROR) {
      fail(URMA_EINVAL, "modify_tp: invalid state {}; the highest is URMA_TP_STATE_ERROR ({})",
           static_cast<uint32_t>(attr->state), static_cast<uint32_t>(URMA_TP_STATE_ERROR));
    }
    return static_cast<int>(URMA_SUCCESS);
  });
}

int get_tpn(urma_jetty_t* jetty) noexcept {
  const urma_target_jetty_t* peer = jetty->remote_jetty;
  if (peer != nullptr && peer->tp.tpn != UINT32_MAX) return static_cast<int>(peer->tp.tpn);
  URMA_LOG_LIMITED(ERR, "get_tpn: jetty {:#x} has no channel of its own; bind an RC jetty first",
                   jetty->jetty_id.id);
  return -URMA_EINVAL;
}

struct PickedChannel {
  ChannelTable::Channel channel;
  ChannelUse use;
};

// The channel that a program has picked for a target; nothing if it did not pick one. Taken into
// use here, before anything is done: this can fail.
std::optional<PickedChannel> picked(urma_context_t* ctx, const urma_active_tp_cfg_t& cfg,
                                    const urma_eid_t& peer, urma_transport_mode_t mode) {
  if (cfg.tp_handle == 0) return std::nullopt;
  ChannelTable::Channel channel = context_of(ctx).channels().at(cfg.tp_handle);
  if (!same_eid(channel.key.peer, peer) || channel.key.mode != mode) {
    fail(URMA_EINVAL, "tp_handle {:#x} leads to another EID, or is for trans_mode {}, not {}",
         cfg.tp_handle, static_cast<uint32_t>(channel.key.mode), static_cast<uint32_t>(mode));
  }
  return PickedChannel{channel, context_of(ctx).use_channel(channel.number)};
}

urma_target_jetty_t* over(std::optional<PickedChannel>* picked,
                          urma_target_jetty_t* target) noexcept {
  if (!picked->has_value()) return target;
  const ChannelTable::Channel& channel = (*picked)->channel;
  queue_of(target).channel = std::move((*picked)->use);
  target->tp_type = channel.key.type;
  if (target->trans_mode != URMA_TM_RC) target->tp.tpn = channel.number;
  return target;
}

urma_target_jetty_t* import_jetty_ex(urma_context_t* ctx, urma_rjetty_t* rjetty,
                                     urma_token_t* token, urma_active_tp_cfg_t* cfg) noexcept {
  return guarded(URMA_LOG_SITE, [&]() -> urma_target_jetty_t* {
    auto channel = picked(ctx, *cfg, rjetty->jetty_id.eid, rjetty->trans_mode);
    return over(&channel, context_of(ctx).import_jetty(rjetty, token));
  });
}

urma_target_jetty_t* import_jfr_ex(urma_context_t* ctx, urma_rjfr_t* rjfr, urma_token_t* token,
                                   urma_active_tp_cfg_t* cfg) noexcept {
  return guarded(URMA_LOG_SITE, [&]() -> urma_target_jetty_t* {
    auto channel = picked(ctx, *cfg, rjfr->jfr_id.eid, rjfr->trans_mode);
    return over(&channel, context_of(ctx).import_jfr(rjfr, token));
  });
}

urma_status_t bind_jetty_ex(urma_jetty_t* jetty, urma_target_jetty_t* target,
                            urma_active_tp_cfg_t* cfg) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    auto channel = picked(jetty->urma_ctx, *cfg, target->id.eid, target->trans_mode);
    auto* own = static_cast<Jetty*>(jetty);
    const urma_status_t status = own->bind(&queue_of(target));
    if (status != URMA_SUCCESS) return status;
    if (channel.has_value()) over(&channel, target)->tp.tpn = channel->channel.number;
    own->connect_ahead();
    return URMA_SUCCESS;
  });
}

// -------------------------------------------------------------------------------------------------
// In the background
// -------------------------------------------------------------------------------------------------

Results& results_of(urma_notifier_t* notifier) {
  return static_cast<Notifier*>(notifier)->results();
}

urma_notifier_t* create_notifier(urma_context_t* ctx) noexcept {
  return guarded(URMA_LOG_SITE, [&]() -> urma_notifier_t* {
    return std::make_unique<Notifier>(ctx, &context_of(ctx).transport()).release();
  });
}

urma_status_t delete_notifier(urma_notifier_t* notifier) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    results_of(notifier).close();
    delete static_cast<Notifier*>(notifier);
    return URMA_SUCCESS;
  });
}

urma_target_jetty_t* import_jetty_async(urma_notifier_t* notifier, const urma_rjetty_t* rjetty,
                                        const urma_token_t* token, uint64_t user_ctx,
                                        int timeout_ms) noexcept {
  return guarded(URMA_LOG_SITE, [&]() -> urma_target_jetty_t* {
    urma_rjetty_t descriptor = *rjetty;
    urma_token_t value = *token;
    urma_target_jetty_t* target = context_of(notifier->urma_ctx).import_jetty(&descriptor, &value);
    RemoteQueue& queue = queue_of(target);
    queue.results = results_of(notifier).shared_from_this();
    uint64_t serial = 0;
    try {
      serial = queue.results->add(&queue, nullptr, user_ctx);
      queue.results->ask(serial, timeout_ms);
    } catch (...) {
      queue.results->drop(serial);
      queue.end_import();
      queue.drop_ref();
      throw;
    }
    return target;
  });
}

urma_status_t bind_jetty_async(urma_notifier_t* notifier, urma_jetty_t* jetty,
                               urma_target_jetty_t* target, uint64_t user_ctx,
                               int timeout_ms) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    auto* own = static_cast<Jetty*>(jetty);
    const std::shared_ptr<Results> results = results_of(notifier).shared_from_this();
    // Before the bind, so that an unbind finds it at any time.
    const uint64_t serial = results->add(&queue_of(target), jetty, user_ctx);
    bool anew = false;
    try {
      const urma_status_t status = own->bind(&queue_of(target), results, &anew);
      if (status != URMA_SUCCESS) {
        results->drop(serial);
      } else if (anew) {
        results->ask(serial, timeout_ms);
      } else {
        results->end(serial, URMA_SUCCESS);
      }
      if (anew) own->connect_ahead();
      return status;
    } catch (...) {
      results->drop(serial);
      if (anew) own->unbind();
      throw;
    }
  });
}

int wait_notify(urma_notifier_t* notifier, uint32_t count, urma_notify_t* notify,
                int timeout_ms) noexcept {
  const auto wait = [&] { return results_of(notifier).wait(count, notify, timeout_ms); };
  return std::max(guarded_count(URMA_LOG_SITE, wait), -1);
}

// -------------------------------------------------------------------------------------------------
// Groups, addresses, advice
// -------------------------------------------------------------------------------------------------

urma_jetty_grp_t* create_jetty_grp(urma_context_t* ctx, urma_jetty_grp_cfg_t* cfg) noexcept {
  return guarded(URMA_LOG_SITE, [&] { return make_group(&context_of(ctx), *cfg); });
}

urma_status_t delete_jetty_grp(urma_jetty_grp_t* group) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    end_group(group);
    return URMA_SUCCESS;
  });
}

// Throws Error if the EID is not one of the device's, which it shares with all its peers.
const urma_eid_t& require_known(const urma_context_t* ctx, const urma_eid_t& eid) {
  const auto eids = context_of(ctx).transport().eids();
  const auto known =
      std::find_if(eids.begin(), eids.end(), [&](const auto& one) { return same_eid(one, eid); });
  if (known == eids.end()) {
    fail(URMA_FAIL, "the address is not one of device {}; see urma_get_eid_list", ctx->dev->name);
  }
  return *known;
}

urma_status_t get_eid_by_ip(const urma_context_t* ctx, const urma_net_addr_t* address,
                            urma_eid_t* eid) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    *eid = require_known(ctx, eid_of(*address));
    return URMA_SUCCESS;
  });
}

urma_status_t get_ip_by_eid(const urma_context_t* ctx, const urma_eid_t* eid,
                            urma_net_addr_t* address) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    const urma_net_addr_t found = address_of(*eid);
    require_known(ctx, *eid);
    *address = found;
    return URMA_SUCCESS;
  });
}

urma_status_t get_smac(const urma_context_t* ctx, uint8_t* mac) noexcept {
  std::ranges::copy(mac_of(ctx->eid), mac);
  return URMA_SUCCESS;
}

urma_status_t get_dmac(const urma_context_t* ctx, const urma_net_addr_t* address,
                       uint8_t* mac) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    std::ranges::copy(mac_of(require_known(ctx, eid_of(*address))), mac);
    return URMA_SUCCESS;
  });
}

// A hint: the connection to the owner is made now, and the first request need not wait for it.
template <typename Object, typename Handle>
urma_status_t advise(Handle* queue, urma_target_jetty_t* target) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    Sender* sender = static_cast<Object*>(queue)->sender();
    return sender == nullptr ? refuse_inactive("advise") : sender->advise(&queue_of(target));
  });
}

// The owner is asked afterwards: it decides whether a connection can be made.
urma_status_t advise_jfr_async(urma_jfs_t* jfs, urma_target_jetty_t* target,
                               urma_advise_async_cb_func done, void* arg) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    const urma_status_t status = advise<Jfs>(jfs, target);
    if (status != URMA_SUCCESS) return status;
    const RemoteQueue& remote = queue_of(target);
    const ProbeTarget asked = {remote.id.eid, remote.id.id, static_cast<uint32_t>(remote.type),
                               static_cast<uint32_t>(remote.trans_mode), remote.token.token};
    Transport* const transport = &context_of(jfs->urma_ctx).transport();
    transport->service().post([=, ended = transport->ended()] {
      if (*ended) return;
      const auto ask = [&] {
        transport->probe(asked, [=](Answer answer) { done(result_of(answer), arg); });
        return URMA_SUCCESS;
      };
      if (guarded(URMA_LOG_SITE, ask) != URMA_SUCCESS) done(URMA_FAIL, arg);
    });
    return URMA_SUCCESS;
  });
}

template <typename Object, typename Handle>
urma_status_t unadvise(Handle* queue, urma_target_jetty_t* target) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    Sender* sender = static_cast<Object*>(queue)->sender();
    return sender == nullptr ? refuse_inactive("unadvise") : sender->unadvise(&queue_of(target));
  });
}

}  // namespace

void add_control_ops(urma_ops_t* ops) {
  ops->get_tp_list = get_tp_list;
  ops->set_tp_attr = set_tp_attr;
  ops->get_tp_attr = get_tp_attr;
  ops->modify_tp = modify_tp;
  ops->get_tpn = get_tpn;
  ops->import_jetty_ex = import_jetty_ex;
  ops->import_jfr_ex = import_jfr_ex;
  ops->bind_jetty_ex = bind_jetty_ex;
  ops->bind_jetty = [](urma_jetty_t* jetty, urma_target_jetty_t* target) {
    urma_active_tp_cfg_t any_channel = {};
    return bind_jetty_ex(jetty, target, &any_channel);
  };
  ops->create_notifier = create_notifier;
  ops->delete_notifier = delete_notifier;
  ops->import_jetty_async = import_jetty_async;
  ops->unimport_jetty_async = ops->unimport_jetty;
  ops->bind_jetty_async = bind_jetty_async;
  ops->unbind_jetty_async = ops->unbind_jetty;
  ops->wait_notify = wait_notify;
  // wait_notify has done it already.
  ops->ack_notify = [](uint32_t /*count*/, urma_notify_t* /*notify*/) {};
  ops->create_jetty_grp = create_jetty_grp;
  ops->delete_jetty_grp = delete_jetty_grp;
  ops->get_eid_by_ip = get_eid_by_ip;
  ops->get_ip_by_eid = get_ip_by_eid;
  ops->get_smac = get_smac;
  ops->get_dmac = get_dmac;
  ops->advise_jfr = advise<Jfs>;
  ops->advise_jfr_async = advise_jfr_async;
  ops->unadvise_jfr = unadvise<Jfs>;
  ops->advise_jetty = advise<Jetty>;
  ops->unadvise_jetty = unadvise<Jetty>;
}

}  // namespace urma
