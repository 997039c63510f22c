// SPDX-License-Identifier: MIT
//
// The calls on receive queues.
#include "urma/core/api/export.h"
#include "urma/core/api/lifecycle.h"
#include "urma_api.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

struct Jfr : QueueKind {
  using Object = urma_jfr_t;
  using Config = urma_jfr_cfg_t;
  using PortConfig = bondp_jfr_cfg_t;
  static constexpr Living kLiving = Living::kJfr;
  static constexpr auto kCreate = &urma_ops_t::create_jfr;
  static constexpr auto kDeleteBatch = &urma_ops_t::delete_jfr_batch;
  static constexpr auto kAlloc = &urma_ops_t::alloc_jfr;
  static constexpr auto kSetOpt = &urma_ops_t::set_jfr_opt;
  static constexpr auto kActive = &urma_ops_t::active_jfr;
  static constexpr auto kGetOpt = &urma_ops_t::get_jfr_opt;
  static constexpr auto kDeactive = &urma_ops_t::deactive_jfr;

  static Config& config(Object& jfr) { return jfr.jfr_cfg; }
  static urma_jfr_opt_t& options(Object& jfr) { return jfr.urma_jfr_opt; }
  static uint64_t& option_mask(Object& jfr) { return jfr.urma_jfr_opt.jfr_opt_mask.value; }
  static void* send_config(Object&) { return nullptr; }
  static uint32_t depth(const Config& config) { return config.depth; }
  static constexpr uint32_t urma_device_cap_t::*kPortDepth = &urma_device_cap_t::max_jfr_depth;
  static uint32_t* port_depth(Config& config) { return &config.depth; }
  static std::span<const opt_map_t> option_table() { return {JFR_OPT_TABLE, JFR_OPT_MAP_COUNT}; }

  static bool check_pointers(const char* call, const Config& config) {
    return given(call, "cfg->jfc", config.jfc) &&
           check_default_order(call, config.trans_mode, config.flag.bs.order_type);
  }
  // The order type of a receive queue is checked where a jetty pairs it with a send queue.
  static bool check(const char* call, const urma_context_t* ctx, const Config& config) {
    return given(call, "cfg->jfc", config.jfc) && check_receive_cfg(call, ctx, config);
  }
  static bool check_parts(const char* call, const Object& jfr) {
    const urma_jfc_t* jfc = jfr.jfr_cfg.jfc;
    return check_part(call, "cfg->jfc", jfc, jfc->urma_jfc_opt.is_actived);
  }
  static void settle(Config& config) { settle_order(config); }
};

}  // namespace

URMA_EXPORT urma_jfr_t* urma_create_jfr(urma_context_t* ctx, urma_jfr_cfg_t* jfr_cfg) {
  return create<Jfr>(__func__, ctx, jfr_cfg);
}

URMA_EXPORT urma_status_t urma_modify_jfr(urma_jfr_t* jfr, urma_jfr_attr_t* attr) {
  return modify<&urma_ops_t::modify_jfr>(__func__, jfr, attr);
}

URMA_EXPORT urma_status_t urma_query_jfr(urma_jfr_t* jfr, urma_jfr_cfg_t* cfg,
                                         urma_jfr_attr_t* attr) {
  return query<&urma_ops_t::query_jfr>(__func__, jfr, cfg, attr);
}

URMA_EXPORT urma_status_t urma_delete_jfr(urma_jfr_t* jfr) {
  return end<Jfr, &urma_ops_t::delete_jfr>(__func__, jfr, true);
}

URMA_EXPORT urma_status_t urma_delete_jfr_batch(urma_jfr_t** jfr_arr, int jfr_num,
                                                urma_jfr_t** bad_jfr) {
  return delete_batch<Jfr>(__func__, jfr_arr, jfr_num, bad_jfr);
}

URMA_EXPORT urma_status_t urma_alloc_jfr(urma_context_t* urma_ctx, urma_jfr_cfg_t* cfg,
                                         urma_jfr_t** jfr) {
  return alloc<Jfr>(__func__, urma_ctx, cfg, jfr);
}

URMA_EXPORT urma_status_t urma_set_jfr_opt(urma_jfr_t* jfr, uint64_t opt, void* buf, uint32_t len) {
  return set_option<Jfr>(__func__, jfr, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_active_jfr(urma_jfr_t* jfr) { return activate<Jfr>(__func__, jfr); }

URMA_EXPORT urma_status_t urma_get_jfr_opt(urma_jfr_t* jfr, uint64_t opt, void* buf, uint32_t len) {
  return get_option<Jfr>(__func__, jfr, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_deactive_jfr(urma_jfr_t* jfr) {
  return deactivate<Jfr>(__func__, jfr);
}

URMA_EXPORT urma_status_t urma_free_jfr(urma_jfr_t* jfr) {
  return end<Jfr, &urma_ops_t::free_jfr>(__func__, jfr, false);
}
