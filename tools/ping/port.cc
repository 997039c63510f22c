// SPDX-License-Identifier: MIT
#include "tools/ping/port.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace ping {
namespace {

constexpr uint8_t kUsualPriority = 6;
constexpr uint32_t kSendDepth = 64;

// A pinging side has a receive posted; do not wait for others.
constexpr uint8_t kRnrRetry = 1;

void require(bool holds, const Place& place, const std::string& what) {
  if (holds) return;
  throw Failure(std::string(place.device->name) + ", EID " + to_text(place.eid) + ": " + what +
                " failed: " + std::strerror(errno));
}

}  // namespace

// The priority that UMDK's tool uses, if it has the compact channel that the tool uses, else the
// first one with that channel, else one with the reliable channel.
Port::Lane Port::pick_lane(urma_device_t* device) {
  urma_device_attr_t attr;
  if (urma_query_device(device, &attr) != URMA_SUCCESS) {
    throw Failure(std::string(device->name) + ": urma_query_device failed");
  }
  const auto& lanes = attr.dev_cap.priority_info;
  if (lanes[kUsualPriority].tp_type.bs.ctp != 0) return {kUsualPriority, URMA_CTP};
  for (uint8_t i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    if (lanes[i].tp_type.bs.ctp != 0) return {i, URMA_CTP};
  }
  for (uint8_t i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    if (lanes[i].tp_type.bs.rtp != 0) return {i, URMA_RTP};
  }
  return {0, URMA_RTP};
}

Port::Port(const Place& place, uint32_t id, uint32_t slots)
    : place_(place),
      lane_(pick_lane(place.device)),
      slots_(slots),
      memory_(size_t{slots + 1} * kMaxSize) {
  ctx_.reset(urma_create_context(place_.device, place_.eid_index));
  require(ctx_ != nullptr, place_, "urma_create_context");
  urma_seg_cfg_t cfg = {};
  cfg.va = reinterpret_cast<uint64_t>(memory_.data());
  cfg.len = memory_.size();
  cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  segment_.reset(urma_register_seg(ctx_.get(), &cfg));
  require(segment_ != nullptr, place_, "urma_register_seg");
  open_queues(id);
  for (uint32_t slot = 0; slot < slots; ++slot) receive(slot);
}

void Port::open_queues(uint32_t id) {
  jfce_.reset(urma_create_jfce(ctx_.get()));
  require(jfce_ != nullptr, place_, "urma_create_jfce");
  urma_jfc_cfg_t jfc_cfg = {};
  jfc_cfg.depth = 2 * slots_ + kSendDepth;
  jfc_cfg.jfce = jfce_.get();
  jfc_.reset(urma_create_jfc(ctx_.get(), &jfc_cfg));
  require(jfc_ != nullptr, place_, "urma_create_jfc");
  urma_jfr_cfg_t jfr_cfg = {};
  jfr_cfg.depth = slots_;
  jfr_cfg.trans_mode = URMA_TM_RM;
  jfr_cfg.max_sge = 1;
  jfr_cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
  jfr_cfg.jfc = jfc_.get();
  jfr_.reset(urma_create_jfr(ctx_.get(), &jfr_cfg));
  require(jfr_ != nullptr, place_, "urma_create_jfr");
  urma_jetty_cfg_t cfg = {};
  cfg.id = id;
  cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
  cfg.jfs_cfg = send_config(kSendDepth);
  cfg.shared.jfr = jfr_.get();
  jetty_.reset(urma_create_jetty(ctx_.get(), &cfg));
  if (jetty_ == nullptr && id != 0 && errno == EEXIST) {
    throw Failure(std::string(place_.device->name) + ", EID " + to_text(place_.eid) +
                  ": another process answers pings there already");
  }
  require(jetty_ != nullptr, place_, "urma_create_jetty with id " + std::to_string(id));
}

urma_jfs_cfg_t Port::send_config(uint32_t depth) const {
  urma_jfs_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.trans_mode = URMA_TM_RM;
  cfg.priority = lane_.priority;
  cfg.max_sge = 1;
  cfg.rnr_retry = kRnrRetry;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfc = jfc_.get();
  return cfg;
}

Target Port::import(const urma_eid_t& eid, uint32_t id, urma_target_type_t type) const {
  urma_rjetty_t remote = {};
  remote.jetty_id.eid = eid;
  remote.jetty_id.id = id;
  remote.trans_mode = URMA_TM_RM;
  remote.type = type;
  remote.tp_type = lane_.tp_type;
  return Target(urma_import_jetty(ctx_.get(), &remote, nullptr));
}

SendQueue Port::make_send_queue(uint32_t depth) const {
  urma_jfs_cfg_t cfg = send_config(depth);
  return SendQueue(urma_create_jfs(ctx_.get(), &cfg));
}

urma_jfs_wr_t Port::request(uint32_t slot, uint32_t size, uint64_t immediate,
                            urma_target_jetty_t* target, urma_sge_t* sge) const {
  *sge = {};
  sge->addr = reinterpret_cast<uint64_t>(memory_.data() + size_t{slot} * kMaxSize);
  sge->len = size;
  sge->tseg = segment_.get();
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND_IMM;
  wr.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  wr.tjetty = target;
  wr.send.src = {sge, 1};
  wr.send.imm_data = immediate;
  return wr;
}

void Port::receive(uint32_t slot) {
  urma_sge_t sge = {};
  sge.addr = reinterpret_cast<uint64_t>(slot_memory(slot));
  sge.len = kMaxSize;
  sge.tseg = segment_.get();
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  wr.user_ctx = slot;
  urma_jfr_wr_t* bad = nullptr;
  if (urma_post_jetty_recv_wr(jetty_.get(), &wr, &bad) != URMA_SUCCESS) {
    throw Failure(std::string(place_.device->name) + ": urma_post_jetty_recv_wr failed");
  }
}

bool Port::poll(urma_cr_t* record) {
  const int n = urma_poll_jfc(jfc_.get(), 1, record);
  if (n < 0) throw Failure(std::string(place_.device->name) + ": urma_poll_jfc failed");
  return n == 1;
}

void Port::arm() {
  if (urma_rearm_jfc(jfc_.get(), false) != URMA_SUCCESS) {
    throw Failure(std::string(place_.device->name) + ": urma_rearm_jfc failed");
  }
}

void Port::disarm() {
  urma_jfc_t* raised = nullptr;
  uint32_t one = 1;
  const int n = urma_wait_jfc(jfce_.get(), 1, 0, &raised);
  if (n < 0) throw Failure(std::string(place_.device->name) + ": urma_wait_jfc failed");
  if (n == 1) urma_ack_jfc(&raised, &one, 1);
}

}  // namespace ping
