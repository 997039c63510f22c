// SPDX-License-Identifier: MIT
//
// Targets: importing remote queues, connecting to them ahead of time, and binding RC jetties.
#include <cstring>
#include <utility>

#include "urma/base/bits.h"
#include "urma/core/api/bonding.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/api/targets.h"
#include "urma_api.h"

namespace urma::core {

void adopt_target(urma_context_t* ctx, urma_target_jetty_t& target, const urma_rjetty_t& remote) {
  target.urma_ctx = ctx;
  if (bits_of(target.trans_mode) == 0) {
    target.id = remote.jetty_id;
    std::memcpy(&target.trans_mode, &remote.trans_mode, sizeof target.trans_mode);
    target.type = remote.type;
    target.policy = remote.policy;
    target.tp_type = remote.tp_type;
    target.flag = remote.flag;
    if (bits_of(remote.trans_mode) == URMA_TM_RC) target.tp.tpn = UINT32_MAX;
  }
  object_made(ctx, Living::kImportedQueue);
}

urma_status_t check_bind(const char* call, const urma_jetty_t& jetty,
                         const urma_target_jetty_t& target) {
  const urma_jfs_cfg_t& send = jetty.jetty_cfg.jfs_cfg;
  if (bits_of(send.trans_mode) != URMA_TM_RC || bits_of(target.trans_mode) != URMA_TM_RC) {
    URMA_LOG_LIMITED(
        ERR, "{}: trans_mode of the jetty is {}, of the target {}; both must be URMA_TM_RC (2)",
        call, bits_of(send.trans_mode), bits_of(target.trans_mode));
    return URMA_ENOPERM;
  }
  const auto own = resolve_order(send.trans_mode, send.flag.bs.order_type);
  const auto other = resolve_order(target.trans_mode, target.flag.bs.order_type);
  if (own != other) {
    URMA_LOG_LIMITED(ERR, "{}: order_type of the jetty is {}, of the target {}; both must be equal",
                     call, *own, *other);
    return URMA_ENOPERM;
  }
  return URMA_SUCCESS;
}

// Only compares the peer: another thread may end it.
urma_status_t check_bound(const char* call, const urma_jetty_t& jetty,
                          const urma_target_jetty_t* peer, const urma_target_jetty_t& target) {
  if (peer == &target) return URMA_SUCCESS;
  URMA_LOG_LIMITED(ERR,
                   "{}: jetty {} cannot be bound to jetty {}, it is bound to another one already; "
                   "call urma_unbind_jetty first",
                   call, jetty.jetty_id.id, target.id.id);
  return URMA_EEXIST;
}

urma_status_t check_unbind(const char* call, urma_jetty_t& jetty) {
  if (!given(call, "the peer of the jetty", peer_of(jetty).load())) return URMA_EINVAL;
  const uint32_t mode = bits_of(jetty.jetty_cfg.jfs_cfg.trans_mode);
  if (mode == URMA_TM_RC) return URMA_SUCCESS;
  URMA_LOG_LIMITED(ERR, "{}: trans_mode of the jetty is {}; only URMA_TM_RC (2) is bound", call,
                   mode);
  return URMA_ENOPERM;
}

namespace {

// Only a provider that picks channels itself supports a shared channel.
bool check_share_tp(const char* call, const urma_import_jetty_flag_t& flag) {
  if (flag.bs.share_tp == 0) return true;
  URMA_LOG_LIMITED(ERR, "{}: share_tp 1 is not possible with this provider; use 0", call);
  return false;
}

// A JFR is a target like a jetty, with fewer members.
urma_rjetty_t as_rjetty(const urma_rjfr_t& rjfr) {
  urma_rjetty_t rjetty;
  std::memset(&rjetty, 0, sizeof rjetty);
  rjetty.jetty_id = rjfr.jfr_id;
  std::memcpy(&rjetty.trans_mode, &rjfr.trans_mode, sizeof rjetty.trans_mode);
  rjetty.type = URMA_JFR;
  rjetty.flag = rjfr.flag;
  rjetty.tp_type = rjfr.tp_type;
  return rjetty;
}
const urma_rjetty_t& as_rjetty(const urma_rjetty_t& rjetty) { return rjetty; }

// The queue that will send to the target, behind its descriptor.
const void* local_queue(const urma_rjetty_t& remote) {
  return reinterpret_cast<const bondp_rjetty_t&>(remote).jetty;
}
const void* local_queue(const urma_rjfr_t& remote) {
  return reinterpret_cast<const bondp_rjfr_t&>(remote).jetty;
}

// In mode RM, the jetty of an aggregated context that the import is for: the target becomes its
// peer.
template <typename Remote>
urma_jetty_t* jetty_to_pair(const ObjectPorts* table, const Remote& remote) {
  if (table == nullptr || remote.flag.bs.has_drv_ext == 0 ||
      bits_of(remote.trans_mode) != URMA_TM_RM) {
    return nullptr;
  }
  return table->jetty_at(local_queue(remote));
}

template <typename Remote, typename Import>
urma_target_jetty_t* import_target(urma_context_t* ctx, Remote* remote, Import import) {
  settle_order(*remote);
  ObjectPorts* table = object_ports(ctx);
  urma_jetty_t* jetty = jetty_to_pair(table, *remote);
  ObjectPorts::Pairs::node_type pair;
  if (jetty != nullptr) pair = ObjectPorts::pair_with(jetty);
  urma_target_jetty_t* target = import();
  if (target == nullptr) return nullptr;
  adopt_target(ctx, *target, as_rjetty(*remote));
  if (jetty != nullptr) table->pair(std::move(pair), target);
  return target;
}

// import_* of the provider, else import_*_ex with an empty channel.
template <auto Op, auto ExOp, typename Remote>
urma_target_jetty_t* import_plain(const char* call, urma_context_t* ctx, Remote* remote,
                                  urma_token_t* token) {
  if (auto* op = find_slot<Op>(ctx)) {
    return import_target(ctx, remote, [&] { return op(ctx, remote, token); });
  }
  auto* ex_op = slot<ExOp>(call, ctx);
  if (ex_op == nullptr || !check_share_tp(call, remote->flag)) return refused();
  urma_active_tp_cfg_t channel = {};
  return import_target(ctx, remote, [&] { return ex_op(ctx, remote, token, &channel); });
}

template <auto Op, typename Remote>
urma_target_jetty_t* import_over(const char* call, urma_context_t* ctx, Remote* remote,
                                 urma_token_t* token, urma_active_tp_cfg_t* channel) {
  return pointer_entry(call, [&](const char*) -> urma_target_jetty_t* {
    auto* op = slot<Op>(call, ctx);
    if (op == nullptr || !given(call, "the remote descriptor", remote) ||
        !given(call, "token_value", token) || !given(call, "cfg", channel) ||
        !check_default_order(call, remote->trans_mode, remote->flag.bs.order_type)) {
      return refused();
    }
    return import_target(ctx, remote, [&] { return op(ctx, remote, token, channel); });
  });
}

const urma_transport_mode_t& mode_of(const urma_jfs_t& jfs) { return jfs.jfs_cfg.trans_mode; }
const urma_transport_mode_t& mode_of(const urma_jetty_t& jetty) {
  return jetty.jetty_cfg.jfs_cfg.trans_mode;
}

template <typename Queue>
bool check_advise(const char* call, const Queue* queue, const urma_target_jetty_t* target) {
  if (!open_gate(call, context_of(queue)) || !given(call, "the target", target)) return false;
  if (bits_of(mode_of(*queue)) == URMA_TM_RM && bits_of(target->trans_mode) == URMA_TM_RM) {
    return true;
  }
  URMA_LOG_LIMITED(
      ERR, "{}: trans_mode of the queue is {}, of the target {}; both must be URMA_TM_RM (1)", call,
      bits_of(mode_of(*queue)), bits_of(target->trans_mode));
  return false;
}

bool is_ub(const urma_context_t* ctx) { return ctx->dev->type == URMA_TRANSPORT_UB; }

// A UB device needs no advice, so the call cannot fail there; a provider that makes connections
// takes it as a hint.
template <auto Op, typename Queue>
urma_status_t hint(const char* call, Queue* queue, urma_target_jetty_t* target) {
  if (auto* op = find_slot<Op>(queue)) {
    guarded(site_of(call), [&]() -> urma_status_t { return op(queue, target); });
  }
  return URMA_SUCCESS;
}

template <auto Op, typename Queue>
urma_status_t advise(const char* call, Queue* queue, urma_target_jetty_t* target) {
  return entry(call, [&](const char*) -> urma_status_t {
    if (!check_advise(call, queue, target)) return URMA_EINVAL;
    if (is_ub(queue->urma_ctx)) return hint<Op>(call, queue, target);
    return status_call<Op>(call, queue, queue, target);
  });
}

template <auto Op, typename Queue>
urma_status_t unadvise(const char* call, Queue* queue, urma_target_jetty_t* target) {
  return entry(call, [&](const char*) -> urma_status_t {
    if (!check_advise(call, queue, target)) return URMA_EINVAL;
    if (is_ub(queue->urma_ctx)) return URMA_SUCCESS;
    return status_call<Op>(call, queue, queue, target);
  });
}

}  // namespace
}  // namespace urma::core

