// SPDX-License-Identifier: MIT
//
// The calls for remote objects, targets and segments; and those that import and bind in the
// background.
#include <cerrno>
#include <cstring>

#include "test/model/executor.h"

namespace urma_model {
namespace {

void ignore_advice(urma_status_t, void*) {}

template <typename Enum>
void put(uint32_t value, Enum* into) {
  std::memcpy(into, &value, sizeof value);
}

}  // namespace

urma_rjetty_t Executor::remote_of(const Call& c) const {
  urma_rjetty_t remote = {};
  if (const auto* ctx = at<urma_context_t>(c.group); ctx != nullptr) remote.jetty_id.eid = ctx->eid;
  remote.jetty_id.id = c.remote_id;
  put(c.config.mode, &remote.trans_mode);
  put(static_cast<uint32_t>(c.number), &remote.type);
  remote.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
  remote.flag.bs.token_policy = c.config.policy & 7;
  remote.flag.bs.order_type = c.config.order & 0xff;
  put(c.config.access, &remote.tp_type);
  return remote;
}

// The choice of a caller of the *_ex calls: the first channel of the mode and type.
uint64_t Executor::find_channel(const Call& c) const {
  auto* ctx = at<urma_context_t>(c.group);
  if (ctx == nullptr) return 0;
  urma_get_tp_cfg_t filter = {};
  filter.flag.bs.rtp = c.config.access == URMA_RTP ? 1 : 0;
  filter.flag.bs.ctp = c.config.access == URMA_CTP ? 1 : 0;
  filter.flag.bs.utp = c.config.access == URMA_UTP ? 1 : 0;
  put(c.config.mode, &filter.trans_mode);
  filter.local_eid = filter.peer_eid = ctx->eid;
  std::array<urma_tp_info_t, 2> channels = {};
  uint32_t count = 2;
  urma_get_tp_list(ctx, &filter, &count, channels.data());
  return channels[0].tp_handle;
}

bool Executor::run_target(const Call& c, Result* r) {
  auto* ctx = at<urma_context_t>(c.on);
  urma_rjetty_t rjetty = remote_of(c);
  urma_rjfr_t rjfr = {rjetty.jetty_id, {}, rjetty.flag, rjetty.tp_type};
  put(c.config.mode, &rjfr.trans_mode);
  urma_token_t token = {c.config.token};
  urma_active_tp_cfg_t channel = {};
  const bool over_channel = c.fn == Fn::urma_import_jfr_ex || c.fn == Fn::urma_import_jetty_ex ||
                            c.fn == Fn::urma_bind_jetty_ex;
  if (over_channel) channel.tp_handle = find_channel(c);
  auto* target = at<urma_target_jetty_t>(c.other);
  switch (c.fn) {
    case Fn::urma_import_jfr:
      return made(c,
                  urma_import_jfr(ctx, unless_null(c, kFirstNull, &rjfr),
                                  unless_null(c, kSecondNull, &token)),
                  r);
    case Fn::urma_import_jfr_ex:
      return made(c,
                  urma_import_jfr_ex(ctx, unless_null(c, kFirstNull, &rjfr),
                                     unless_null(c, kSecondNull, &token),
                                     unless_null(c, kThirdNull, &channel)),
                  r);
    case Fn::urma_import_jetty:
      return made(c,
                  urma_import_jetty(ctx, unless_null(c, kFirstNull, &rjetty),
                                    unless_null(c, kSecondNull, &token)),
                  r);
    case Fn::urma_import_jetty_ex:
      return made(c,
                  urma_import_jetty_ex(ctx, unless_null(c, kFirstNull, &rjetty),
                                       unless_null(c, kSecondNull, &token),
                                       unless_null(c, kThirdNull, &channel)),
                  r);
    case Fn::urma_unimport_jfr:
      return ended(c, urma_unimport_jfr(at<urma_target_jetty_t>(c.on)), r);
    case Fn::urma_unimport_jetty:
      return ended(c, urma_unimport_jetty(at<urma_target_jetty_t>(c.on)), r);
    case Fn::urma_advise_jfr:
      return status(urma_advise_jfr(at<urma_jfs_t>(c.on), target), r);
    case Fn::urma_advise_jfr_async:
      return status(urma_advise_jfr_async(at<urma_jfs_t>(c.on), target,
                                          (c.nulls & kFirstNull) != 0 ? nullptr : ignore_advice,
                                          unless_null(c, kSecondNull, &channel)),
                    r);
    case Fn::urma_unadvise_jfr:
      return status(urma_unadvise_jfr(at<urma_jfs_t>(c.on), target), r);
    case Fn::urma_advise_jetty:
      return status(urma_advise_jetty(at<urma_jetty_t>(c.on), target), r);
    case Fn::urma_unadvise_jetty:
      return status(urma_unadvise_jetty(at<urma_jetty_t>(c.on), target), r);
    case Fn::urma_bind_jetty:
      return status(urma_bind_jetty(at<urma_jetty_t>(c.on), target), r);
    case Fn::urma_bind_jetty_ex:
      return status(
          urma_bind_jetty_ex(at<urma_jetty_t>(c.on), target, unless_null(c, kFirstNull, &channel)),
          r);
    case Fn::urma_unbind_jetty:
      return status(urma_unbind_jetty(at<urma_jetty_t>(c.on)), r);
    case Fn::urma_get_rjetty: {
      urma_rjetty_t* made_one = nullptr;
      uint32_t length = 0;
      r->value = urma_get_rjetty(at<urma_jetty_t>(c.on), unless_null(c, kFirstNull, &made_one),
                                 unless_null(c, kSecondNull, &length));
      r->out = length;
      r->out2 = made_one == nullptr ? 0 : made_one->jetty_id.id;
      urma_put_rjetty(made_one);
      return true;
    }
    case Fn::urma_put_rjetty:
      urma_put_rjetty(nullptr);
      return true;
    case Fn::urma_get_tpn:
      return status(urma_get_tpn(at<urma_jetty_t>(c.on)), r);
    default:
      return false;
  }
}

bool Executor::run_segment(const Call& c, Result* r) {
  auto* ctx = at<urma_context_t>(c.on);
  switch (c.fn) {
    case Fn::urma_alloc_token_id:
    case Fn::urma_alloc_token_id_ex: {
      urma_token_id_flag_t flag = {};
      flag.bs.multi_seg = c.number & 1;
      urma_token_id_t* token = c.fn == Fn::urma_alloc_token_id ? urma_alloc_token_id(ctx)
                                                               : urma_alloc_token_id_ex(ctx, flag);
      if (token != nullptr) r->id = token->token_id;
      return made(c, token, r);
    }
    case Fn::urma_free_token_id:
      return ended(c, urma_free_token_id(at<urma_token_id_t>(c.on)), r);
    case Fn::urma_register_seg: {
      urma_seg_cfg_t cfg = {};
      cfg.va = c.number == 1 ? 0 : address(c.config.at);
      cfg.len = c.config.length;
      cfg.token_id = at<urma_token_id_t>(c.other);
      cfg.token_value.token = c.config.token;
      cfg.flag.bs.token_policy = c.config.policy & 7;
      cfg.flag.bs.access = c.config.access & 63;
      cfg.flag.bs.token_id_valid = c.config.token_given ? 1 : 0;
      urma_target_seg_t* segment = urma_register_seg(ctx, unless_null(c, kFirstNull, &cfg));
      if (segment != nullptr) r->id = segment->seg.token_id;
      return made(c, segment, r);
    }
    case Fn::urma_unregister_seg:
      return ended(c, urma_unregister_seg(at<urma_target_seg_t>(c.on)), r);
    case Fn::urma_import_seg: {
      urma_seg_t remote = {};
      if (const auto* any = at<urma_context_t>(c.group); any != nullptr) remote.ubva.eid = any->eid;
      remote.ubva.va = address(c.config.at);
      remote.len = c.config.length;
      remote.token_id = c.remote_id;
      remote.attr.bs.token_policy = c.config.policy & 7;
      urma_token_t token = {c.config.token};
      return made(c,
                  urma_import_seg(ctx, unless_null(c, kFirstNull, &remote),
                                  unless_null(c, kSecondNull, &token), 0, {}),
                  r);
    }
    case Fn::urma_unimport_seg:
      return ended(c, urma_unimport_seg(at<urma_target_seg_t>(c.on)), r);
    case Fn::urma_get_seg_ctx: {
      urma_seg_t* descriptor = nullptr;
      uint32_t size = 0;
      r->value =
          urma_get_seg_ctx(at<urma_target_seg_t>(c.on), unless_null(c, kFirstNull, &descriptor),
                           unless_null(c, kSecondNull, &size));
      r->out = size;
      r->out2 = descriptor == nullptr ? 0 : descriptor->len;
      urma_put_seg_ctx(descriptor);
      return true;
    }
    case Fn::urma_put_seg_ctx:
      urma_put_seg_ctx(nullptr);
      return true;
    default:
      return false;
  }
}

bool Executor::run_notify(const Call& c, Result* r) {
  auto* notifier = at<urma_notifier_t>(c.on);
  switch (c.fn) {
    case Fn::urma_create_notifier:
      return made(c, urma_create_notifier(at<urma_context_t>(c.on)), r);
    case Fn::urma_delete_notifier:
      return ended(c, urma_delete_notifier(notifier), r);
    case Fn::urma_import_jetty_async: {
      const urma_rjetty_t remote = remote_of(c);
      const urma_token_t token = {c.config.token};
      return made(c,
                  urma_import_jetty_async(notifier, unless_null(c, kFirstNull, &remote),
                                          unless_null(c, kSecondNull, &token), c.value, 5000),
                  r);
    }
    case Fn::urma_unimport_jetty_async:
      return ended(c, urma_unimport_jetty_async(at<urma_target_jetty_t>(c.on)), r);
    case Fn::urma_bind_jetty_async:
      return status(urma_bind_jetty_async(notifier, at<urma_jetty_t>(c.other),
                                          at<urma_target_jetty_t>(c.more), c.value, 5000),
                    r);
    case Fn::urma_unbind_jetty_async:
      return status(urma_unbind_jetty_async(at<urma_jetty_t>(c.on)), r);
    case Fn::urma_wait_notify: {
      std::array<urma_notify_t, 4> results = {};
      r->value = uninterrupted([&] {
        return urma_wait_notify(notifier, static_cast<uint32_t>(c.number),
                                unless_null(c, kFirstNull, results.data()),
                                static_cast<int>(c.value));
      });
      for (int64_t i = 0; i < r->value; ++i) {
        const urma_notify_t& one = results[static_cast<size_t>(i)];
        Record& into = r->record[static_cast<size_t>(r->count++)];
        into.owner =
            one.type == URMA_IMPORT_JETTY_NOTIFY ? slot_of(one.tjetty) : slot_of(one.jetty);
        into.status = one.status;
        into.user_ctx = one.user_ctx;
        into.opcode = one.type;
      }
      return true;
    }
    case Fn::urma_ack_notify: {
      urma_notify_t nothing = {};
      return status(
          urma_ack_notify(at<urma_context_t>(c.on), 1, unless_null(c, kFirstNull, &nothing)), r);
    }
    default:
      return false;
  }
}

}  // namespace urma_model
