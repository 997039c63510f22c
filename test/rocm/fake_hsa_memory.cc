// SPDX-License-Identifier: MIT
//
// Memory of the fake: allocated, locked, and shared with other processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "test/rocm/fake_hsa.h"
#include "test/rocm/fake_hsa_state.h"

namespace fake_hsa {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPoolsPerAgent = 16;

struct Shared {
  uint32_t magic;
  uint32_t pid;
  uint32_t fd;
  uint32_t agent;
  uint64_t bytes;
  uint32_t flags;
  uint32_t reserved;
};
static_assert(sizeof(Shared) == sizeof(hsa_amd_ipc_memory_t));

bool cpu_reaches(uint64_t agent, uint32_t flags) {
  const bool fine = (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0;
  return agent == kCpu || (fine && state().setting("BAR") != 0);
}

// Takes the descriptor. False if the kernel lacks resources.
bool map(int fd, uint64_t bytes, uint64_t agent, uint32_t flags, hsa_amd_pointer_type_t type,
         void** made) {
  void* const shadow = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shadow == MAP_FAILED) return false;
  void* base = shadow;
  if (!cpu_reaches(agent, flags)) base = reinterpret_cast<void*>(state().setting("AT"));
  if (base == nullptr) {
    base = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
  }
  *made = base;
  const auto addr = reinterpret_cast<uint64_t>(base);
  const std::lock_guard lock(state().mutex);
  state().memory[addr] = {addr, bytes, static_cast<char*>(shadow), fd, agent, flags, type, {}};
  return true;
}

// Like a runtime that waits for a peer.
void hang() {
  state().count("ATTACHES");
  const auto begun = std::chrono::steady_clock::now();
  std::unique_lock lock(state().mutex);
  const auto end = [&] { return begun + std::chrono::milliseconds(state().numbers["HANG_MS"]); };
  while (std::chrono::steady_clock::now() < end()) state().changed.wait_until(lock, end());
}

}  // namespace

int open_shared(uint32_t pid, uint32_t fd) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
  const int found = ::open(path, O_RDWR | O_CLOEXEC);
  hang();
  return found;
}

namespace {

hsa_status_t unmap(void* base, hsa_amd_pointer_type_t type) {
  std::unique_lock lock(state().mutex);
  const auto found = state().memory.find(reinterpret_cast<uint64_t>(base));
  if (found == state().memory.end() || found->second.type != type) {
    return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  }
  auto on_free = std::move(found->second.on_free);
  found->second.on_free.clear();
  lock.unlock();
  for (const auto& [call, data] : on_free) call(base, data);
  lock.lock();
  const Memory gone = found->second;
  state().memory.erase(found);
  ::munmap(gone.shadow, gone.bytes);
  if (gone.shadow != base && state().numbers["AT"] == 0) ::munmap(base, gone.bytes);
  ::close(gone.fd);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t detach(void* base, hsa_amd_pointer_type_t type) {
  const hsa_status_t status = unmap(base, type);
  if (status != HSA_STATUS_SUCCESS) return status;
  state().count("ATTACHED", -1);
  state().count("DETACHED");
  return status;
}

}  // namespace
}  // namespace fake_hsa

using fake_hsa::kLockedAt;
using fake_hsa::Memory;
using fake_hsa::state;

bool fake_hsa_read(const void* from, void* to, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  const char* const found = state().reach(reinterpret_cast<uint64_t>(from), bytes);
  if (found != nullptr) std::memcpy(to, found, bytes);
  return found != nullptr;
}

bool fake_hsa_write(void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  char* const found = state().reach(reinterpret_cast<uint64_t>(to), bytes);
  if (found != nullptr) std::memcpy(found, from, bytes);
  return found != nullptr;
}

