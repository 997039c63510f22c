// SPDX-License-Identifier: MIT
//
// Agents and pools of the fake, its settings and its counters.
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "test/rocm/fake_hsa.h"
#include "test/rocm/fake_hsa_state.h"

namespace fake_hsa {
namespace {

struct Setting {
  const char* name;
  long value;
};
constexpr Setting kSettings[] = {
    {"GPUS", 1},         {"BAR", 0},         {"DMABUF", 1},        {"ENGINES", 3},
    {"DELAY_US", 0},     {"HOLD", 0},        {"REORDER", 0},       {"FAIL_COPIES", 0},
    {"HANG_MS", 0},      {"INIT_STATUS", 0}, {"REFUSE_COPIES", 0}, {"FAIL_LOCK", 0},
    {"SHORT_ATTACH", 0}, {"POOL_MIB", 4096}, {"LET", 0},           {"AT", 0}};

struct PoolKind {
  uint32_t flags;
  bool gpu;
};
constexpr PoolKind kPools[] = {
    {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, false},
    {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT | HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
     false},
    {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, false},
    {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, true},
    {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, true}};
constexpr uint64_t kPoolsPerAgent = 16;

}  // namespace

State& state() {
  static auto& the_state = *new State;
  return the_state;
}

State::State() {
  for (const Setting& setting : kSettings) {
    const char* text = std::getenv((std::string("FAKE_HSA_") + setting.name).c_str());
    numbers[setting.name] = text == nullptr ? setting.value : std::atol(text);
  }
}

long State::setting(const std::string& name) {
  const std::lock_guard lock(mutex);
  return numbers[name];
}

void State::set(const std::string& name, long value) {
  const std::lock_guard lock(mutex);
  numbers[name] = value;
  changed.notify_all();
}

void State::count(const std::string& name, long more) {
  const std::lock_guard lock(mutex);
  numbers[name] += more;
}

Memory* State::find(uint64_t addr, uint64_t bytes) {
  auto entry = memory.upper_bound(addr);
  if (entry == memory.begin()) return nullptr;
  Memory& found = (--entry)->second;
  const uint64_t offset = addr - found.base;
  return offset < found.bytes && bytes <= found.bytes - offset ? &found : nullptr;
}

char* State::reach(uint64_t addr, uint64_t bytes) {
  if (addr < kLockedAt) {
    const Memory* const found = find(addr, bytes);
    return found == nullptr ? nullptr : found->shadow + (addr - found->base);
  }
  addr -= kLockedAt;
  for (const auto& [begin, length] : locked) {
    if (addr >= begin && addr - begin <= length && bytes <= length - (addr - begin)) {
      return reinterpret_cast<char*>(addr);
    }
  }
  return nullptr;
}

}  // namespace fake_hsa

using fake_hsa::kCpu;
using fake_hsa::kFirstGpu;
using fake_hsa::kPools;
using fake_hsa::kPoolsPerAgent;
using fake_hsa::state;

void fake_hsa_set(const char* name, long value) { state().set(name, value); }
long fake_hsa_get(const char* name) { return state().setting(name); }

extern "C" {

hsa_status_t hsa_init() {
  const long status = state().setting("INIT_STATUS");
  if (status != 0) return static_cast<hsa_status_t>(status);
  const std::lock_guard lock(state().mutex);
  ++state().initialised;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_shut_down() {
  const std::lock_guard lock(state().mutex);
  if (state().initialised == 0) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  --state().initialised;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t /*status*/, const char** text) {
  *text = "what the fake says";
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t /*what*/, void* /*value*/) {
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*visit)(hsa_agent_t, void*), void* data) {
  const auto gpus = static_cast<uint64_t>(state().setting("GPUS"));
  for (uint64_t agent = kCpu; agent < kFirstGpu + gpus; ++agent) {
    const hsa_status_t status = visit({agent}, data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t what, void* value) {
  const bool gpu = agent.handle >= kFirstGpu;
  switch (what) {
    case HSA_AGENT_INFO_DEVICE: {
      const hsa_device_type_t type = gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU;
      std::memcpy(value, &type, sizeof(type));
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AGENT_INFO_NODE: {
      const auto node = static_cast<uint32_t>(agent.handle - 1);
      std::memcpy(value, &node, sizeof(node));
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AGENT_INFO_NAME:
      std::strcpy(static_cast<char*>(value), gpu ? "gfx000" : "Fake CPU");
      return HSA_STATUS_SUCCESS;
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
                                                hsa_status_t (*visit)(hsa_amd_memory_pool_t, void*),
                                                void* data) {
  for (uint64_t kind = 0; kind < std::size(kPools); ++kind) {
    if (kPools[kind].gpu != (agent.handle >= kFirstGpu)) continue;
    const hsa_status_t status = visit({agent.handle * kPoolsPerAgent + kind}, data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
                                          hsa_amd_memory_pool_info_t what, void* value) {
  const uint64_t kind = pool.handle % kPoolsPerAgent;
  if (kind >= std::size(kPools)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  switch (what) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT: {
      const hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GLOBAL;
      std::memcpy(value, &segment, sizeof(segment));
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
      std::memcpy(value, &kPools[kind].flags, sizeof(uint32_t));
      return HSA_STATUS_SUCCESS;
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE: {
      const auto pool_bytes = static_cast<size_t>(state().setting("POOL_MIB")) << 20;
      const size_t bytes = what == HSA_AMD_MEMORY_POOL_INFO_SIZE ? pool_bytes : 4096;
      std::memcpy(value, &bytes, sizeof(bytes));
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED: {
      const bool allowed = true;
      std::memcpy(value, &allowed, sizeof(allowed));
      return HSA_STATUS_SUCCESS;
    }
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t pool,
                                                hsa_amd_agent_memory_pool_info_t /*what*/,
                                                void* value) {
  const auto& kind = kPools[pool.handle % kPoolsPerAgent];
  const bool fine = (kind.flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0;
  const bool never = agent.handle == kCpu && kind.gpu && !(fine && state().setting("BAR") != 0);
  const hsa_amd_memory_pool_access_t access =
      never ? HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED
            : HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;
  std::memcpy(value, &access, sizeof(access));
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