using namespace urma::core;  // NOLINT(build/namespaces)

// -------------------------------------------------------------------------------------------------
// Importing
// -------------------------------------------------------------------------------------------------

URMA_EXPORT urma_target_jetty_t* urma_import_jfr(urma_context_t* ctx, urma_rjfr_t* rjfr,
                                                 urma_token_t* token_value) {
  return pointer_entry(__func__, [&](const char* call) -> urma_target_jetty_t* {
    if (!open_gate(call, ctx) || !given(call, "rjfr", rjfr) ||
        !check_token(call, rjfr->flag.bs.token_policy, token_value) ||
        !check_default_order(call, rjfr->trans_mode, rjfr->flag.bs.order_type)) {
      return refused();
    }
    return import_plain<&urma_ops_t::import_jfr, &urma_ops_t::import_jfr_ex>(call, ctx, rjfr,
                                                                             token_value);
  });
}

URMA_EXPORT urma_target_jetty_t* urma_import_jfr_ex(urma_context_t* ctx, urma_rjfr_t* rjfr,
                                                    urma_token_t* token_value,
                                                    urma_import_jfr_ex_cfg_t* cfg) {
  return import_over<&urma_ops_t::import_jfr_ex>(__func__, ctx, rjfr, token_value, cfg);
}

URMA_EXPORT urma_status_t urma_unimport_jfr(urma_target_jetty_t* target_jfr) {
  return unimport<&urma_ops_t::unimport_jfr>(__func__, target_jfr);
}

