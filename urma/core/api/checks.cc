// SPDX-License-Identifier: MIT
#include "urma/core/api/checks.h"

#include "urma/base/bits.h"
#include "urma/core/process/core.h"
#include "urma/core/process/devices.h"

namespace urma::core {
namespace {

bool check_limit(const char* call, const char* name, uint32_t value, uint32_t limit,
                 const char* limit_name) {
  if (value <= limit) return true;
  URMA_LOG_LIMITED(ERR, "{}: {} {} exceeds the limit {} of the device, {}; lower it", call, name,
                   value, limit, limit_name);
  return false;
}

void log_unusable(const char* call, const urma_context_t* ctx) {
  if (is_forked()) {
    URMA_LOG_LIMITED(ERR,
                     "{}: this process was forked from the one that started the library; "
                     "use an exec'ed program instead",
                     call);
  } else if (!in_use()) {
    report_not_started(call);
  } else if (ctx == nullptr) {
    URMA_LOG_LIMITED(ERR,
                     "{}: the handle is NULL or has no context; pass what a create call "
                     "returned",
                     call);
  } else if (!usable(ctx)) {
    URMA_LOG_LIMITED(ERR,
                     "{}: the context has no device or no provider; it was not made by "
                     "urma_create_context, was deleted, or urma_uninit has ended it",
                     call);
  } else {
    URMA_LOG_LIMITED(ERR, "{}: provider {} of device {} does not support this; use another device",
                     call, ctx->ops->name == nullptr ? "?" : ctx->ops->name, ctx->dev->name);
  }
}

}  // namespace

void report_unusable(const char* call, const urma_context_t* ctx) noexcept {
  guarded(site_of(call), [=] { log_unusable(call, ctx); });
}

void report_not_started(const char* call) noexcept {
  guarded(site_of(call), [=] { URMA_LOG_LIMITED(ERR, "{}: {}", call, not_started_text()); });
}

void report_null(const char* call, const char* name) noexcept {
  guarded(site_of(call),
          [=] { URMA_LOG_LIMITED(ERR, "{}: {} is NULL; it is required", call, name); });
}

bool check_mode(const char* call, const urma_transport_mode_t& mode) {
  const uint32_t bits = bits_of(mode);
  if (bits == URMA_TM_RM || bits == URMA_TM_RC || bits == URMA_TM_UM) return true;
  URMA_LOG_LIMITED(ERR,
                   "{}: trans_mode {:#x} is not one mode; use URMA_TM_RM (1), URMA_TM_RC (2) "
                   "or URMA_TM_UM (4)",
                   call, bits);
  return false;
}

std::optional<uint32_t> resolve_order(const urma_transport_mode_t& mode, uint32_t order_type) {
  if (order_type != URMA_DEF_ORDER) return order_type;
  switch (bits_of(mode)) {
    case URMA_TM_RM:
      return URMA_OI;
    case URMA_TM_RC:
      return URMA_OL;
    case URMA_TM_UM:
      return URMA_NO;
    default:
      return std::nullopt;
  }
}

bool check_order(const char* call, const urma_transport_mode_t& mode, uint32_t order_type) {
  if (!check_mode(call, mode)) return false;
  const uint32_t bits = bits_of(mode);
  bool fits = false;
  switch (order_type) {
    case URMA_DEF_ORDER:
      fits = true;
      break;
    case URMA_OT:
    case URMA_OL:
      fits = bits == URMA_TM_RC;
      break;
    case URMA_OI:
      fits = bits == URMA_TM_RM;
      break;
    case URMA_NO:
      fits = bits != URMA_TM_RM;
      break;
    default:
      break;
  }
  if (!fits) {
    URMA_LOG_LIMITED(ERR,
                     "{}: order_type {} does not go with trans_mode {:#x} (RM: OI; RC: OT, OL "
                     "or NO; UM: NO); use URMA_DEF_ORDER",
                     call, order_type, bits);
  }
  return fits;
}

bool check_default_order(const char* call, const urma_transport_mode_t& mode, uint32_t order_type) {
  return resolve_order(mode, order_type).has_value() || check_mode(call, mode);
}

bool check_tp_type(const char* call, const urma_transport_mode_t& mode,
                   const urma_tp_type_t& tp_type) {
  const bool um = bits_of(mode) == URMA_TM_UM;
  const uint32_t type = bits_of(tp_type);
  if (type == URMA_CTP || type == (um ? URMA_UTP : URMA_RTP)) return true;
  URMA_LOG_LIMITED(ERR, "{}: tp_type {} does not go with trans_mode {:#x}; use {} or URMA_CTP",
                   call, type, bits_of(mode), um ? "URMA_UTP" : "URMA_RTP");
  return false;
}

bool check_device(const char* call, const urma_device_t* device) {
  if (!open_gate(call) || !given(call, "dev", device)) return false;
  if (attr_of(device) != nullptr && device->sysfs_dev != nullptr) return true;
  if (!in_use()) {
    report_not_started(call);
    return false;
  }
  URMA_LOG_LIMITED(ERR,
                   "{}: dev {} is not a device of the library; pass one of urma_get_device_list",
                   call, static_cast<const void*>(device));
  return false;
}

bool check_token(const char* call, uint32_t policy, const urma_token_t* token) {
  if (policy == URMA_TOKEN_NONE || token != nullptr) return true;
  URMA_LOG_LIMITED(ERR,
                   "{}: token is NULL though token_policy is {}; pass the owner's token, or "
                   "URMA_TOKEN_NONE",
                   call, policy);
  return false;
}

const urma_device_cap_t* caps_of(const urma_context_t* ctx) {
  const urma_device_attr_t* attr = attr_of(ctx->dev);
  return attr == nullptr ? nullptr : &attr->dev_cap;
}

bool check_depth(const char* call, const urma_context_t* ctx, uint32_t depth,
                 uint32_t urma_device_cap_t::*limit, const char* limit_name) {
  if (depth == 0) {
    URMA_LOG_LIMITED(ERR, "{}: depth is 0; use 1 to {}", call, limit_name);
    return false;
  }
  const urma_device_cap_t* caps = caps_of(ctx);
  return caps == nullptr || check_limit(call, "depth", depth, caps->*limit, limit_name);
}

bool check_send_cfg(const char* call, const urma_context_t* ctx, const urma_jfs_cfg_t& cfg) {
  if (!check_order(call, cfg.trans_mode, cfg.flag.bs.order_type)) return false;
  if (!check_depth(call, ctx, cfg.depth, &urma_device_cap_t::max_jfs_depth, "max_jfs_depth")) {
    return false;
  }
  const urma_device_cap_t* caps = caps_of(ctx);
  return caps == nullptr ||
         (check_limit(call, "max_inline_data", cfg.max_inline_data, caps->max_jfs_inline_len,
                      "max_jfs_inline_len") &&
          check_limit(call, "max_sge", cfg.max_sge, caps->max_jfs_sge, "max_jfs_sge") &&
          check_limit(call, "max_rsge", cfg.max_rsge, caps->max_jfs_rsge, "max_jfs_rsge"));
}

bool check_receive_cfg(const char* call, const urma_context_t* ctx, const urma_jfr_cfg_t& cfg) {
  if (!check_mode(call, cfg.trans_mode)) return false;
  if (!check_depth(call, ctx, cfg.depth, &urma_device_cap_t::max_jfr_depth, "max_jfr_depth")) {
    return false;
  }
  const urma_device_cap_t* caps = caps_of(ctx);
  return caps == nullptr ||
         check_limit(call, "max_sge", cfg.max_sge, caps->max_jfr_sge, "max_jfr_sge");
}

}  // namespace urma::core
