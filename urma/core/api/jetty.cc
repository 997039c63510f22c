// SPDX-License-Identifier: MIT
//
// The calls on jetties.
#include <cstring>

#include "urma/base/bits.h"
#include "urma/core/api/export.h"
#include "urma/core/api/lifecycle.h"
#include "urma/core/api/targets.h"
#include "urma_api.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

// The configuration of the receiving half: that of the shared JFR, or the outdated one.
const urma_jfr_cfg_t* receiving_half(const urma_jetty_cfg_t& config) {
  if (config.flag.bs.share_jfr == URMA_NO_SHARE_JFR) return config.jfr_cfg;
  return config.shared.jfr == nullptr ? nullptr : &config.shared.jfr->jfr_cfg;
}

bool check_share(const char* call, const urma_context_t* ctx, uint32_t share_jfr) {
  if (ctx->dev->type != URMA_TRANSPORT_UB || share_jfr == URMA_SHARE_JFR) return true;
  URMA_LOG_LIMITED(ERR, "{}: share_jfr is 0; a UB device needs a JFR in shared.jfr and share_jfr 1",
                   call);
  return false;
}

// Both halves of a jetty have the same mode and order.
bool check_halves(const char* call, const urma_jfs_cfg_t& send, const urma_jfr_cfg_t& receive) {
  if (urma::bits_of(send.trans_mode) != urma::bits_of(receive.trans_mode)) {
    URMA_LOG_LIMITED(ERR, "{}: trans_mode of the JFS is {}, of the JFR {}; both must be equal",
                     call, urma::bits_of(send.trans_mode), urma::bits_of(receive.trans_mode));
    return false;
  }
  const auto send_order = resolve_order(send.trans_mode, send.flag.bs.order_type);
  const auto receive_order = resolve_order(receive.trans_mode, receive.flag.bs.order_type);
  if (send_order == receive_order) return true;
  URMA_LOG_LIMITED(ERR, "{}: order_type of the JFS is {}, of the JFR {}; both must be equal", call,
                   *send_order, *receive_order);
  return false;
}

bool check_group(const char* call, const urma_jetty_grp_t& group, const urma_jfr_cfg_t& receive) {
  if (urma::bits_of(receive.trans_mode) != URMA_TM_RM) {
    URMA_LOG_LIMITED(ERR, "{}: trans_mode {} in a group; only URMA_TM_RM (1) can join one", call,
                     urma::bits_of(receive.trans_mode));
    return false;
  }
  if (receive.flag.bs.token_policy != group.cfg.flag.bs.token_policy ||
      receive.token_value.token != group.cfg.token_value.token) {
    URMA_LOG_LIMITED(ERR,
                     "{}: token policy {} or token value of the JFR differs from the group's "
                     "(policy {}); use the group's",
                     call, uint32_t{receive.flag.bs.token_policy},
                     uint32_t{group.cfg.flag.bs.token_policy});
    return false;
  }
  return true;
}

struct Jetty : QueueKind {
  using Object = urma_jetty_t;
  using Config = urma_jetty_cfg_t;
  using PortConfig = bondp_jetty_cfg_t;
  using Hub = urma_jetty_grp_t;
  static constexpr Living kLiving = Living::kJetty;
  static constexpr auto kCreate = &urma_ops_t::create_jetty;
  static constexpr auto kDeleteBatch = &urma_ops_t::delete_jetty_batch;
  static constexpr auto kAlloc = &urma_ops_t::alloc_jetty;
  static constexpr auto kSetOpt = &urma_ops_t::set_jetty_opt;
  static constexpr auto kActive = &urma_ops_t::active_jetty;
  static constexpr auto kGetOpt = &urma_ops_t::get_jetty_opt;
  static constexpr auto kDeactive = &urma_ops_t::deactive_jetty;
  static constexpr uint64_t kHubOption = URMA_JETTY_BIND_JTG;