URMA_EXPORT urma_target_jetty_t* urma_import_jetty(urma_context_t* ctx, urma_rjetty_t* rjetty,
                                                   urma_token_t* token_value) {
  return pointer_entry(__func__, [&](const char* call) -> urma_target_jetty_t* {
    if (!open_gate(call, ctx) || !given(call, "rjetty", rjetty) ||
        !check_order(call, rjetty->trans_mode, rjetty->flag.bs.order_type) ||
        !check_tp_type(call, rjetty->trans_mode, rjetty->tp_type)) {
      return refused();
    }
    return import_plain<&urma_ops_t::import_jetty, &urma_ops_t::import_jetty_ex>(call, ctx, rjetty,
                                                                                 token_value);
  });
}

URMA_EXPORT urma_target_jetty_t* urma_import_jetty_ex(urma_context_t* ctx, urma_rjetty_t* rjetty,
                                                      urma_token_t* token_value,
                                                      urma_import_jetty_ex_cfg_t* cfg) {
  return import_over<&urma_ops_t::import_jetty_ex>(__func__, ctx, rjetty, token_value, cfg);
}

URMA_EXPORT urma_status_t urma_unimport_jetty(urma_target_jetty_t* tjetty) {
  return unimport<&urma_ops_t::unimport_jetty>(__func__, tjetty);
}

