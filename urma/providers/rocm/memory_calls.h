// SPDX-License-Identifier: MIT
//
// The calls of urma_ext.h on memory of agents.
#ifndef URMA_PROVIDERS_ROCM_MEMORY_CALLS_H_
#define URMA_PROVIDERS_ROCM_MEMORY_CALLS_H_

#include <string>
#include <vector>

#include "urma/providers/rocm/device.h"
#include "urma/providers/rocm/runtime.h"
#include "urma_ext.h"

namespace urma::rocm {

// Memory from a pool of the agent that all agents may access. Throws Error.
void* allocate(const HsaRuntime& runtime, const Agent& agent, urma_ext_pool_t pool, uint64_t bytes);
// Throws Error if it is not such memory.
void deallocate(const HsaApi& api, void* memory);
// Throws Error.
void query(const HsaRuntime& runtime, const std::vector<DeviceInfo>& devices, const void* address,
           urma_ext_address_t* info);

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_MEMORY_CALLS_H_
