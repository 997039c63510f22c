// SPDX-License-Identifier: MIT
#include "urma/providers/shm/device.h"

#include <cstring>

#include "jetty/device_limits.h"
#include "jetty/work_request.h"

namespace urma::shm {
namespace {

constexpr uint32_t kMaxInline = 512;
constexpr uint32_t kMaxSge = 16;
constexpr uint32_t kMaxTransfer = 1U << 31;

void fill_queues(urma_device_cap_t* cap) {
  fill_object_limits(cap);
  cap->max_jfc_depth = kMaxQueueDepth;
  cap->max_jfs_depth = kMaxQueueDepth;
  cap->max_jfr_depth = kMaxQueueDepth;
  cap->max_jfs_inline_len = kMaxInline;
  cap->max_jfs_sge = kMaxSge;
  cap->max_jfs_rsge = kMaxSge;
  cap->max_jfr_sge = kMaxSge;
  cap->max_msg_size = kMaxTransfer;
  cap->max_read_size = kMaxTransfer;
  cap->max_write_size = kMaxTransfer;
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
  fill_transport(&attr.dev_cap, true);
  fill_atomics(&attr.dev_cap, kHasWideAtomics ? 16 : 8);
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
