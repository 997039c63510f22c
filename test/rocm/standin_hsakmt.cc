// SPDX-License-Identifier: MIT
//
// A stand-in for Debian 12's libhsakmt, so that its unmodified ROCr 5.2.3 runs without /dev/kfd:
// one node with CPUs, memory backed by anonymous files, and events. Calls that a system without a
// GPU never needs are refused.
#include <fcntl.h>
#if __has_include(<hsakmt.h>)
#include <hsakmt.h>
#else  // Debian 13
#include <hsakmt/hsakmt.h>
#endif
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace {

struct Memory {
  uint64_t bytes;
  int fd;  // -1: of the program itself
  HsaMemFlags flags;
  HSA_POINTER_TYPE type;
  void* user_data;
};

std::mutex mutex;
std::condition_variable changed;
std::map<uint64_t, Memory> memory;
constexpr uint64_t kMemoryBytes = 1ULL << 32;
constexpr uint32_t kMagic = 0x55524d41;

struct Event : HsaEvent {
  bool manual;
  bool set;
};

uint64_t number(const void* address) { return reinterpret_cast<uint64_t>(address); }

bool map(int fd, uint64_t bytes, HsaMemFlags flags, HSA_POINTER_TYPE type, void** address) {
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (made == MAP_FAILED) return false;
  const std::lock_guard lock(mutex);
  memory[number(made)] = {bytes, fd, flags, type, nullptr};
  *address = made;
  return true;
}

HSAKMT_STATUS forget(void* address) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(number(address));
  if (found == memory.end()) return HSAKMT_STATUS_MEMORY_NOT_REGISTERED;
  if (found->second.fd >= 0) {
    munmap(address, found->second.bytes);
    close(found->second.fd);
  }
  memory.erase(found);
  return HSAKMT_STATUS_SUCCESS;
}

// The set ones; those without a manual reset are consumed.
bool take(HsaEvent* events[], uint32_t count, bool all) {
  uint32_t set = 0;
  for (uint32_t i = 0; i < count; ++i) set += static_cast<Event*>(events[i])->set ? 1 : 0;
  if (set == 0 || (all && set != count)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    auto* const event = static_cast<Event*>(events[i]);
    if (!event->manual) event->set = false;
  }
  return true;
}

}  // namespace