// -------------------------------------------------------------------------------------------------
// Advising
// -------------------------------------------------------------------------------------------------

URMA_EXPORT urma_status_t urma_advise_jfr(urma_jfs_t* jfs, urma_target_jetty_t* tjfr) {
  return advise<&urma_ops_t::advise_jfr>(__func__, jfs, tjfr);
}

URMA_EXPORT urma_status_t urma_advise_jfr_async(urma_jfs_t* jfs, urma_target_jetty_t* tjfr,
                                                urma_advise_async_cb_func cb_fun, void* cb_arg) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!given(call, "cb_fun", reinterpret_cast<const void*>(cb_fun)) ||
        !given(call, "cb_arg", cb_arg) || !check_advise(call, jfs, tjfr)) {
      return URMA_EINVAL;
    }
    if (jfs->urma_ctx != tjfr->urma_ctx) {
      URMA_LOG_LIMITED(
          ERR,
          "{}: jfs and target are of different contexts; import the target with the context "
          "of the jfs",
          call);
      return URMA_EINVAL;
    }
    if (is_ub(jfs->urma_ctx)) return hint<&urma_ops_t::advise_jfr>(call, jfs, tjfr);
    return status_call<&urma_ops_t::advise_jfr_async>(call, jfs, jfs, tjfr, cb_fun, cb_arg);
  });
}

URMA_EXPORT urma_status_t urma_unadvise_jfr(urma_jfs_t* jfs, urma_target_jetty_t* tjfr) {
  return unadvise<&urma_ops_t::unadvise_jfr>(__func__, jfs, tjfr);
}

URMA_EXPORT urma_status_t urma_advise_jetty(urma_jetty_t* jetty, urma_target_jetty_t* tjetty) {
  return advise<&urma_ops_t::advise_jetty>(__func__, jetty, tjetty);
}

URMA_EXPORT urma_status_t urma_unadvise_jetty(urma_jetty_t* jetty, urma_target_jetty_t* tjetty) {
  return unadvise<&urma_ops_t::unadvise_jetty>(__func__, jetty, tjetty);
}

// -------------------------------------------------------------------------------------------------
// Binding
// -------------------------------------------------------------------------------------------------

URMA_EXPORT urma_status_t urma_bind_jetty(urma_jetty_t* jetty, urma_target_jetty_t* tjetty) {
  if (auto* op = find_slot<&urma_ops_t::bind_jetty>(jetty)) {
    return bind(__func__, jetty, tjetty, [&] { return op(jetty, tjetty); });
  }
  auto* ex_op = slot<&urma_ops_t::bind_jetty_ex>(__func__, jetty);
  if (ex_op == nullptr) return URMA_EINVAL;
  urma_active_tp_cfg_t channel = {};
  return bind(__func__, jetty, tjetty, [&] { return ex_op(jetty, tjetty, &channel); });
}

URMA_EXPORT urma_status_t urma_bind_jetty_ex(urma_jetty_t* jetty, urma_target_jetty_t* tjetty,
                                             urma_bind_jetty_ex_cfg_t* cfg) {
  auto* op = slot<&urma_ops_t::bind_jetty_ex>(__func__, jetty);
  if (op == nullptr || !given(__func__, "cfg", cfg)) return URMA_EINVAL;
  return bind(__func__, jetty, tjetty, [&] { return op(jetty, tjetty, cfg); });
}

URMA_EXPORT urma_status_t urma_unbind_jetty(urma_jetty_t* jetty) {
  return unbind<&urma_ops_t::unbind_jetty>(__func__, jetty);
}
