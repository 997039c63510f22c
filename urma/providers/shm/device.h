// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_SHM_DEVICE_H_
#define URMA_PROVIDERS_SHM_DEVICE_H_

#include "urma_types.h"

namespace urma::shm {

inline constexpr char kDeviceName[] = "urma_shm0";

// What urma_query_device says of it. Programs size their queues, and choose their priorities, by
// these values.
urma_device_attr_t device_attr(uint32_t eid_count);

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_DEVICE_H_