  static Hub* hub(const Config& config) { return config.jetty_grp; }
  static Config& config(Object& jetty) { return jetty.jetty_cfg; }
  static urma_jetty_opt_t& options(Object& jetty) { return jetty.urma_jetty_opt; }
  static uint64_t& option_mask(Object& jetty) {
    return jetty.urma_jetty_opt.jfs_opt.jfs_opt_mask.value;
  }
  static void* send_config(Object& jetty) { return &jetty.jetty_cfg.jfs_cfg; }
  static uint32_t depth(const Config& config) { return config.jfs_cfg.depth; }
  static std::span<const opt_map_t> option_table() {
    return {JETTY_OPT_TABLE, JETTY_OPT_MAP_COUNT};
  }

  static bool check_pointers(const char* call, const Config& config) {
    return check_default_order(call, config.jfs_cfg.trans_mode, config.jfs_cfg.flag.bs.order_type);
  }
  static bool check(const char* call, const urma_context_t* ctx, const Config& config);
  static bool check_parts(const char* call, const Object& jetty);
  static urma_status_t check_removable(const char* call, Object& jetty);
  static bool check_option(const char* call, const Object& jetty, uint64_t option,
                           const void* value);
  static void settle(Config& config) {
    settle_order(config.jfs_cfg);
    if (config.flag.bs.share_jfr == URMA_NO_SHARE_JFR && config.jfr_cfg != nullptr) {
      settle_order(*config.jfr_cfg);
    }
  }
  static uint32_t settle_ports(const urma_context_t* ctx, const Config& config, uint32_t ports);
  static urma_jetty_t* as_jetty(Object* jetty) { return jetty; }
  static void reset(Object& jetty) {
    jetty.async_events_acked = 0;
    jetty.remote_jetty = nullptr;
  }
};

bool Jetty::check(const char* call, const urma_context_t* ctx, const Config& config) {
  const bool shared = config.flag.bs.share_jfr == URMA_SHARE_JFR;
  if (!given(call, "jfs_cfg.jfc", config.jfs_cfg.jfc) ||
      !given(call, shared ? "shared.jfr" : "jfr_cfg", receiving_half(config))) {
    return false;
  }
  const urma_jfr_cfg_t& receive = *receiving_half(config);
  return given(call, "the JFC of the receiving half", receive.jfc) &&
         check_share(call, ctx, config.flag.bs.share_jfr) &&
         check_send_cfg(call, ctx, config.jfs_cfg) && check_halves(call, config.jfs_cfg, receive) &&
         (shared || check_receive_cfg(call, ctx, receive)) &&
         (config.jetty_grp == nullptr || check_group(call, *config.jetty_grp, receive));
}

bool Jetty::check_parts(const char* call, const Object& jetty) {
  const urma_jetty_cfg_t& config = jetty.jetty_cfg;
  const urma_jfc_t* send_jfc = config.jfs_cfg.jfc;
  if (!check_part(call, "jfs_cfg.jfc", send_jfc, send_jfc->urma_jfc_opt.is_actived)) return false;
  if (config.flag.bs.share_jfr == URMA_NO_SHARE_JFR) {
    const urma_jfc_t* jfc = config.jfr_cfg->jfc;
    return check_part(call, "jfr_cfg->jfc", jfc, jfc->urma_jfc_opt.is_actived);
  }
  const urma_jfr_t* jfr = config.shared.jfr;
  const urma_jfc_t* jfc = config.shared.jfc;
  return check_part(call, "shared.jfr", jfr, jfr->urma_jfr_opt.is_actived) &&
         (jfc == nullptr || check_part(call, "shared.jfc", jfc, jfc->urma_jfc_opt.is_actived));
}

// Its receives are those of its shared JFR, which may have been made for fewer ports; the JFR keeps
// its room if its device cannot give more.
uint32_t Jetty::settle_ports(const urma_context_t* ctx, const Config& config, uint32_t ports) {
  const ObjectPorts* table = object_ports(ctx);
  const bool shared = config.flag.bs.share_jfr == URMA_SHARE_JFR;
  urma_jfr_t* jfr = shared ? config.shared.jfr : nullptr;
  if (table == nullptr || jfr == nullptr) return ports;
  const uint32_t its = table->of(jfr);
  auto* op = find_slot<&urma_ops_t::set_jfr_opt>(jfr);
  if (ports > its && op != nullptr) {
    uint32_t receives =
        depth_of_ports(ctx, jfr->jfr_cfg.depth, ports, &urma_device_cap_t::max_jfr_depth);
    op(jfr, URMA_JFR_DEPTH, &receives, sizeof receives);
  }
  return std::max(ports, its);
}

