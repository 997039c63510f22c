// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_ROCM_DEVICE_H_
#define URMA_PROVIDERS_ROCM_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "urma/providers/rocm/topology.h"
#include "urma_types.h"

namespace urma::rocm {

// An agent that owns memory, as a device.
struct DeviceInfo {
  std::string name;
  const Agent* agent;
  urma_device_attr_t attr;
};

// GPU agents as urma_rocm0 and so on; with `with_cpus` also CPU agents as urma_hsa0 and so on.
std::vector<DeviceInfo> list_devices(const Topology& topology, bool with_cpus, uint32_t eid_count);

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_DEVICE_H_
