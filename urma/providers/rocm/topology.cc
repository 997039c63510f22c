// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/topology.h"

#include <algorithm>
#include <utility>

#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma::rocm {
namespace {

// The argument of the runtime's callbacks, which must not throw.
template <typename Handle>
hsa_status_t collect(Handle handle, void* list) noexcept {
  try {
    static_cast<std::vector<Handle>*>(list)->push_back(handle);
    return HSA_STATUS_SUCCESS;
  } catch (...) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
}

void require(const HsaApi& api, const char* call, hsa_status_t status) {
  if (status != HSA_STATUS_SUCCESS) fail(URMA_FAIL, "{}: {}", call, status_text(api, status));
}

// A pool of global memory that can be allocated from; nothing for another pool.
std::optional<Pool> look_at(const HsaApi& api, hsa_amd_memory_pool_t handle) {
  const auto info = [&](hsa_amd_memory_pool_info_t what, void* value) {
    require(api, "hsa_amd_memory_pool_get_info",
            api.hsa_amd_memory_pool_get_info(handle, what, value));
  };
  hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GROUP;
  info(HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
  if (segment != HSA_AMD_SEGMENT_GLOBAL) return std::nullopt;
  bool allowed = false;
  info(HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
  if (!allowed) return std::nullopt;
  Pool pool = {handle, 0, 0, 0, false};
  size_t bytes = 0, granule = 0;
  info(HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &pool.flags);
  info(HSA_AMD_MEMORY_POOL_INFO_SIZE, &bytes);
  info(HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE, &granule);
  pool.bytes = bytes;
  pool.granule = granule;
  return pool;
}

bool may_reach(const HsaApi& api, const Agent& agent, const Pool& pool) {
  hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  const auto status = api.hsa_amd_agent_memory_pool_get_info(
      agent.handle, pool.handle, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access);
  return status == HSA_STATUS_SUCCESS && access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
}

Agent look_at(const HsaApi& api, hsa_agent_t handle) {
  const auto info = [&](hsa_agent_info_t what, void* value) {
    require(api, "hsa_agent_get_info", api.hsa_agent_get_info(handle, what, value));
  };
  Agent agent = {handle, false, 0, {}, {}};
  hsa_device_type_t type = HSA_DEVICE_TYPE_DSP;
  info(HSA_AGENT_INFO_DEVICE, &type);
  agent.gpu = type == HSA_DEVICE_TYPE_GPU;
  info(HSA_AGENT_INFO_NODE, &agent.node);
  char name[64] = {};
  info(HSA_AGENT_INFO_NAME, name);
  name[sizeof(name) - 1] = '\0';
  agent.name = name;
  if (!agent.gpu && type != HSA_DEVICE_TYPE_CPU) return agent;
  std::vector<hsa_amd_memory_pool_t> pools;
  require(api, "hsa_amd_agent_iterate_memory_pools",
          api.hsa_amd_agent_iterate_memory_pools(handle, collect<hsa_amd_memory_pool_t>, &pools));
  for (const hsa_amd_memory_pool_t pool : pools) {
    if (const auto found = look_at(api, pool)) agent.pools.push_back(*found);
  }
  return agent;
}

}  // namespace

bool Topology::has_gpu() const {
  return std::any_of(agents.begin(), agents.end(), [](const Agent& agent) { return agent.gpu; });
}

const Agent* Topology::find(hsa_agent_t handle) const {
  const auto found = std::find_if(agents.begin(), agents.end(), [=](const Agent& agent) {
    return agent.handle.handle == handle.handle;
  });
  return found == agents.end() ? nullptr : &*found;
}

const Agent* Topology::cpu() const {
  const auto found =
      std::find_if(agents.begin(), agents.end(), [](const Agent& agent) { return !agent.gpu; });
  return found == agents.end() ? nullptr : &*found;
}

std::vector<hsa_agent_t> Topology::handles() const {
  std::vector<hsa_agent_t> handles;
  for (const Agent& agent : agents) handles.push_back(agent.handle);
  return handles;
}

std::vector<hsa_agent_t> Topology::engines() const {
  if (!has_gpu()) return handles();
  std::vector<hsa_agent_t> gpus;
  for (const Agent& agent : agents) {
    if (agent.gpu) gpus.push_back(agent.handle);
  }
  return gpus;
}

bool Topology::cpu_reaches(hsa_agent_t owner, uint32_t flags) const {
  const Agent* agent = find(owner);
  if (agent == nullptr) return false;
  if (!agent->gpu) return true;
  return std::any_of(agent->pools.begin(), agent->pools.end(),
                     [=](const Pool& pool) { return pool.flags == flags && pool.cpu_reaches; });
}

Topology find_agents(const HsaApi& api) {
  std::vector<hsa_agent_t> handles;
  require(api, "hsa_iterate_agents", api.hsa_iterate_agents(collect<hsa_agent_t>, &handles));
  Topology found;
  for (const hsa_agent_t handle : handles) {
    Agent agent = look_at(api, handle);
    if (!agent.pools.empty()) found.agents.push_back(std::move(agent));
  }
  for (Agent& agent : found.agents) {
    for (Pool& pool : agent.pools) {
      pool.cpu_reaches =
          !agent.gpu || (found.cpu() != nullptr && may_reach(api, *found.cpu(), pool));
    }
  }
  return found;
}

}  // namespace urma::rocm