extern "C" {

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size,
                                          uint32_t /*flags*/, void** ptr) {
  const uint64_t bytes = (size + fake_hsa::kPage - 1) / fake_hsa::kPage * fake_hsa::kPage;
  uint32_t flags = 0;
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
  size_t most = 0;
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &most);
  if (size == 0 || size > most) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const int fd = ::memfd_create("fake-hsa", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      !fake_hsa::map(fd, bytes, pool.handle / fake_hsa::kPoolsPerAgent, flags,
                     HSA_EXT_POINTER_TYPE_HSA, ptr)) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  state().count("ALLOCATIONS");
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  const hsa_status_t status = fake_hsa::unmap(ptr, HSA_EXT_POINTER_TYPE_HSA);
  if (status == HSA_STATUS_SUCCESS) state().count("ALLOCATIONS", -1);
  return status;
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t /*num_agents*/, const hsa_agent_t* /*agents*/,
                                         const uint32_t* /*flags*/, const void* ptr) {
  const std::lock_guard lock(state().mutex);
  return state().find(reinterpret_cast<uint64_t>(ptr), 1) != nullptr
             ? HSA_STATUS_SUCCESS
             : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

hsa_status_t hsa_amd_pointer_info(const void* ptr, hsa_amd_pointer_info_t* info,
                                  void* (* /*alloc*/)(size_t), uint32_t* /*agents*/,
                                  hsa_agent_t** /*accessible*/) {
  if (ptr == nullptr || info == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const uint32_t size = info->size;
  *info = {};
  info->size = size;
  info->agentOwner = {fake_hsa::kCpu};
  const std::lock_guard lock(state().mutex);
  const Memory* const found = state().find(reinterpret_cast<uint64_t>(ptr), 1);
  if (found == nullptr) return HSA_STATUS_SUCCESS;
  void* const base = reinterpret_cast<void*>(found->base);
  info->type = found->type;
  info->agentBaseAddress = base;
  info->hostBaseAddress = found->shadow == base ? base : nullptr;
  info->sizeInBytes = found->bytes;
  info->agentOwner = {found->agent};
  info->global_flags = found->flags;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_lock(void* host_ptr, size_t size, hsa_agent_t* /*agents*/,
                                 int /*num_agent*/, void** agent_ptr) {
  if (state().setting("FAIL_LOCK") != 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const std::lock_guard lock(state().mutex);
  state().locked.emplace(reinterpret_cast<uint64_t>(host_ptr), size);
  state().numbers["LOCKED"] = static_cast<long>(state().locked.size());
  ++state().numbers["LOCKS"];
  *agent_ptr = static_cast<char*>(host_ptr) + kLockedAt;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().locked.find(reinterpret_cast<uint64_t>(host_ptr));
  if (found == state().locked.end()) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  state().locked.erase(found);
  state().numbers["LOCKED"] = static_cast<long>(state().locked.size());
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_create(void* ptr, size_t len, hsa_amd_ipc_memory_t* handle) {
  const std::lock_guard lock(state().mutex);
  const Memory* const found = state().find(reinterpret_cast<uint64_t>(ptr), len);
  if (found == nullptr || found->base != reinterpret_cast<uint64_t>(ptr) || found->bytes != len) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  const fake_hsa::Shared shared = {fake_hsa::kHandleMagic,
                                   static_cast<uint32_t>(::getpid()),
                                   static_cast<uint32_t>(found->fd),
                                   static_cast<uint32_t>(found->agent),
                                   found->bytes,
                                   found->flags,
                                   0};
  std::memcpy(handle, &shared, sizeof(shared));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* handle, size_t len,
                                       uint32_t /*num_agents*/, const hsa_agent_t* /*agents*/,
                                       void** mapped) {
  fake_hsa::Shared shared;
  std::memcpy(&shared, handle, sizeof(shared));
  if (shared.magic != fake_hsa::kHandleMagic || shared.bytes != len) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  const int fd = fake_hsa::open_shared(shared.pid, shared.fd);
  const uint64_t bytes = state().setting("SHORT_ATTACH") != 0 ? fake_hsa::kPage : len;
  if (fd < 0 ||
      !fake_hsa::map(fd, bytes, shared.agent, shared.flags, HSA_EXT_POINTER_TYPE_IPC, mapped)) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  state().count("ATTACHED");
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_detach(void* mapped) {
  return fake_hsa::detach(mapped, HSA_EXT_POINTER_TYPE_IPC);
}

hsa_status_t hsa_amd_interop_map_buffer(uint32_t /*num_agents*/, hsa_agent_t* /*agents*/,
                                        int handle, uint32_t /*flags*/, size_t* size, void** ptr,
                                        size_t* /*metadata_size*/, const void** /*metadata*/) {
  struct stat status = {};
  const int fd = ::dup(handle);
  fake_hsa::hang();
  if (fd < 0 || ::fstat(fd, &status) != 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *size =
      state().setting("SHORT_ATTACH") != 0 ? fake_hsa::kPage : static_cast<size_t>(status.st_size);
  if (!fake_hsa::map(fd, *size, fake_hsa::kFirstGpu, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED,
                     HSA_EXT_POINTER_TYPE_GRAPHICS, ptr)) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  state().count("ATTACHED");
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_interop_unmap_buffer(void* ptr) {
  return fake_hsa::detach(ptr, HSA_EXT_POINTER_TYPE_GRAPHICS);
}

__attribute__((visibility("default"))) hsa_status_t hsa_amd_portable_export_dmabuf(
    const void* ptr, size_t size, int* dmabuf, uint64_t* offset) {
  if (state().setting("DMABUF") == 0) return HSA_STATUS_ERROR;
  const std::lock_guard lock(state().mutex);
  const Memory* const found = state().find(reinterpret_cast<uint64_t>(ptr), size);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (found->agent == fake_hsa::kCpu) return HSA_STATUS_ERROR_INVALID_AGENT;
  *dmabuf = ::fcntl(found->fd, F_DUPFD_CLOEXEC, 0);
  *offset = reinterpret_cast<uint64_t>(ptr) - found->base;
  return HSA_STATUS_SUCCESS;
}

__attribute__((visibility("default"))) hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf) {
  return ::close(dmabuf) == 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR;
}

hsa_status_t hsa_amd_register_deallocation_callback(void* ptr, hsa_amd_deallocation_callback_t call,
                                                    void* data) {
  const std::lock_guard lock(state().mutex);
  Memory* const found = state().find(reinterpret_cast<uint64_t>(ptr), 1);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  found->on_free.emplace_back(call, data);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_deregister_deallocation_callback(void* ptr,
                                                      hsa_amd_deallocation_callback_t call) {
  const std::lock_guard lock(state().mutex);
  Memory* const found = state().find(reinterpret_cast<uint64_t>(ptr), 1);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::erase_if(found->on_free, [=](const auto& entry) { return entry.first == call; });
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