extern "C" {

HSAKMT_STATUS hsaKmtOpenKFD() { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtCloseKFD() { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtReleaseSystemProperties() { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtRuntimeEnable(void*, bool) { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtRuntimeDisable() { return HSAKMT_STATUS_SUCCESS; }

HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo* version) {
  *version = {1, 10};
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties* properties) {
  *properties = {};
  properties->NumNodes = 1;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeProperties(HSAuint32, HsaNodeProperties* properties) {
  *properties = {};
  properties->NumCPUCores = 2;
  properties->NumMemoryBanks = 1;
  properties->MaxEngineClockMhzCCompute = 1000;
  std::strcpy(reinterpret_cast<char*>(properties->AMDName), "stand-in");
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeMemoryProperties(HSAuint32, HSAuint32 banks,
                                            HsaMemoryProperties* properties) {
  for (uint32_t i = 0; i < banks; ++i) {
    properties[i] = {};
    properties[i].HeapType = HSA_HEAPTYPE_SYSTEM;
    properties[i].SizeInBytes = kMemoryBytes;
  }
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeCacheProperties(HSAuint32, HSAuint32, HSAuint32, HsaCacheProperties*) {
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32, HSAuint32, HsaIoLinkProperties*) {
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetClockCounters(HSAuint32, HsaClockCounters* counters) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t ns = now.tv_sec * 1'000'000'000ULL + now.tv_nsec;
  *counters = {};
  counters->GPUClockCounter = counters->CPUClockCounter = counters->SystemClockCounter = ns;
  counters->SystemClockFrequencyHz = 1'000'000'000;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtAllocMemory(HSAuint32, HSAuint64 bytes, HsaMemFlags flags, void** address) {
  const int fd = memfd_create("standin-hsakmt", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      !map(fd, bytes, flags, HSA_POINTER_ALLOCATED, address)) {
    return HSAKMT_STATUS_NO_MEMORY;
  }
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtFreeMemory(void* address, HSAuint64) { return forget(address); }

HSAKMT_STATUS hsaKmtRegisterMemoryWithFlags(void* address, HSAuint64 bytes, HsaMemFlags flags) {
  const std::lock_guard lock(mutex);
  memory.emplace(number(address), Memory{bytes, -1, flags, HSA_POINTER_REGISTERED_USER, nullptr});
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDeregisterMemory(void* address) { return forget(address); }

HSAKMT_STATUS hsaKmtMapMemoryToGPU(void*, HSAuint64, HSAuint64* there) {
  if (there != nullptr) *there = 0;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void*, HSAuint64, HSAuint64* there, HsaMemMapFlags,
                                        HSAuint64, HSAuint32*) {
  if (there != nullptr) *there = 0;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtUnmapMemoryToGPU(void*) { return HSAKMT_STATUS_SUCCESS; }

HSAKMT_STATUS hsaKmtShareMemory(void* address, HSAuint64 bytes, HsaSharedMemoryHandle* handle) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(number(address));
  if (found == memory.end() || found->second.fd < 0 || found->second.bytes < bytes) {
    return HSAKMT_STATUS_INVALID_PARAMETER;
  }
  const uint64_t shared = found->second.bytes;
  const uint32_t words[8] = {kMagic,
                             static_cast<uint32_t>(getpid()),
                             static_cast<uint32_t>(found->second.fd),
                             found->second.flags.Value,
                             static_cast<uint32_t>(shared),
                             static_cast<uint32_t>(shared >> 32),
                             0,
                             0};
  std::memcpy(*handle, words, sizeof(words));
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandle(const HsaSharedMemoryHandle* handle, void** address,
                                         HSAuint64* bytes) {
  const HSAuint32* const words = *handle;
  if (words[0] != kMagic) return HSAKMT_STATUS_INVALID_HANDLE;
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%u/fd/%u", words[1], words[2]);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  HsaMemFlags flags;
  flags.Value = words[3];
  *bytes = words[4] | uint64_t{words[5]} << 32;
  if (fd < 0 || !map(fd, *bytes, flags, HSA_POINTER_REGISTERED_SHARED, address)) {
    return HSAKMT_STATUS_INVALID_HANDLE;
  }
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandleToNodes(const HsaSharedMemoryHandle* handle, void** address,
                                                HSAuint64* bytes, HSAuint64, HSAuint32*) {
  return hsaKmtRegisterSharedHandle(handle, address, bytes);
}

HSAKMT_STATUS hsaKmtQueryPointerInfo(const void* address, HsaPointerInfo* info) {
  *info = {};
  const std::lock_guard lock(mutex);
  auto found = memory.upper_bound(number(address));
  if (found == memory.begin()) return HSAKMT_STATUS_SUCCESS;
  --found;
  if (number(address) - found->first >= found->second.bytes) return HSAKMT_STATUS_SUCCESS;
  info->Type = found->second.type;
  info->MemFlags = found->second.flags;
  info->CPUAddress = reinterpret_cast<void*>(found->first);
  info->GPUAddress = found->first;
  info->SizeInBytes = found->second.bytes;
  info->UserData = found->second.user_data;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetMemoryUserData(const void* address, void* data) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(number(address));
  if (found == memory.end()) return HSAKMT_STATUS_MEMORY_NOT_REGISTERED;
  found->second.user_data = data;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor* description, bool manual, bool set,
                                HsaEvent** event) {
  static uint32_t last = 0;
  auto* const made = new Event;
  static_cast<HsaEvent&>(*made) = {};
  made->EventId = ++last;
  made->EventData.EventType = description->EventType;
  made->manual = manual;
  made->set = set;
  *event = made;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent* event) {
  delete static_cast<Event*>(event);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetEvent(HsaEvent* event) {
  const std::lock_guard lock(mutex);
  static_cast<Event*>(event)->set = true;
  changed.notify_all();
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent* events[], HSAuint32 count, bool all,
                                         HSAuint32 ms) {
  std::unique_lock lock(mutex);
  const auto ready = [&] { return take(events, count, all); };
  if (ms == HSA_EVENTTIMEOUT_INFINITE) {
    changed.wait(lock, ready);
    return HSAKMT_STATUS_SUCCESS;
  }
  return changed.wait_for(lock, std::chrono::milliseconds(ms), ready) ? HSAKMT_STATUS_SUCCESS
                                                                      : HSAKMT_STATUS_WAIT_TIMEOUT;
}

HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent* event, HSAuint32 ms) {
  return hsaKmtWaitOnMultipleEvents(&event, 1, true, ms);
}

// The rest is for GPUs.
#define NOT_HERE(name)                    \
  HSAKMT_STATUS name##_() __asm__(#name); \
  HSAKMT_STATUS name##_() { return HSAKMT_STATUS_NOT_SUPPORTED; }

NOT_HERE(hsaKmtAllocQueueGWS)
NOT_HERE(hsaKmtCreateQueue)
NOT_HERE(hsaKmtDestroyQueue)
NOT_HERE(hsaKmtGetTileConfig)
NOT_HERE(hsaKmtGetXNACKMode)
NOT_HERE(hsaKmtRegisterGraphicsHandleToNodes)
NOT_HERE(hsaKmtSVMGetAttr)
NOT_HERE(hsaKmtSVMSetAttr)
NOT_HERE(hsaKmtSetMemoryPolicy)
NOT_HERE(hsaKmtSetQueueCUMask)
NOT_HERE(hsaKmtSetTrapHandler)
NOT_HERE(hsaKmtSetXNACKMode)
NOT_HERE(hsaKmtUpdateQueue)

}  // extern "C"