urma_status_t Jetty::check_removable(const char* call, Object& jetty) {
  // Another thread may unbind it, and end the peer.
  if (urma::bits_of(jetty.jetty_cfg.jfs_cfg.trans_mode) != URMA_TM_RC ||
      peer_of(jetty).load() == nullptr) {
    return URMA_SUCCESS;
  }
  URMA_LOG_LIMITED(ERR, "{}: jetty {} is bound; call urma_unbind_jetty first", call,
                   jetty.jetty_id.id);
  return URMA_ENOPERM;
}

bool Jetty::check_option(const char* call, const Object& jetty, uint64_t option,
                         const void* value) {
  if (option != URMA_JETTY_FLAG) return true;
  urma_jetty_flag_t flag;
  std::memcpy(&flag, value, sizeof flag);
  return check_share(call, jetty.urma_ctx, flag.bs.share_jfr);
}

}  // namespace

URMA_EXPORT urma_jetty_t* urma_create_jetty(urma_context_t* ctx, urma_jetty_cfg_t* jetty_cfg) {
  return create<Jetty>(__func__, ctx, jetty_cfg);
}

URMA_EXPORT urma_status_t urma_modify_jetty(urma_jetty_t* jetty, urma_jetty_attr_t* attr) {
  return modify<&urma_ops_t::modify_jetty>(__func__, jetty, attr);
}

URMA_EXPORT urma_status_t urma_query_jetty(urma_jetty_t* jetty, urma_jetty_cfg_t* cfg,
                                           urma_jetty_attr_t* attr) {
  return query<&urma_ops_t::query_jetty>(__func__, jetty, cfg, attr);
}

URMA_EXPORT urma_status_t urma_delete_jetty(urma_jetty_t* jetty) {
  return end<Jetty, &urma_ops_t::delete_jetty>(__func__, jetty, true);
}

URMA_EXPORT urma_status_t urma_delete_jetty_batch(urma_jetty_t** jetty_arr, int jetty_num,
                                                  urma_jetty_t** bad_jetty) {
  return delete_batch<Jetty>(__func__, jetty_arr, jetty_num, bad_jetty);
}

URMA_EXPORT int urma_flush_jetty(urma_jetty_t* jetty, int cr_cnt, urma_cr_t* cr) {
  const uint32_t depth = jetty == nullptr ? 0 : jetty->jetty_cfg.jfs_cfg.depth;
  return flush<&urma_ops_t::flush_jetty>(__func__, jetty, depth, cr_cnt, cr);
}

URMA_EXPORT urma_status_t urma_alloc_jetty(urma_context_t* urma_ctx, urma_jetty_cfg_t* cfg,
                                           urma_jetty_t** jetty) {
  return alloc<Jetty>(__func__, urma_ctx, cfg, jetty);
}

URMA_EXPORT urma_status_t urma_set_jetty_opt(urma_jetty_t* jetty, uint64_t opt, void* buf,
                                             uint32_t len) {
  return set_option<Jetty>(__func__, jetty, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_active_jetty(urma_jetty_t* jetty) {
  return activate<Jetty>(__func__, jetty);
}

URMA_EXPORT urma_status_t urma_get_jetty_opt(urma_jetty_t* jetty, uint64_t opt, void* buf,
                                             uint32_t len) {
  return get_option<Jetty>(__func__, jetty, opt, buf, len);
}

URMA_EXPORT urma_status_t urma_deactive_jetty(urma_jetty_t* jetty) {
  return deactivate<Jetty>(__func__, jetty);
}

URMA_EXPORT urma_status_t urma_free_jetty(urma_jetty_t* jetty) {
  return end<Jetty, &urma_ops_t::free_jetty>(__func__, jetty, false);
}
