// SPDX-License-Identifier: MIT
//
// The functions of libhsa-runtime64 that this provider calls, found with dlsym: a machine without
// the library lacks only this provider's devices.
#ifndef URMA_PROVIDERS_ROCM_HSA_API_H_
#define URMA_PROVIDERS_ROCM_HSA_API_H_

#include <cstdint>
#include <string>

#include "urma/providers/rocm/hsa.h"

namespace urma::rocm {

// Functions that every usable runtime has.
#define URMA_ROCM_FUNCTIONS(X)              \
  X(hsa_init)                               \
  X(hsa_shut_down)                          \
  X(hsa_status_string)                      \
  X(hsa_system_get_info)                    \
  X(hsa_iterate_agents)                     \
  X(hsa_agent_get_info)                     \
  X(hsa_amd_agent_iterate_memory_pools)     \
  X(hsa_amd_memory_pool_get_info)           \
  X(hsa_amd_agent_memory_pool_get_info)     \
  X(hsa_amd_memory_pool_allocate)           \
  X(hsa_amd_memory_pool_free)               \
  X(hsa_amd_agents_allow_access)            \
  X(hsa_amd_pointer_info)                   \
  X(hsa_amd_memory_lock)                    \
  X(hsa_amd_memory_unlock)                  \
  X(hsa_amd_memory_async_copy)              \
  X(hsa_signal_create)                      \
  X(hsa_signal_destroy)                     \
  X(hsa_signal_load_scacquire)              \
  X(hsa_signal_store_relaxed)               \
  X(hsa_signal_wait_scacquire)              \
  X(hsa_amd_signal_create)                  \
  X(hsa_amd_signal_async_handler)           \
  X(hsa_amd_ipc_memory_create)              \
  X(hsa_amd_ipc_memory_attach)              \
  X(hsa_amd_ipc_memory_detach)              \
  X(hsa_amd_ipc_signal_create)              \
  X(hsa_amd_ipc_signal_attach)              \
  X(hsa_amd_interop_map_buffer)             \
  X(hsa_amd_interop_unmap_buffer)           \
  X(hsa_amd_register_deallocation_callback) \
  X(hsa_amd_deregister_deallocation_callback)

// Functions that Debian 12's headers lack.
using ExportDmabuf = hsa_status_t (*)(const void* ptr, size_t size, int* dmabuf, uint64_t* offset);
using CloseDmabuf = hsa_status_t (*)(int dmabuf);
using CopyOnEngine = hsa_status_t (*)(void* dst, hsa_agent_t dst_agent, const void* src,
                                      hsa_agent_t src_agent, size_t size, uint32_t dependencies,
                                      const hsa_signal_t* dependency_signals,
                                      hsa_signal_t completion, uint32_t engine_id,
                                      bool force_copy_on_sdma);
using CopyEngineStatus = hsa_status_t (*)(hsa_agent_t dst_agent, hsa_agent_t src_agent,
                                          uint32_t* engine_ids);

struct HsaApi {
#define URMA_ROCM_MEMBER(name) decltype(&::name) name = nullptr;
  URMA_ROCM_FUNCTIONS(URMA_ROCM_MEMBER)
#undef URMA_ROCM_MEMBER
  // NULL if the runtime is older than they are.
  ExportDmabuf export_dmabuf = nullptr;
  CloseDmabuf close_dmabuf = nullptr;
  CopyOnEngine copy_on_engine = nullptr;
  CopyEngineStatus copy_engine_status = nullptr;
};

// Opens the library, and keeps it open: its threads may outlive the code that would close it. False
// if it cannot be used; *why says why.
bool load_hsa(const char* library, HsaApi* api, std::string* why);

// What the runtime knows of an address; nothing in *info if that fails.
hsa_status_t pointer_info(const HsaApi& api, const void* address, hsa_amd_pointer_info_t* info);

// The runtime's text for a status.
std::string status_text(const HsaApi& api, hsa_status_t status);

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_HSA_API_H_
