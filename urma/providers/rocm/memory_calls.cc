// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/memory_calls.h"

#include <algorithm>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/base/text.h"

namespace urma::rocm {
namespace {

// NULL if the agent has none.
const Pool* find_pool(const Topology& topology, const Agent& agent, urma_ext_pool_t kind) {
  const bool fine = kind != URMA_EXT_POOL_COARSE;
  const Agent& owner = kind == URMA_EXT_POOL_HOST ? *topology.cpu() : agent;
  const auto found = std::find_if(owner.pools.begin(), owner.pools.end(), [=](const Pool& pool) {
    return pool.is_fine() == fine && !pool.is_kernarg();
  });
  return found == owner.pools.end() ? nullptr : &*found;
}

hsa_amd_pointer_info_t look_up(const HsaApi& api, const void* address) {
  hsa_amd_pointer_info_t info;
  const auto status = pointer_info(api, address, &info);
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_FAIL, "hsa_amd_pointer_info of {:#x}: {}", reinterpret_cast<uint64_t>(address),
         status_text(api, status));
  }
  return info;
}

}  // namespace

void* allocate(const HsaRuntime& runtime, const Agent& agent, urma_ext_pool_t pool,
               uint64_t bytes) {
  const HsaApi& api = runtime.api();
  const Topology& topology = runtime.topology();
  const Pool* const from = static_cast<uint32_t>(pool) <= URMA_EXT_POOL_HOST
                               ? find_pool(topology, agent, pool)
                               : nullptr;
  if (from == nullptr) {
    fail(URMA_EINVAL, "ext_alloc_device: agent {} has no pool of kind {}; see urma_ext_pool_t",
         agent.name, static_cast<uint32_t>(pool));
  }
  void* memory = nullptr;
  const auto status = api.hsa_amd_memory_pool_allocate(from->handle, bytes, 0, &memory);
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_ENOMEM, "ext_alloc_device: {} bytes from a pool of {}: {}", bytes, from->bytes,
         status_text(api, status));
  }
  // The list replaces the one in force: it has to name all agents.
  const auto agents = topology.handles();
  const auto allowed = api.hsa_amd_agents_allow_access(static_cast<uint32_t>(agents.size()),
                                                       agents.data(), nullptr, memory);
  // A CPU that can never access the pool must not be named.
  if (allowed != HSA_STATUS_SUCCESS) {
    const auto engines = topology.engines();
    const auto status = api.hsa_amd_agents_allow_access(static_cast<uint32_t>(engines.size()),
                                                        engines.data(), nullptr, memory);
    if (status != HSA_STATUS_SUCCESS) {
      api.hsa_amd_memory_pool_free(memory);
      fail(URMA_ENOMEM, "ext_alloc_device: hsa_amd_agents_allow_access: {}",
           status_text(api, status));
    }
  }
  return memory;
}

void deallocate(const HsaApi& api, void* memory) {
  const hsa_amd_pointer_info_t info = look_up(api, memory);
  const bool ours = info.type == HSA_EXT_POINTER_TYPE_HSA && info.agentBaseAddress == memory;
  const auto status = ours ? api.hsa_amd_memory_pool_free(memory) : HSA_STATUS_ERROR;
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_EINVAL, "ext_free_device: {:#x} is not what urma_ext_alloc_device returned",
         reinterpret_cast<uint64_t>(memory));
  }
}

void query(const HsaRuntime& runtime, const std::vector<DeviceInfo>& devices, const void* address,
           urma_ext_address_t* told) {
  const Topology& topology = runtime.topology();
  *told = {};
  const hsa_amd_pointer_info_t info = look_up(runtime.api(), address);
  if (info.type == HSA_EXT_POINTER_TYPE_UNKNOWN || info.type == HSA_EXT_POINTER_TYPE_LOCKED) {
    return;
  }
  const Agent* const owner = topology.find(info.agentOwner);
  told->allocated = 1;
  told->attached = info.type == HSA_EXT_POINTER_TYPE_HSA ? 0 : 1;
  told->base = reinterpret_cast<uint64_t>(info.agentBaseAddress);
  told->bytes = info.sizeInBytes;
  if (owner == nullptr) return;
  const bool fine = (info.global_flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0;
  told->pool = fine ? (owner->gpu ? URMA_EXT_POOL_FINE : URMA_EXT_POOL_HOST) : URMA_EXT_POOL_COARSE;
  told->cpu = told->attached == 0 && info.hostBaseAddress == info.agentBaseAddress &&
              topology.cpu_reaches(info.agentOwner, info.global_flags);
  for (const Pool& pool : owner->pools) {
    if (pool.flags == info.global_flags) told->page_bytes = pool.granule;
  }
  for (const DeviceInfo& device : devices) {
    if (device.agent == owner) copy_text(told->device, device.name);
  }
}

}  // namespace urma::rocm
