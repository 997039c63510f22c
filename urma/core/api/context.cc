// SPDX-License-Identifier: MIT
//
// The calls on an open context: closing it, its options, commands to its provider, and its
// asynchronous events.
#include <unistd.h>

#include <string_view>
#include <utility>

#include "urma/base/bits.h"
#include "urma/core/api/bonding.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/core.h"
#include "urma_api.h"
#include "urma_ubagg.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

// Providers answer with an errno number of either sign.
urma_status_t status_of_command(int result) {
  if (result == 0) return URMA_SUCCESS;
  return result == EPERM || result == -EPERM ? URMA_ENOPERM : URMA_FAIL;
}

bool check_aggregated(const char* call, const urma_context_t* ctx) {
  const urma_provider_ops_t* provider = ctx->dev->ops;
  const std::string_view name =
      provider == nullptr || provider->name == nullptr ? "" : provider->name;
  if (name == kAggregatingProvider) return true;
  URMA_LOG_LIMITED(ERR,
                   "{}: device {} of provider '{}' is not aggregated; only provider {} has "
                   "options",
                   call, ctx->dev->name, name, kAggregatingProvider);
  return false;
}

}  // namespace

URMA_EXPORT urma_status_t urma_delete_context(urma_context_t* ctx) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, ctx)) return URMA_EINVAL;
    const urma_provider_ops_t* provider = ctx->dev->ops;
    if (provider == nullptr || provider->delete_context == nullptr) {
      report_unusable(call, ctx);
      return URMA_EINVAL;
    }
    if (refs(ctx->ref) > 1) {
      URMA_LOG_LIMITED(ERR,
                       "urma_delete_context: {} objects of the context still live, {}; end them "
                       "first",
                       refs(ctx->ref) - 1, living_objects(ctx));
      return URMA_EAGAIN;
    }
    const int fd = ctx->dev_fd;
    auto living = context_ends(ctx);
    Rollback undo([&] { context_lives_on(std::move(living)); });
    ProviderView view(ctx, device_table().real_device(ctx->dev));
    const urma_status_t status = provider->delete_context(ctx);
    if (status != URMA_SUCCESS) return status;
    undo.dismiss();
    view.context_gone();
    if (fd >= 0) close(fd);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_set_context_opt(urma_context_t* ctx, urma_opt_name_t opt_name,
                                               const void* opt_value, size_t opt_len) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    auto* op = slot<&urma_ops_t::user_ctl>(call, ctx);
    if (op == nullptr || !given(call, "opt_value", opt_value) || !check_aggregated(call, ctx)) {
      return URMA_EINVAL;
    }
    if (urma::bits_of(opt_name) != URMA_OPT_AGGR_MODE ||
        opt_len != sizeof(urma_context_aggr_mode_t)) {
      URMA_LOG_LIMITED(ERR,
                       "urma_set_context_opt: option {} with length {} is unknown; the only one "
                       "is URMA_OPT_AGGR_MODE (0), of length {}",
                       urma::bits_of(opt_name), opt_len, sizeof(urma_context_aggr_mode_t));
      return URMA_EINVAL;
    }
    urma_user_ctl_in_t in = {};
    in.addr = reinterpret_cast<uint64_t>(opt_value);
    in.len = static_cast<uint32_t>(opt_len);
    in.opcode = BONDP_USER_CTL_SET_BONDING_MODE_LEGACY;
    urma_user_ctl_out_t out = {};
    return status_of_command(op(ctx, &in, &out));
  });
}

URMA_EXPORT urma_status_t urma_user_ctl(urma_context_t* ctx, urma_user_ctl_in_t* in,
                                        urma_user_ctl_out_t* out) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    auto* op = slot<&urma_ops_t::user_ctl>(call, ctx);
    if (op == nullptr || !given(call, "in", in) || !given(call, "out", out)) {
      return URMA_EINVAL;
    }
    return status_of_command(op(ctx, in, out));
  });
}

// -------------------------------------------------------------------------------------------------
// Asynchronous events
// -------------------------------------------------------------------------------------------------

URMA_EXPORT urma_status_t urma_get_async_event(urma_context_t* ctx, urma_async_event_t* event) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    auto* op = slot<&urma_ops_t::get_async_event>(call, ctx);
    if (op == nullptr || !given(call, "event", event)) return URMA_EINVAL;
    if (op(ctx, event) != URMA_SUCCESS) return URMA_FAIL;
    event->urma_ctx = ctx;
    return URMA_SUCCESS;
  });
}

URMA_EXPORT void urma_ack_async_event(urma_async_event_t* event) {
  auto* op = find_slot<&urma_ops_t::ack_async_event>(event);
  if (op != nullptr) urma::guarded(URMA_LOG_SITE, [&] { op(event); });
}
