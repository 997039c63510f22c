// SPDX-License-Identifier: MIT
//
// The calls on send queues.
#include "urma/core/api/export.h"
#include "urma/core/api/lifecycle.h"
#include "urma_api.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

struct Jfs : QueueKind {
  using Object = urma_jfs_t;
  using Config = urma_jfs_cfg_t;
  using PortConfig = bondp_jfs_cfg_t;
  static constexpr Living kLiving = Living::kJfs;
  static constexpr auto kCreate = &urma_ops_t::create_jfs;
  static constexpr auto kDeleteBatch = &urma_ops_t::delete_jfs_batch;
  static constexpr auto kAlloc = &urma_ops_t::alloc_jfs;
  static constexpr auto kSetOpt = &urma_ops_t::set_jfs_opt;
  static constexpr auto kActive = &urma_ops_t::active_jfs;
  static constexpr auto kGetOpt = &urma_ops_t::get_jfs_opt;
  static constexpr auto kDeactive = &urma_ops_t::deactive_jfs;

  static Config& config(Object& jfs) { return jfs.jfs_cfg; }
  static urma_jfs_opt_t& options(Object& jfs) { return jfs.urma_jfs_opt; }
  static uint64_t& option_mask(Object& jfs) { return jfs.urma_jfs_opt.jfs_opt_mask.value; }
  static void* send_config(Object& jfs) { return &jfs.jfs_cfg; }
  static uint32_t depth(const Config& config) { return config.depth; }
  static std::span<const opt_map_t> option_table() { return {JFS_OPT_TABLE, JFS_OPT_MAP_COUNT}; }

  static bool check_pointers(const char* call, const Config& config) {
    return given(call, "cfg->jfc", config.jfc) && check_mode(call, config.trans_mode);
  }
  static bool check(const char* call, const urma_context_t* ctx, const Config& config) {
    return given(call, "cfg->jfc", config.jfc) && check_send_cfg(call, ctx, config);
  }
  static bool check_parts(const char* call, const Object& jfs) {
    const urma_jfc_t* jfc = jfs.jfs_cfg.jfc;
    return check_part(call, "cfg->jfc", jfc, jfc->urma_jfc_opt.is_actived);
  }
  static void settle(Config& config) { settle_order(config); }
};

}  // namespace

URMA_EXPORT urma_jfs_t* urma_create_jfs(urma_context_t* ctx, urma_jfs_cfg_t* jfs_cfg) {
  return create<Jfs>(__func__, ctx, jfs_cfg);
}

URMA_EXPORT urma_status_t urma_modify_jfs(urma_jfs_t* jfs, urma_jfs_attr_t* attr) {
  return modify<&urma_ops_t::modify_jfs>(__func__, jfs, attr);
}

URMA_EXPORT urma_status_t urma_query_jfs(urma_jfs_t* jfs, urma_jfs_cfg_t* cfg,
                                         urma_jfs_attr_t* attr) {
  return query<&urma_ops_t::query_jfs>(__func__, jfs, cfg, attr);
}

URMA_EXPORT urma_status_t urma_delete_jfs(urma_jfs_t* jfs) {
  return end<Jfs, &urma_ops_t::delete_jfs>(__func__, jfs, true);
}

URMA_EXPORT urma_status_t urma_delete_jfs_batch(urma_jfs_t** jfs_arr, int jfs_num,
                                                urma_jfs_t** bad_jfs) {
  return delete_batch<Jfs>(__func__, jfs_arr, jfs_num, bad_jfs);
}

URMA_EXPORT int urma_flush_jfs(urma_jfs_t* jfs, int cr_cnt, urma_cr_t* cr) {
  const uint32_t depth = jfs == nullptr ? 0 : jfs->jfs_cfg.depth;
  return flush<&urma_ops_t::flush_jfs>(__func__, jfs, depth, cr_cnt, cr);
}

URMA_EXPORT urma_status_t urma_alloc_jfs(urma_context_t* urma_ctx, urma_jfs_cfg_t* cfg,
                                         urma_jfs_t** jfs) {
  return alloc<Jfs>(__func__, urma_ctx, cfg, jfs);
}

URMA_EXPORT urma_status_t urma_set_jfs_opt(urma_jfs_t* jfs, uint64_t opt, void* buf, uint32_t len) {
  return set_option<Jfs>(__func__, jfs, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_active_jfs(urma_jfs_t* jfs) { return activate<Jfs>(__func__, jfs); }

URMA_EXPORT urma_status_t urma_get_jfs_opt(urma_jfs_t* jfs, uint64_t opt, void* buf, uint32_t len) {
  return get_option<Jfs>(__func__, jfs, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_deactive_jfs(urma_jfs_t* jfs) {
  return deactivate<Jfs>(__func__, jfs);
}

URMA_EXPORT urma_status_t urma_free_jfs(urma_jfs_t* jfs) {
  return end<Jfs, &urma_ops_t::free_jfs>(__func__, jfs, false);
}
