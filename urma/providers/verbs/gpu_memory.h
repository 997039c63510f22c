// SPDX-License-Identifier: MIT
//
// Segments in memory of GPUs, which another provider pins for the RDMA device.
#ifndef URMA_PROVIDERS_VERBS_GPU_MEMORY_H_
#define URMA_PROVIDERS_VERBS_GPU_MEMORY_H_

#include <functional>
#include <map>
#include <memory>

#include "jetty/async_events.h"
#include "segment/segment.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/registrations.h"

namespace urma::verbs {

// Of one context. Thread-safe.
class GpuMemory {
 public:
  // All outlive it.
  GpuMemory(const Registry* registry, Registrations* registrations, SegmentTable* table,
            AsyncEvents* events);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  bool has(uint64_t va) const;
  // Pins memory of a GPU, and registers it by `enter`, which takes a dma-buf and the offset there.
  // NULL with errno, or Error, if either fails; nothing has changed then.
  using Enter = std::function<urma_target_seg_t*(int dmabuf, uint64_t offset)>;
  urma_target_seg_t* enter(uint64_t va, uint64_t bytes, const char* device, const Enter& enter);
  // Call before the segment is unregistered. Returns what unpins it, to call afterwards; empty for
  // other memory.
  std::function<void()> leave(const urma_target_seg_t* segment);

 private:
  struct Pinned;

  static void on_freed(void* pinned);

  const Registry* const registry_;
  Registrations* const registrations_;
  SegmentTable* const table_;
  AsyncEvents* const events_;
  Mutex mutex_;
  std::map<const urma_target_seg_t*, std::shared_ptr<Pinned>> pinned_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_GPU_MEMORY_H_
