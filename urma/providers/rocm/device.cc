// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/device.h"

#include <algorithm>
#include <cstring>

#include "jetty/device_limits.h"
#include "jetty/work_request.h"
#include "segment/page_size.h"
#include "urma/base/log.h"
#include "urma/base/text.h"

namespace urma::rocm {
namespace {

constexpr uint32_t kMaxInline = 512;
constexpr uint32_t kMaxSge = 16;
constexpr uint64_t kMaxTransfer = 1U << 31;

// No request moves more than the largest pool holds.
uint32_t max_transfer(const Agent& agent) {
  uint64_t largest = 0;
  for (const Pool& pool : agent.pools) largest = std::max(largest, pool.bytes);
  return static_cast<uint32_t>(largest == 0 ? kMaxTransfer : std::min(largest, kMaxTransfer));
}

// The page sizes of all pools, as a mask of powers of two.
uint32_t page_sizes(const Agent& agent) {
  uint64_t sizes = 0;
  for (const Pool& pool : agent.pools) sizes |= pool.granule;
  if (sizes == 0) sizes = page_bytes();
  return static_cast<uint32_t>(sizes);
}

urma_device_attr_t describe(const Agent& agent, const std::string& name, uint32_t eid_count) {
  urma_device_attr_t attr = {};
  std::memcpy(attr.guid.raw, name.data(), std::min(name.size(), sizeof(attr.guid.raw)));
  urma_device_cap_t* cap = &attr.dev_cap;
  fill_object_limits(cap);
  cap->max_jfc_depth = kMaxQueueDepth;
  cap->max_jfs_depth = kMaxQueueDepth;
  cap->max_jfr_depth = kMaxQueueDepth;
  cap->max_jfs_inline_len = kMaxInline;
  cap->max_jfs_sge = kMaxSge;
  cap->max_jfs_rsge = kMaxSge;
  cap->max_jfr_sge = kMaxSge;
  cap->max_msg_size = max_transfer(agent);
  cap->max_read_size = max_transfer(agent);
  cap->max_write_size = max_transfer(agent);
  cap->ceq_cnt = 1;
  fill_transport(cap, true);
  fill_atomics(cap, kHasWideAtomics ? 16 : 8);
  fill_priorities(cap);
  cap->max_eid_cnt = eid_count;
  cap->max_netaddr_cnt = eid_count;
  cap->feature.bs.muti_seg_per_token_id = 1;
  cap->feature.bs.jetty_grp = 1;
  cap->page_size_cap = page_sizes(agent);
  attr.port_cnt = 1;
  attr.port_attr[0] = {URMA_MTU_8192, URMA_PORT_ACTIVE, URMA_LINK_X16, URMA_SP_400G, URMA_MTU_8192};
  attr.reserved_jetty_id_min = 1;
  attr.reserved_jetty_id_max = kMaxObjects;
  return attr;
}

}  // namespace

std::vector<DeviceInfo> list_devices(const Topology& topology, bool with_cpus, uint32_t eid_count) {
  std::vector<DeviceInfo> devices;
  uint32_t gpus = 0, cpus = 0;
  for (const Agent& agent : topology.agents) {
    if (!agent.gpu && !with_cpus) continue;
    const std::string name =
        agent.gpu ? urma::format("urma_rocm{}", gpus++) : urma::format("urma_hsa{}", cpus++);
    devices.push_back({name, &agent, describe(agent, name, eid_count)});
  }
  return devices;
}

}  // namespace urma::rocm
