// SPDX-License-Identifier: MIT
#include "urma/providers/shm/device.h"

#include <cstring>

#include "jetty/work_request.h"

namespace urma::shm {
namespace {

// Ids are slot << 16 | index, so a process has so many of each kind.
constexpr uint32_t kMaxObjects = 65535;
constexpr uint32_t kMaxDepth = 65536;
constexpr uint32_t kMaxInline = 512;
constexpr uint32_t kMaxSge = 16;
constexpr uint32_t kMaxTransfer = 1U << 31;

// Every priority carries exactly one transport type, and all three occur: programs look for the
// first that equals theirs.
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

void fill_atomics(urma_device_cap_t* cap) {
  cap->max_cas_size = kHasWideAtomics ? 16 : 8;
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

void fill_operations(urma_device_cap_t* cap) {
  cap->max_msg_size = kMaxTransfer;
  cap->max_read_size = kMaxTransfer;
  cap->max_write_size = kMaxTransfer;
  fill_atomics(cap);
  cap->trans_mode = URMA_TM_RM | URMA_TM_RC | URMA_TM_UM;
  cap->congestion_ctrl_alg = URMA_CC_NONE;
  cap->rm_order_cap.bs.oi = 1;
  cap->rm_tp_cap.bs.rtp = 1;
  cap->rm_tp_cap.bs.ctp = 1;
  cap->rc_order_cap.bs.ot = 1;
  cap->rc_order_cap.bs.ol = 1;
  cap->rc_order_cap.bs.no = 1;
  cap->rc_tp_cap.bs.rtp = 1;
  cap->rc_tp_cap.bs.ctp = 1;
  cap->um_tp_cap.bs.ctp = 1;
  cap->um_tp_cap.bs.utp = 1;
}

void fill_queues(urma_device_cap_t* cap) {
  cap->max_jfc = kMaxObjects;
  cap->max_jfs = kMaxObjects;
  cap->max_jfr = kMaxObjects;
  cap->max_jetty = kMaxObjects;
  cap->max_jetty_grp = kMaxObjects;
  cap->max_jetty_in_jetty_grp = URMA_MAX_JETTY_IN_JETTY_GRP;
  cap->max_jfc_depth = kMaxDepth;
  cap->max_jfs_depth = kMaxDepth;
  cap->max_jfr_depth = kMaxDepth;
  cap->max_jfs_inline_len = kMaxInline;
  cap->max_jfs_sge = kMaxSge;
  cap->max_jfs_rsge = kMaxSge;
  cap->max_jfr_sge = kMaxSge;
  cap->ceq_cnt = 1;
}

void fill_port(urma_device_attr_t* attr) {
  attr->port_cnt = 1;
  attr->port_attr[0] = {URMA_MTU_8192, URMA_PORT_ACTIVE, URMA_LINK_X16, URMA_SP_400G,
                        URMA_MTU_8192};
}

}  // namespace

urma_device_attr_t device_attr(uint32_t eid_count) {
  urma_device_attr_t attr = {};
  std::memcpy(attr.guid.raw, kDeviceName, sizeof(kDeviceName));
  fill_queues(&attr.dev_cap);
  fill_operations(&attr.dev_cap);
  fill_priorities(&attr.dev_cap);
  fill_port(&attr);
  attr.dev_cap.max_eid_cnt = eid_count;
  attr.dev_cap.max_netaddr_cnt = eid_count;
  attr.dev_cap.feature.bs.non_pin = 1;
  attr.dev_cap.feature.bs.muti_seg_per_token_id = 1;
  attr.dev_cap.feature.bs.jetty_grp = 1;
  attr.dev_cap.page_size_cap = 4096;
  attr.reserved_jetty_id_min = 1;
  attr.reserved_jetty_id_max = kMaxObjects;
  return attr;
}

}  // namespace urma::shm
