// SPDX-License-Identifier: MIT
#include "jetty/device_limits.h"

#include <algorithm>
#include <cstring>

#include "jetty/work_request.h"
#include "segment/page_size.h"

namespace urma {
namespace {

constexpr uint32_t kMaxSoftwareInline = 512;
constexpr uint32_t kMaxSoftwareSge = 16;

}  // namespace

void fill_priorities(urma_device_cap_t* cap) {
  for (uint32_t i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    cap->priority_info[i].SL = i;
    auto& type = cap->priority_info[i].tp_type;
    if (i < 8) {
      type.bs.rtp = 1;
    } else if (i < 14) {
      type.bs.ctp = 1;
    } else {
      type.bs.utp = 1;
    }
  }
}

void fill_transport(urma_device_cap_t* cap, bool datagrams) {
  cap->trans_mode = URMA_TM_RM | URMA_TM_RC;
  cap->congestion_ctrl_alg = URMA_CC_NONE;
  cap->rm_order_cap.bs.oi = 1;
  cap->rm_tp_cap.bs.rtp = 1;
  cap->rm_tp_cap.bs.ctp = 1;
  cap->rc_order_cap.bs.ot = 1;
  cap->rc_order_cap.bs.ol = 1;
  cap->rc_order_cap.bs.no = 1;
  cap->rc_tp_cap.bs.rtp = 1;
  cap->rc_tp_cap.bs.ctp = 1;
  if (!datagrams) return;
  cap->trans_mode |= URMA_TM_UM;
  cap->um_tp_cap.bs.ctp = 1;
  cap->um_tp_cap.bs.utp = 1;
}

void fill_atomics(urma_device_cap_t* cap, uint32_t cas_bytes) {
  cap->max_cas_size = cas_bytes;
  cap->max_swap_size = 8;
  cap->max_fetch_and_add_size = 8;
  cap->max_fetch_and_sub_size = 8;
  cap->max_fetch_and_and_size = 8;
  cap->max_fetch_and_or_size = 8;
  cap->max_fetch_and_xor_size = 8;
  cap->atomic_feat.bs.cas = 1;
  cap->atomic_feat.bs.swap = 1;
  cap->atomic_feat.bs.fetch_and_add = 1;
  cap->atomic_feat.bs.fetch_and_sub = 1;
  cap->atomic_feat.bs.fetch_and_and = 1;
  cap->atomic_feat.bs.fetch_and_or = 1;
  cap->atomic_feat.bs.fetch_and_xor = 1;
}

void fill_object_limits(urma_device_cap_t* cap) {
  cap->max_jfc = kMaxObjects;
  cap->max_jfs = kMaxObjects;
  cap->max_jfr = kMaxObjects;
  cap->max_jetty = kMaxObjects;
  cap->max_jetty_grp = kMaxObjects;
  cap->max_jetty_in_jetty_grp = URMA_MAX_JETTY_IN_JETTY_GRP;
}

urma_device_attr_t software_device(const char* name, uint32_t eid_count) {
  urma_device_attr_t attr = {};
  std::memcpy(attr.guid.raw, name, std::min(std::strlen(name), sizeof(attr.guid.raw)));
  urma_device_cap_t& cap = attr.dev_cap;
  fill_object_limits(&cap);
  fill_transport(&cap, true);
  fill_atomics(&cap, kHasWideAtomics ? 16 : 8);
  fill_priorities(&cap);
  cap.max_jfc_depth = kMaxQueueDepth;
  cap.max_jfs_depth = kMaxQueueDepth;
  cap.max_jfr_depth = kMaxQueueDepth;
  cap.max_jfs_inline_len = kMaxSoftwareInline;
  cap.max_jfs_sge = kMaxSoftwareSge;
  cap.max_jfs_rsge = kMaxSoftwareSge;
  cap.max_jfr_sge = kMaxSoftwareSge;
  cap.max_msg_size = kMaxSoftwareMessage;
  cap.max_read_size = kMaxSoftwareMessage;
  cap.max_write_size = kMaxSoftwareMessage;
  cap.ceq_cnt = 1;
  cap.max_eid_cnt = eid_count;
  cap.max_netaddr_cnt = eid_count;
  cap.feature.bs.non_pin = 1;
  cap.feature.bs.muti_seg_per_token_id = 1;
  cap.feature.bs.jetty_grp = 1;
  cap.page_size_cap = page_bytes();
  attr.port_cnt = 1;
  attr.port_attr[0] = {URMA_MTU_8192, URMA_PORT_ACTIVE, URMA_LINK_X16, URMA_SP_400G, URMA_MTU_8192};
  attr.reserved_jetty_id_min = 1;
  attr.reserved_jetty_id_max = kMaxObjects;
  return attr;
}

urma_speed_t speed_of(uint64_t megabits) {
  struct Step {
    uint64_t megabits;
    urma_speed_t speed;
  };
  constexpr Step kSteps[] = {
      {800000, URMA_SP_800G}, {400000, URMA_SP_400G}, {200000, URMA_SP_200G},
      {100000, URMA_SP_100G}, {50000, URMA_SP_50G},   {40000, URMA_SP_40G},
      {25000, URMA_SP_25G},   {14000, URMA_SP_14G},   {10000, URMA_SP_10G},
      {5000, URMA_SP_5G},     {2500, URMA_SP_2_5G},   {1000, URMA_SP_1G},
      {100, URMA_SP_100M},
  };
  for (const auto& step : kSteps) {
    if (megabits >= step.megabits) return step.speed;
  }
  return URMA_SP_10M;
}

}  // namespace urma
