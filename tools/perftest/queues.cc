// SPDX-License-Identifier: MIT
#include "tools/perftest/queues.h"

#include <algorithm>
#include <cassert>

namespace perftest {
namespace {

// Room for credit notices, besides the messages.
constexpr uint32_t kCreditRequests = 16;

uint32_t lanes_per_receive_queue(const Device& device, const Config& config) {
  // A jetty with its own receive queue shares it with nobody.
  const bool share = config.share_jfr || device.unified_bus() || !config.duplex();
  return share ? config.jettys_per_jfr : 1;
}

}  // namespace

Queues::Queues(const Device& device, const Config& config)
    : device_(device),
      share_jfs_(config.share_jfs),
      lanes_per_jfr_(lanes_per_receive_queue(device, config)) {
  create(config);
}

void Queues::renew(const Config& config) {
  jettys_.clear();
  jfss_.clear();
  jfrs_.clear();
  arrived_.reset();
  sent_.reset();
  channel_.reset();
  create(config);
}

void Queues::create(const Config& config) {
  create_completion_queues(config);
  create_receive_queues(config);
  create_senders(config);
}

uint32_t Queues::send_id(uint32_t lane) const {
  if (const urma_jetty_t* jetty = send_jetty(lane)) return jetty->jetty_id.id;
  const urma_jfs_t* const jfs = send_jfs(lane);
  assert(jfs != nullptr);
  return jfs->jfs_id.id;
}

void Queues::create_completion_queues(const Config& config) {
  urma_context_t* const context = device_.context();
  if (config.events) channel_.reset(made(urma_create_jfce(context), "urma_create_jfce"));
  urma_jfc_cfg_t cfg = {};
  cfg.depth = config.jfc_depth;
  cfg.flag.bs.lock_free = config.lock_free;
  cfg.flag.bs.jfc_inline = config.jfc_inline;
  cfg.jfce = channel_.get();
  sent_.reset(made(urma_create_jfc(context, &cfg), "urma_create_jfc"));
  arrived_.reset(made(urma_create_jfc(context, &cfg), "urma_create_jfc"));
}

void Queues::create_receive_queues(const Config& config) {
  urma_jfr_cfg_t cfg = {};
  cfg.depth = config.jfr_depth;
  cfg.flag.bs.lock_free = config.lock_free;
  cfg.flag.bs.token_policy = config.token_policy;
  cfg.flag.bs.order_type = config.order_type;
  cfg.trans_mode = config.mode;
  cfg.max_sge = 1;
  cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
  cfg.jfc = arrived_.get();
  cfg.token_value = {kTokenValue};
  const uint32_t count = (config.jettys + lanes_per_jfr_ - 1) / lanes_per_jfr_;
  for (uint32_t i = 0; i < count; i++) {
    // --jetty_id is the id of the object that peers send to.
    if (!config.duplex() && config.jetty_id != 0) cfg.id = config.jetty_id + i;
    jfrs_.emplace_back(made(urma_create_jfr(device_.context(), &cfg), "urma_create_jfr"));
  }
}

urma_jfs_cfg_t Queues::send_config(const Config& config) const {
  const uint64_t depth = uint64_t{config.jfs_depth} * (config.share_jfs ? config.jettys : 1) +
                         (config.credit ? kCreditRequests : 0);
  urma_jfs_cfg_t cfg = {};
  cfg.depth = static_cast<uint32_t>(std::min<uint64_t>(depth, device_.limits().max_jfs_depth));
  cfg.flag.bs.lock_free = config.lock_free;
  cfg.flag.bs.order_type = config.order_type;
  cfg.trans_mode = config.mode;
  cfg.priority = device_.priority();
  cfg.max_sge = static_cast<uint8_t>(config.sge_num);
  cfg.max_rsge = config.notify ? 2 : 1;
  cfg.max_inline_data = config.inline_size;
  if (config.layout == Layout::kShort) {
    const std::vector<uint32_t> sizes = config.sizes();
    cfg.max_inline_data = *std::max_element(sizes.begin(), sizes.end());
  }
  cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.err_timeout = config.err_timeout;
  cfg.jfc = sent_.get();
  return cfg;
}

void Queues::create_senders(const Config& config) {
  urma_context_t* const context = device_.context();
  urma_jfs_cfg_t send = send_config(config);
  if (!config.duplex()) {
    const uint32_t count = share_jfs_ ? 1 : config.jettys;
    for (uint32_t i = 0; i < count; i++) {
      jfss_.emplace_back(made(urma_create_jfs(context, &send), "urma_create_jfs"));
    }
    return;
  }
  for (uint32_t lane = 0; lane < config.jettys; lane++) {
    urma_jetty_cfg_t cfg = {};
    cfg.id = config.jetty_id == 0 ? 0 : config.jetty_id + lane;
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.jfs_cfg = send;
    cfg.shared.jfr = jfrs_[receive_index(lane)].get();
    cfg.shared.jfc = arrived_.get();
    jettys_.emplace_back(made(urma_create_jetty(context, &cfg), "urma_create_jetty"));
  }
}

}  // namespace perftest
