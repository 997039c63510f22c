// SPDX-License-Identifier: MIT
//
// The calls on completion queues and on their event channels.
#include "urma/core/api/export.h"
#include "urma/core/api/lifecycle.h"
#include "urma_api.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

struct Jfc : QueueKind {
  using Object = urma_jfc_t;
  using Config = urma_jfc_cfg_t;
  using PortConfig = bondp_jfc_cfg_t;
  using Hub = urma_jfce_t;
  static constexpr Living kLiving = Living::kJfc;
  static constexpr auto kCreate = &urma_ops_t::create_jfc;
  static constexpr auto kDeleteBatch = &urma_ops_t::delete_jfc_batch;
  static constexpr auto kAlloc = &urma_ops_t::alloc_jfc;
  static constexpr auto kSetOpt = &urma_ops_t::set_jfc_opt;
  static constexpr auto kActive = &urma_ops_t::active_jfc;
  static constexpr auto kGetOpt = &urma_ops_t::get_jfc_opt;
  static constexpr auto kDeactive = &urma_ops_t::deactive_jfc;
  static constexpr uint64_t kHubOption = URMA_JFC_BIND_JFCE;
  static constexpr bool kForeignOptions = true;

  static Hub* hub(const Config& config) { return config.jfce; }
  static Config& config(Object& jfc) { return jfc.jfc_cfg; }
  static urma_jfc_opt_t& options(Object& jfc) { return jfc.urma_jfc_opt; }
  static uint64_t& option_mask(Object& jfc) { return jfc.urma_jfc_opt.jfc_opt_mask.value; }
  static void* send_config(Object&) { return nullptr; }
  static uint32_t depth(const Config& config) { return config.depth; }
  static constexpr uint32_t urma_device_cap_t::*kPortDepth = &urma_device_cap_t::max_jfc_depth;
  static uint32_t* port_depth(Config& config) { return &config.depth; }
  static std::span<const opt_map_t> option_table() { return {JFC_OPT_TABLE, JFC_OPT_MAP_COUNT}; }

  static bool check_pointers(const char*, const Config&) { return true; }
  static bool check(const char* call, const urma_context_t* ctx, const Config& config) {
    return check_depth(call, ctx, config.depth, &urma_device_cap_t::max_jfc_depth, "max_jfc_depth");
  }
  static bool check_parts(const char*, const Object&) { return true; }
  static void settle(Config&) {}
  static void reset(Object& jfc) {
    jfc.comp_events_acked = 0;
    jfc.async_events_acked = 0;
  }
};

}  // namespace

URMA_EXPORT urma_jfc_t* urma_create_jfc(urma_context_t* ctx, urma_jfc_cfg_t* jfc_cfg) {
  return create<Jfc>(__func__, ctx, jfc_cfg);
}

URMA_EXPORT urma_status_t urma_modify_jfc(urma_jfc_t* jfc, urma_jfc_attr_t* attr) {
  return modify<&urma_ops_t::modify_jfc>(__func__, jfc, attr);
}

URMA_EXPORT urma_status_t urma_delete_jfc(urma_jfc_t* jfc) {
  return end<Jfc, &urma_ops_t::delete_jfc>(__func__, jfc, true);
}

URMA_EXPORT urma_status_t urma_delete_jfc_batch(urma_jfc_t** jfc_arr, int jfc_num,
                                                urma_jfc_t** bad_jfc) {
  return delete_batch<Jfc>(__func__, jfc_arr, jfc_num, bad_jfc);
}

URMA_EXPORT urma_status_t urma_alloc_jfc(urma_context_t* urma_ctx, urma_jfc_cfg_t* cfg,
                                         urma_jfc_t** jfc) {
  return alloc<Jfc>(__func__, urma_ctx, cfg, jfc);
}

URMA_EXPORT urma_status_t urma_set_jfc_opt(urma_jfc_t* jfc, uint64_t opt, void* buf, uint32_t len) {
  return set_option<Jfc>(__func__, jfc, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_active_jfc(urma_jfc_t* jfc) { return activate<Jfc>(__func__, jfc); }

URMA_EXPORT urma_status_t urma_get_jfc_opt(urma_jfc_t* jfc, uint64_t opt, void* buf, uint32_t len) {
  return get_option<Jfc>(__func__, jfc, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_deactive_jfc(urma_jfc_t* jfc) {
  return deactivate<Jfc>(__func__, jfc);
}

URMA_EXPORT urma_status_t urma_free_jfc(urma_jfc_t* jfc) {
  return end<Jfc, &urma_ops_t::free_jfc>(__func__, jfc, false);
}

URMA_EXPORT urma_jfce_t* urma_create_jfce(urma_context_t* ctx) {
  return pointer_entry(__func__, [&](const char* call) -> urma_jfce_t* {
    auto* op = slot<&urma_ops_t::create_jfce>(call, ctx);
    if (op == nullptr) return refused();
    urma_jfce_t* jfce = op(ctx);
    if (jfce == nullptr) return nullptr;
    jfce->urma_ctx = ctx;
    jfce->ref.atomic_cnt = 1;
    object_made(ctx, Living::kJfce);
    return jfce;
  });
}

URMA_EXPORT urma_status_t urma_delete_jfce(urma_jfce_t* jfce) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!given(call, "jfce", jfce) || !open_gate(call, jfce->urma_ctx)) return URMA_EINVAL;
    if (refs(jfce->ref) > 1) {
      URMA_LOG_LIMITED(ERR, "{}: {} JFCs still use it; delete them first", call,
                       refs(jfce->ref) - 1);
      return URMA_FAIL;
    }
    return end_child<&urma_ops_t::delete_jfce, Living::kJfce>(call, jfce);
  });
}
