// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/device.h"

#include <algorithm>

#include "jetty/device_limits.h"
#include "segment/page_size.h"
#include "urma/base/log.h"
#include "urma/base/text.h"

namespace urma::rocm {
namespace {

// No request moves more than the largest pool holds.
uint32_t max_transfer(const Agent& agent) {
  uint64_t largest = 0;
  for (const Pool& pool : agent.pools) largest = std::max(largest, pool.bytes);
  constexpr uint64_t kMost = kMaxSoftwareMessage;
  return static_cast<uint32_t>(largest == 0 ? kMost : std::min(largest, kMost));
}

// The page sizes of all pools, as a mask of powers of two.
uint32_t page_sizes(const Agent& agent) {
  uint64_t sizes = 0;
  for (const Pool& pool : agent.pools) sizes |= pool.granule;
  if (sizes == 0) sizes = page_bytes();
  return static_cast<uint32_t>(sizes);
}

urma_device_attr_t describe(const Agent& agent, const std::string& name, uint32_t eid_count) {
  urma_device_attr_t attr = software_device(name.c_str(), eid_count);
  urma_device_cap_t& cap = attr.dev_cap;
  cap.max_msg_size = cap.max_read_size = cap.max_write_size = max_transfer(agent);
  // Memory is locked for the engines.
  cap.feature.bs.non_pin = 0;
  cap.page_size_cap = page_sizes(agent);
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
