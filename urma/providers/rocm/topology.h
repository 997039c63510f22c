// SPDX-License-Identifier: MIT
//
// The agents of the HSA runtime that own memory, and their pools.
#ifndef URMA_PROVIDERS_ROCM_TOPOLOGY_H_
#define URMA_PROVIDERS_ROCM_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "urma/providers/rocm/hsa_api.h"

namespace urma::rocm {

struct Pool {
  hsa_amd_memory_pool_t handle;
  uint32_t flags;  // hsa_amd_memory_pool_global_flag_t
  uint64_t bytes;
  uint64_t granule;
  bool cpu_reaches;  // a CPU agent can be allowed to access it

  bool is_fine() const { return (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0; }
  bool is_kernarg() const { return (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) != 0; }
};

struct Agent {
  hsa_agent_t handle;
  bool gpu;
  uint32_t node;
  std::string name;         // the runtime's name
  std::vector<Pool> pools;  // those that can be allocated from
};

struct Topology {
  std::vector<Agent> agents;

  bool has_gpu() const;
  const Agent* find(hsa_agent_t handle) const;
  // The first CPU agent; NULL if there is none.
  const Agent* cpu() const;
  std::vector<hsa_agent_t> handles() const;
  // The GPU agents; without any, all agents.
  std::vector<hsa_agent_t> engines() const;
  // Whether the CPU can reach memory of the owner from a pool with these flags.
  bool cpu_reaches(hsa_agent_t owner, uint32_t flags) const;
};

// Asks the runtime, which is initialised. Throws Error.
Topology find_agents(const HsaApi& api);

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_TOPOLOGY_H_
