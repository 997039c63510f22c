// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_SHM_DEVICE_H_
#define URMA_PROVIDERS_SHM_DEVICE_H_

#include "jetty/device_limits.h"

namespace urma::shm {

inline constexpr char kDeviceName[] = "urma_shm0";

inline urma_device_attr_t device_attr(uint32_t eid_count) {
  return software_device(kDeviceName, eid_count);
}

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_DEVICE_H_
